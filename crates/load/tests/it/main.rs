//! Tests of the load generator against real sockets on loopback. They form one binary, because each
//! binary would be linked separately.

mod agents;
mod calibrate;
mod common;
mod goaway;
mod open_loop;
mod outcomes;
mod plan;
mod protocols;
mod schedule;
mod tls;
