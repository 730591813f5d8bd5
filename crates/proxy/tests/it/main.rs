//! One binary for all integration tests, because linking takes longer than running.

mod admin;
mod backends;
mod draining;
mod failures;
mod feedback;
mod harness;
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
