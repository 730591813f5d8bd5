//! How a copy of a query reaches a server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Weak;
use std::time::Duration;

use curtail_kernel::{CopyId, Feedback, Outcome, Role, ServerId};

use crate::failure::Failure;

/// The rest of a response: ends when its server is done with it. `Err` when it broke off.
pub type Tail = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// What a server answered.
pub struct Head<R> {
    /// The response, or its beginning.
    pub response: R,
    /// What it is worth.
    pub outcome: Outcome,
    /// The time after which a server that refused may take requests again.
    pub retry_after: Option<Duration>,
    /// What the server reports of itself, where it does.
    pub feedback: Option<Feedback>,
    /// Its rest, where that is still to come. The server's slot stays taken until it has.
    pub tail: Option<Tail>,
}

impl<R> Head<R> {
    /// A whole, good response.
    pub fn whole(response: R) -> Self {
        let (retry_after, feedback, tail) = (None, None, None);
        Self { response, outcome: Outcome::Good, retry_after, feedback, tail }
    }
}

/// Hears of a copy from its transport.
pub(crate) trait Listener: Send + Sync {
    fn unwanted(&self, copy: CopyId);
    fn progress(&self, copy: CopyId);
    fn began(&self, copy: CopyId);
}

/// A copy, as its transport may refer to it.
#[derive(Clone)]
pub struct CopyHandle {
    pub(crate) cell: Weak<dyn Listener>,
    pub(crate) copy: CopyId,
    pub(crate) role: Role,
}

impl CopyHandle {
    /// Is it the query's own copy, or one that hedges it? A transport may tell the server.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The client does not want the rest of the response. The kernel may order the copy to stop.
    pub fn unwanted(&self) {
        if let Some(cell) = self.cell.upgrade() {
            cell.unwanted(self.copy);
        }
    }

    /// The server has begun with the copy: it waits there no longer. For policies that follow that (`tied`).
    pub fn began(&self) {
        if let Some(cell) = self.cell.upgrade() {
            cell.began(self.copy);
        }
    }

    /// The server sent something, though no client may want it: it is not silent. Say so now and then,
    /// well within the cancel timeout.
    pub fn progress(&self) {
        if let Some(cell) = self.cell.upgrade() {
            cell.progress(self.copy);
        }
    }
}

/// How a copy of a query reaches a server.
///
/// A copy that is ordered to stop has its future dropped: close the connection then, and never use
/// it again. Time-outs are the kernel's business.
pub trait Transport: Send + Sync + 'static {
    /// What is sent. Cloned per copy, so make it cheap.
    type Request: Clone + Send + 'static;
    /// What comes back. Dropping it must not call back into the cell.
    type Response: Send + 'static;

    /// Sends a copy to a server and waits for the head of its response.
    fn send(
        &self,
        server: ServerId,
        request: Self::Request,
        copy: CopyHandle,
    ) -> impl Future<Output = Result<Head<Self::Response>, Failure>> + Send;

    /// Asks a server how it is: how many requests are there, and what requests of late took there when about as
    /// many were, in ns. None where it does not say, or not in time.
    fn probe(&self, _server: ServerId) -> impl Future<Output = Option<(u32, u64)>> + Send {
        std::future::ready(None)
    }

    /// A server was ejected: close what is open to it and not in use.
    fn close_idle(&self, _server: ServerId) {}
}
