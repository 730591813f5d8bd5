//! The load generator against real sockets on loopback: one binary, for each would be linked by itself.

mod agents;
mod agents_refused;
mod calibrate;
mod common;
mod crew;
mod errors;
mod goaway;
mod grpc;
mod h2_server;
mod http2;
mod lines;
mod open_loop;
mod pace;
mod plan;
mod requests;
mod samples;
mod schedule;
mod tls;
mod udp;
