//! Runs the kernel in real time.
//!
//! A [`Cell`] owns a kernel cell and drives it. Queries arrive through [`Cell::query`], the kernel
//! makes the decisions, and a [`Transport`] sends copies to servers. One lock per cell guards the
//! kernel. It is held only briefly, and nothing is awaited while it is held.
//!
//! The crate `curtail` builds services from tower services on top of this one. Use this crate to
//! write a transport or a proxy of your own.
//!
//! # The parts
//!
//! - [`Transport`]: sends copies to servers.
//! - [`Service`]: the cells with the same policy, and what they learn from each other.
//! - [`health`]: checks of the health of servers.
//! - [`http`]: the transport of the proxy, HTTP/1.1 over pooled connections.
//! - [`Cell`]: the driver. [`Cell::server_up`] and the methods after it are for health checks,
//!   [`Cell::server_left`] and [`Cell::server_joined`] for service discovery.
//! - [`Observer`]: receives events for metrics.
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
//! use curtail_kernel::{Limits, Policy, ServerId, Topology};
//! use curtail_runtime::{
//!     CopyContext, Failure, Head, Query, ServiceBuilder, Timers, Transport,
//! };
//!
//! struct Replicas([&'static str; 2]);
//!
//! impl Transport for Replicas {
//!     type Request = String;
//!     type Response = String;
//!
//!     async fn send(
//!         &self,
//!         server: ServerId,
//!         query: String,
//!         _: CopyContext,
//!     ) -> Result<Head<String>, Failure> {
//!         Ok(Head::whole(format!("{} responds to {query}", self.0[server.index()])))
//!     }
//! }
//!
//! let policy = Policy::parse("laedge", None)?;
//! let mut service = ServiceBuilder::new(policy, Limits::default(), Timers::precise(), 42);
//! service.add(&Topology::replicated(2, 1), Replicas(["a", "b"]), ())?;
//! let service = service.start();
//! let response = service.cells()[0].query(Query::new("what?".to_owned())).await?;
//! assert!(response.response.ends_with("responds to what?"));
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

#[cfg(all(unix, feature = "http"))]
pub mod accept;
mod cell;
mod clock;
mod copy;
mod drive;
mod failure;
pub mod health;
#[cfg(feature = "http")]
pub mod http;
mod inner;
mod learning;
pub mod marks;
mod observe;
mod places;
mod query;
mod reply;
mod service;
#[cfg(feature = "http")]
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
pub use places::{Occupant, Places};
pub use query::{FailedCopy, Query, QueryError, QueryResponse};
pub use reply::Reply;
pub use service::{Service, ServiceBuilder};
pub use timers::{ManualTimers, Timers};
pub use transport::{CopyContext, CopyDriver, Head, PushBack, Tail, TailEnd, Transport};
pub use workers::{Place, Workers};
