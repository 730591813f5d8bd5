//! All integration tests are in one binary, because linking them takes longer than running them.

mod bodies;
mod client;
mod common;
mod http2;
mod relayed;
mod requests;
mod responses;
mod server;
mod smuggling;
mod streams;
