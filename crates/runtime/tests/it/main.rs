//! One binary for all integration tests: linking costs more than running.

mod cell;
mod http;
mod learning;
mod probes;
mod races;
mod servers;
mod stage;
