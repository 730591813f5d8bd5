//! Runs the kernel in real time.
//!
//! A [`Cell`] owns a kernel cell and drives it. Queries arrive through [`Cell::query`] (or the
//! tower service [`ReplicaGroup`]), the kernel makes the decisions, and a [`Transport`] sends
//! copies to servers. One lock per cell guards the kernel. It is held only briefly, and nothing is
//! awaited while it is held.
//!
//! # The parts
//!
//! - [`Transport`]: sends copies to servers. Implement it for a protocol, or use [`Services`],
//!   which sends through one tower service per server.
//! - [`http`]: the transport of the proxy, HTTP/1.1 over pooled connections.
//! - [`Cell`]: the driver. [`Cell::server_up`] and the methods after it are for health checks.
//! - [`Observer`]: receives events for metrics.
//! - [`Learning`]: lets the cells of a service learn from each other, if the policy learns.
//! - [`marks`]: functions that profilers attach to.
//! - [`accept`]: listeners that refuse clients if no file descriptors are free.
//! - [`Workers`]: threads that serve connections.
//! - [`stage`]: the server's side, which puts slots and a queue in front of your own service and
//!   reports its load.
//! - [`Timers`]: calls the kernel at its deadlines. [`Timers::precise`] is accurate to about 100
//!   µs, while tokio's timer wheel ticks in milliseconds. [`Timers::tokio`] follows tokio's clock,
//!   which tests can pause. [`Timers::manual`] is for tests that advance that clock themselves.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use curtail_kernel::{Limits, Policy, Topology, rng};
//! use curtail_runtime::{Cell, Query, Services, Timers};
//!
//! // Two replicas; any tower services will do.
//! let replica = |name: &'static str| {
//!     tower::service_fn(move |query: String| async move {
//!         Ok::<_, std::convert::Infallible>(format!("{name} responds to {query}"))
//!     })
//! };
//! let replicas = Services::new([replica("a"), replica("b")]);
//! let kernel = Policy::parse("laedge", None)?.build(
//!     &Topology::replicated(2, 1),
//!     Limits::default(),
//!     rng(42),
//! )?;
//! let cell = Cell::new(kernel, replicas, Timers::precise());
//! let response = cell.query(Query::new("what?".to_owned())).await?;
//! assert!(response.response.ends_with("responds to what?"));
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

#[cfg(unix)]
pub mod accept;
mod cell;
mod clock;
mod copy;
mod drive;
mod failure;
pub mod http;
mod inner;
mod learning;
pub mod marks;
mod observe;
mod query;
mod reply;
mod services;
pub mod stage;
mod tables;
mod timers;
mod transport;
mod waker;
mod workers;

pub use cell::Cell;
pub use failure::{Cause, Failure};
pub use learning::{Learned, Learning};
pub use observe::{CopyEnd, CopyInfo, EjectionCause, Observer, ProbeFailure};
pub use query::{Query, QueryError, QueryResponse};
pub use reply::Reply;
pub use services::{ReplicaGroup, Services};
pub use timers::{ManualTimers, Timers};
pub use transport::{CopyDriver, CopyHandle, Head, Tail, TailEnd, Transport};
pub use workers::{Place, Workers};
