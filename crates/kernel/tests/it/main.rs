//! The kernel's behaviors, a file each, all watched by a referee.

mod app_timeout;
mod cancel_timeout;
mod clone;
mod duration;
mod ejection;
mod hedge_budget;
mod laedge;
mod observing_pick;
mod probabilistic;
mod random_events;
mod referee;
mod rescue;
mod rescue_audit;
mod rescue_learner;
mod rescue_prefetch;
mod retries;
mod small_worlds;
mod tied;
