//! One binary for all integration tests: linking costs more than running.

mod cell;
mod endings;
mod http;
mod learning;
mod probes;
mod servers;
