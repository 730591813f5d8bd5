//! Tests of the library through its public API, with tokio's clock paused.

mod building;
mod callers;
mod cancellation;
mod errors;
#[cfg(feature = "flow")]
mod flow;
#[cfg(feature = "http")]
mod http;
mod learning;
mod membership;
mod observing;
mod outcomes;
#[cfg(feature = "http")]
mod page;
mod repeating;
mod scripted;
