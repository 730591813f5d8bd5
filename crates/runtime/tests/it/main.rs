//! All integration tests are in one binary, because linking them takes longer than running them.

mod bound;
mod cell;
mod http;
mod learning;
mod probes;
mod races;
mod servers;
mod stage;
