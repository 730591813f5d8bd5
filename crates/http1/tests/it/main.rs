//! One binary for all integration tests: linking costs more than running.

mod bodies;
mod client;
mod common;
mod requests;
mod responses;
mod server;
mod smuggling;
