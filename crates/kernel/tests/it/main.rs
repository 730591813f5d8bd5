//! The kernel's behaviors, one per file, checked by a referee.

mod actions;
mod bad_feedback;
mod bounded_wait;
mod duration;
mod ejection;
mod flow;
mod flow_examples;
mod hedges;
mod laedge;
mod membership;
mod observing_pick;
mod own_policy;
mod random_events;
mod rates;
mod referee;
mod refusals;
mod rescue;
mod rescue_learner;
mod rescue_prefetch;
mod retries;
mod small_cells;
mod stage;
mod stops;
mod throttler;
