//! One binary for all integration tests, because linking takes longer than running.

mod bodies;
mod client;
mod common;
mod requests;
mod responses;
mod server;
mod smuggling;
