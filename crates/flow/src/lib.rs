//! A real-time implementation of Cicero. A process limits each workflow to a rate that it and
//! everything downstream can sustain, and schedules sub-tasks by the remaining work of their
//! requests. This crate runs the kernel's [`curtail_kernel::flow`] in real time.
//!
//! Source: document 002 §5.2. No process knows the state of the others or the paths that requests
//! take. Requests carry metadata ([`metadata`]), and responses return rates.
//!
//! # Parts
//!
//! - [`Flow`] is one process: its workflows, its resources, and the services that it calls.
//!   [`Flow::admit`] admits a request.
//! - [`Context`] belongs to one request. [`Context::subtask`] runs work on a resource.
//! - [`ServerLayer`] and [`ClientLayer`] are tower layers that admit requests and propagate
//!   metadata over HTTP and gRPC.
//! - [`Arrival`] and [`Target`] provide the individual steps of these layers to code that calls
//!   them directly.
//! - [`Flow::snapshot`] and [`Flow::render_prometheus`] report the state of the process. Each
//!   admission and each sub-task is a debug-level `tracing` span with the fields `workflow`,
//!   `wait_us` and `outcome`. A subscriber can export these spans to OpenTelemetry.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use curtail_flow::{Context, Flow, ResourceSpec, ServerLayer, Workflow};
//! use http::{Request, Response};
//! use tower::{Layer as _, ServiceExt as _};
//!
//! let flow = Flow::builder("shop")
//!     .workflow("buy", Workflow { weight: 3.0, ..Workflow::default() })
//!     .resource("disk", ResourceSpec { slots: 4, queue: 100 })
//!     .build()
//!     .unwrap();
//! let edge = ServerLayer::edge(flow, |request| Some(request.uri.path()[1..].to_owned()));
//! let service = edge.layer(tower::service_fn(|request: Request<()>| async move {
//!     let context: &Context = request.extensions().get().unwrap();
//!     let read = context.subtask("disk", None, async { "a book" }).await;
//!     Ok::<_, std::convert::Infallible>(Response::new(read.unwrap_or("nothing")))
//! }));
//! let response = service.oneshot(Request::get("/buy").body(()).unwrap()).await.unwrap();
//! assert_eq!(response.into_body(), "a book");
//! # });
//! ```
//!
//! # Bounds
//!
//! Untrusted input can create only a bounded amount of state. Workflows without a configuration
//! share one class, or a fixed number of classes ([`Builder::hash_buckets`]). Queues have
//! configured sizes. The tables of callers, services and instances are bounded.
//!
//! Cost: a request that calls another service locks one mutex up to five times. The lock is never
//! held for long, and never across an await.

mod admission;
mod arrival;
mod builder;
mod client;
mod context;
mod flow;
pub mod metadata;
mod metrics;
mod recent;
mod reject;
mod server;
mod snapshot;
mod span;
mod state;
mod subtask;
mod target;

pub use curtail_kernel::flow::{Config, ResourceSpec, Sharing, View, Workflow};
pub use curtail_kernel::schedule::Discipline;

pub use admission::{Admitted, RequestMeta};
pub use arrival::Arrival;
pub use builder::{BuildError, Builder, DEFAULT_WORKFLOW, WorkflowSpec};
pub use client::{Client, ClientLayer};
pub use context::Context;
pub use flow::Flow;
pub use reject::{Reason, Rejected};
pub use server::{Server, ServerLayer};
pub use snapshot::{ResourceSnapshot, Snapshot, WorkflowSnapshot};
pub use target::Target;
