//! HTTP between a client, a proxy and a replica.
//!
//! [`h1`] implements HTTP/1.1, and its heads ([`h1::RequestHead`], [`h1::ResponseHead`]) serve for all
//! versions. [`h2`] converts between these heads and the messages of the `h2` crate. [`grpc`] contains what gRPC adds.

pub mod grpc;
pub mod h1;
pub mod h2;
mod pieces;
mod timer;

pub use pieces::Pieces;
pub use timer::Timer;
