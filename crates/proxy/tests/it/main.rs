//! All integration tests are in one binary, because linking them takes longer than running them.

mod admin;
mod connections;
mod descriptors;
mod draining;
mod failures;
mod feedback;
mod grpc;
mod harness;
mod http2;
mod http2_faults;
mod http2_streams;
mod limits;
mod noise;
mod outcomes;
mod peer_closed;
mod requests;
mod shards;
mod sidecar;
mod slow_clients;
mod streams;
mod throttle;
mod tls;
mod tunnels;
mod uploads;
