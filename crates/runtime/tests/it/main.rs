//! One binary for all integration tests, because linking takes longer than running.

mod cell;
mod http;
mod learning;
mod probes;
mod races;
mod servers;
mod stage;
