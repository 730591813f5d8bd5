//! Replicated services with predictable latency, from any tower services.
//!
//! A service consists of *shards*, and each shard has *servers* that can serve its queries. For each
//! query, a *policy* chooses a server and, when the query is probably stuck there, sends a second
//! copy to another server.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use std::time::Duration;
//! use curtail::{Cancel, Curtail, Query, outcome};
//!
//! // Two servers; any tower services will do.
//! let server = |name: &'static str| {
//!     tower::service_fn(move |query: String| async move {
//!         Ok::<_, std::io::Error>(format!("{name} responds to {query}"))
//!     })
//! };
//! let search = Curtail::builder()
//!     .policy("rescue".parse()?)
//!     .shard("a", [("a0", server("a0")), ("a1", server("a1"))])
//!     .slots(4)
//!     .timeout(Duration::from_secs(2))
//!     .cancellation(Cancel::OnDrop)
//!     .classify(outcome::any_response)
//!     .repeatable(|query: &String| Some(query.clone()))
//!     .build()?;
//! let answer = search.shard("a").query(Query::idempotent("what?".to_owned())).await?;
//! assert!(answer.response.ends_with("responds to what?"));
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! # The parts
//!
//! - [`Builder`]: the policy, the shards, and what the service does with requests and responses.
//! - [`Curtail`]: the service. [`Curtail::scatter`] sends a request to all shards.
//! - [`Shard`]: a tower service over the servers of one shard. [`Shard::query`] sends a [`Query`]
//!   with a deadline and a cost of its own.
//! - [`observe`] has observers for metrics.
//! - [`outcome`] has functions that judge responses.
//! - [`http`] has bodies, relayed responses, and clients for gRPC.
//! - [`CopyContext`]: what a copy knows about itself, for [`Builder::prepare`].
#![forbid(unsafe_code)]

mod builder;
mod error;
mod health;
#[cfg(feature = "http")]
pub mod http;
mod layout;
mod membership;
mod misfit;
pub mod observe;
pub mod outcome;
mod query;
mod scatter;
mod service;
mod shard;
mod transport;

pub use curtail_kernel::{
    ConfigError, Fault, Feedback, Limits, Outcome, Policy, PolicyError, Role, StartReason,
    StopReason,
};
pub use curtail_runtime::{
    CopyContext, CopyEnd, EjectionCause, Failure, Head, Learned, Tail, TailEnd, Timers,
};
pub use tokio::time::Instant;

pub use builder::{Builder, Cancel};
pub use error::{BoxError, Error, ErrorKind};
pub use layout::BuildError;
pub use membership::NoPlace;
pub use query::{Answer, Query};
pub use scatter::{Answers, Scatter, ScatterError};
pub use service::Curtail;
pub use shard::{Answering, Responding, ServerState, Shard};
pub use transport::{Carried, Load, Replica};
