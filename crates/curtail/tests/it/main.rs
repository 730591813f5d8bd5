//! Tests of the library through its public API, with tokio's clock paused.

mod building;
mod callers;
mod cancellation;
mod errors;
mod learning;
mod outcomes;
mod repeating;
mod scripted;
