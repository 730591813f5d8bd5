//! The kernel in real time.
//!
//! A [`Cell`] owns a kernel cell and drives it: queries come in through [`Cell::query`] (or the
//! tower service [`ReplicaGroup`]), the kernel decides, and a [`Transport`] carries copies to
//! servers. One short lock per cell guards the kernel; nothing is awaited under it.
//!
//! # The parts
//!
//! - [`Transport`]: how a copy reaches a server. Implement it for a protocol, or use [`Services`],
//!   which sends through one tower service per server.
//! - [`http`]: the transport of the proxy, HTTP/1.1 over pooled connections.
//! - [`Cell`]: the driver. [`Cell::server_up`] and its kin are for health checks.
//! - [`Observer`]: what metrics want to know.
//! - [`Learning`]: what the cells of a service learn from each other, with a policy that learns.
//! - [`marks`]: places that profilers attach to.
//! - [`stage`]: the other side: slots and a queue before one's own service, and what it reports of its load.
//! - [`Timers`]: when the kernel is woken. [`Timers::precise`] is exact to about 100 µs, where
//!   tokio's wheel turns in milliseconds; [`Timers::tokio`] follows tokio's clock, which tests can
//!   pause; [`Timers::manual`] waits for tests that move that clock themselves.
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

mod cell;
mod clock;
mod failure;
pub mod http;
mod inner;
mod learning;
pub mod marks;
mod observe;
mod query;
mod services;
pub mod stage;
mod tables;
mod timers;
mod transport;

pub use cell::{Cell, Reply};
pub use failure::{Cause, Failure};
pub use learning::{Learned, Learning};
pub use observe::{CopyEnd, CopyInfo, EjectionCause, Observer, ProbeFailure};
pub use query::{Query, QueryError, QueryResponse};
pub use services::{ReplicaGroup, Services};
pub use timers::{ManualTimers, Timers};
pub use transport::{CopyHandle, Head, Tail, Transport};
