//! The interface to a transport, which sends copies of queries to servers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll};

pub use curtail_http::grpc::PushBack;
use curtail_kernel::{CopyId, Feedback, GroupId, Outcome, Role, ServerId, StartReason};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::observe::CopyInfo;

/// The rest of a response, as a future that resolves when the server is done with it. The result is
/// `Err` if the response broke off.
pub type Tail = Pin<Box<dyn Future<Output = Result<TailEnd, Failure>> + Send>>;

/// The end of the rest of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailEnd {
    /// The outcome, if the end of the response decides it.
    pub outcome: Option<Outcome>,
    /// The size of the whole response in bytes, without the head.
    pub bytes: u64,
}

/// The response of a server: the complete response, or just its head.
pub struct Head<R> {
    /// The response, or the beginning of it.
    pub response: R,
    /// The outcome of the response.
    pub outcome: Outcome,
    /// The time before which a server that refused work wants no more of it, or its demand not to
    /// repeat this request.
    pub push_back: Option<PushBack>,
    /// The load report of the server, if it sends one.
    pub feedback: Option<Feedback>,
    /// The size of a complete response in bytes, without the head.
    pub bytes: u64,
    /// The rest of the response. The server's slot stays occupied until the future completes.
    /// `None` if the response is complete.
    pub tail: Option<Tail>,
}

impl<R> Head<R> {
    /// Returns a complete, good response.
    pub fn whole(response: R) -> Self {
        let (push_back, feedback, tail) = (None, None, None);
        Self { response, outcome: Outcome::Good, push_back, feedback, bytes: 0, tail }
    }

    /// Applies a function to the response.
    pub fn map<U>(self, map: impl FnOnce(R) -> U) -> Head<U> {
        let Self { response, outcome, push_back, feedback, bytes, tail } = self;
        Head { response: map(response), outcome, push_back, feedback, bytes, tail }
    }

    /// Returns the beginning of a good response. The server is done when `tail` resolves.
    pub fn streaming(response: R, tail: Tail) -> Self {
        Self { tail: Some(tail), ..Self::whole(response) }
    }
}

/// Hears of a copy from its transport.
pub(crate) trait Listener: Send + Sync {
    fn unwanted(&self, copy: CopyId);
    fn progress(&self, copy: CopyId);
    fn began(&self, copy: CopyId);
    fn bind(&self, copy: CopyId);
}

/// A copy, for its transport: what is known about it, and where to report what happens to it.
#[derive(Clone)]
pub struct CopyContext {
    pub(crate) cell: Weak<dyn Listener>,
    pub(crate) copy: CopyId,
    pub(crate) info: CopyInfo,
    pub(crate) attempt: u32,
    pub(crate) deadline: Option<Instant>,
}

impl fmt::Debug for CopyContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cell: _, copy, info, attempt, deadline } = self;
        f.debug_struct("CopyContext")
            .field("copy", copy)
            .field("info", info)
            .field("attempt", attempt)
            .field("deadline", deadline)
            .finish()
    }
}

impl CopyContext {
    /// Returns the group of the copy's query.
    pub fn group(&self) -> GroupId {
        self.info.group
    }

    /// Returns the server that the copy is sent to.
    pub fn server(&self) -> ServerId {
        self.info.server
    }

    /// Whether it is the query's own copy or a duplicate. A transport may forward this to the
    /// server.
    pub fn role(&self) -> Role {
        self.info.role
    }

    /// Returns the reason why the copy was started.
    pub fn why(&self) -> StartReason {
        self.info.why
    }

    /// Returns the number of copies of the query that were sent before this one.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the deadline of the query, if it has one. The kernel enforces it, and a transport may
    /// forward it to the server.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Reports that the client does not want the rest of the response. The kernel may then stop the
    /// copy.
    pub fn unwanted(&self) {
        if let Some(cell) = self.cell.upgrade() {
            cell.unwanted(self.copy);
        }
    }

    /// Reports that the server has begun to work on the copy. Only some policies use this (`tied`).
    pub fn began(&self) {
        if let Some(cell) = self.cell.upgrade() {
            cell.began(self.copy);
        }
    }

    /// Reports that the copy can be stopped only together with its query. If it must stop while
    /// another copy of the query goes on, it runs on and keeps its slot, until it or the query ends.
    pub fn stops_with_query(&self) {
        if let Some(cell) = self.cell.upgrade() {
            cell.bind(self.copy);
        }
    }

    /// Reports that the server sent something and thus is not silent, even if no client wants the
    /// data. Call this regularly, at intervals that are much shorter than the cancel timeout.
    pub fn progress(&self) {
        if let Some(cell) = self.cell.upgrade() {
            cell.progress(self.copy);
        }
    }
}

/// Polls a copy whose response has begun and not ended. The receiver of the response holds this, so
/// that the copy needs no task. Dropping it lets the copy run on in a task of its own.
pub struct CopyDriver(pub(crate) Pin<Box<dyn Future<Output = ()> + Send>>);

impl fmt::Debug for CopyDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CopyDriver")
    }
}

impl CopyDriver {
    /// Polls for the end of the copy.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

/// Sends copies of queries to servers.
///
/// If a copy must stop, its future is dropped. The transport must then close the connection and
/// never use it again. Timeouts are handled by the kernel.
pub trait Transport: Send + Sync + 'static {
    /// The type of requests. It is cloned for each copy, so cloning should be cheap.
    type Request: Clone + Send + 'static;
    /// The type of responses. Dropping one must not call back into the cell.
    type Response: Send + 'static;

    /// Sends a copy to a server and waits for the head of its response.
    fn send(
        &self,
        server: ServerId,
        request: Self::Request,
        copy: CopyContext,
    ) -> impl Future<Output = Result<Head<Self::Response>, Failure>> + Send;

    /// Probes a server for its load. Returns the number of requests there and the latency, in ns,
    /// of recent requests that found about the same number. `None` if the server does not report
    /// these in time.
    fn probe(&self, _server: ServerId) -> impl Future<Output = Option<(u32, u64)>> + Send {
        std::future::ready(None)
    }

    /// Hands over the copy of a response whose tail has not ended. The receiver of the response can
    /// then poll the copy. By default, the copy runs on in a task of its own.
    fn attach(&self, _response: &mut Self::Response, _copy: CopyDriver) {}

    /// Closes the unused connections to a server, which was ejected, is out of service, or has left.
    fn close_idle(&self, _server: ServerId) {}
}
