//! Tests of the load generator against real sockets on loopback. They form one binary, because each
//! binary would be linked separately.

mod agents;
mod agents_refused;
mod calibrate;
mod common;
mod crew;
mod errors;
mod goaway;
mod open_loop;
mod pace;
mod plan;
mod protocols;
mod requests;
mod samples;
mod schedule;
mod tls;
