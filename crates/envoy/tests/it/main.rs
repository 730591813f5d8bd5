//! Stock Envoy with the module, in front of scripted servers.
//!
//! `CURTAIL_ENVOY` names the program. `cargo xtask test` installs it and sets the variable. Without
//! it, the tests are skipped.

mod bodies;
mod client;
mod copies;
mod envoy;
mod failures;
mod formats;
mod grpc;
mod hosts;
mod leaf;
mod page;
mod reports;
