//! A request that arrives at a process, by its headers: for [`ServerLayer`](crate::ServerLayer), and for proxies that
//! drive hops by hand.
//!
//! Source: document 002 §5.2.4, *Metadata propagation*.
//!
//! The order is [`Arrival::read`], [`Arrival::strip`], [`Arrival::admit`], and [`Arrival::respond`] on the response or
//! the rejection.
//!
//! Cost: that of reading and writing up to three header fields.

use http::HeaderMap;

use crate::Flow;
use crate::admission::{Admitted, RequestMeta};
use crate::builder::DEFAULT_WORKFLOW;
use crate::metadata;
use crate::reject::Rejected;

/// What the headers of a request say.
#[derive(Clone, Debug)]
pub struct Arrival {
    flow: Flow,
    workflow: String,
    meta: RequestMeta,
    is_edge: bool,
}

impl Arrival {
    /// Reads the headers. Without metadata in them, and at a trust edge, `workflow` says of which workflow it is.
    #[must_use]
    pub fn read(
        flow: &Flow,
        headers: &HeaderMap,
        is_edge: bool,
        workflow: impl FnOnce() -> Option<String>,
    ) -> Self {
        let timeout = metadata::read_timeout(headers);
        let call = metadata::read_call(headers).filter(|_| !is_edge);
        let named = match &call {
            Some(call) => Some(call.workflow.as_str().to_owned()),
            None => workflow(),
        };
        let workflow = named.unwrap_or_else(|| DEFAULT_WORKFLOW.to_owned());
        let mut arrival =
            Self { flow: flow.clone(), workflow, meta: RequestMeta { timeout, call }, is_edge };
        if is_edge && arrival.has_own_deadline() {
            arrival.meta.timeout = None;
        }
        arrival
    }

    fn has_own_deadline(&self) -> bool {
        let (id, _) = self.flow.0.classify(&self.workflow);
        self.flow.0.workflows[id.0 as usize].1.is_some()
    }

    /// At a trust edge, takes out of the headers what clients may not say.
    pub fn strip(&self, headers: &mut HeaderMap) {
        if self.is_edge {
            metadata::write_call(headers, None);
            if self.has_own_deadline() {
                headers.remove(metadata::GRPC_TIMEOUT);
            }
        }
    }

    /// Waits until the request may go on. Dropping the future withdraws the request.
    ///
    /// # Errors
    /// As of [`Flow::admit`].
    pub async fn admit(&self) -> Result<Admitted, Rejected> {
        self.flow.admit(&self.workflow, &self.meta).await
    }

    /// What a response says: to callers that sent metadata, and to no other. A rejection was not admitted.
    pub fn respond(&self, headers: &mut HeaderMap, admitted: Option<&Admitted>) {
        let call = self.meta.call.as_ref();
        let announced = call.and_then(|call| self.flow.announcement(&self.workflow, call.caller));
        let spent = admitted.filter(|_| call.is_some()).map(|of| of.context().progress().here);
        metadata::write_response(headers, announced.as_ref(), spent);
    }
}
