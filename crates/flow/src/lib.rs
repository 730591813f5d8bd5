//! Cicero in real time: a process admits of each workflow what it and everything downstream can bear, and serves
//! sub-tasks by what their requests still need. It is the kernel's [`curtail_kernel::flow`], with a clock.
//!
//! Source: document 002 §5.2. No process knows the others or the paths of requests. Requests carry metadata
//! ([`metadata`]), and responses bring back rates.
//!
//! # Parts
//!
//! - [`Flow`] is one process: its workflows, its resources, and what it calls. [`Flow::admit`] admits a request.
//! - [`Context`] belongs to one request. [`Context::subtask`] runs work on a resource.
//! - [`ServerLayer`] and [`ClientLayer`] do both over HTTP and gRPC, as tower layers around services and clients.
//! - [`Arrival`] and [`Target`] are what these layers do, by hand.
//! - [`Flow::snapshot`] and [`Flow::render_prometheus`] show what happens; each admission and sub-task is a span of
//!   `tracing`, level debug, with `workflow`, `wait_us` and `outcome`, which a subscriber can pass to OpenTelemetry.
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
//! What comes from outside makes no state without a bound: workflows without a configuration are one class, or
//! so many ([`Builder::hash_buckets`]), queues have the sizes that they are given, and of callers, services and instances so many are known.
//!
//! Cost: up to five short locks of one mutex per request that calls another service, none across an await.

mod admission;
mod arrival;
mod builder;
mod callers;
mod client;
mod context;
mod downstream;
mod flow;
mod inner;
pub mod metadata;
mod metrics;
mod reject;
mod respond;
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
