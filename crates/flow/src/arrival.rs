//! Admits a request that arrives at a process, according to its headers. This module is used by
//! [`ServerLayer`](crate::ServerLayer), and by proxies that perform the steps of a hop themselves.
//!
//! Source: document 002 §5.2.4, *Metadata propagation*.
//!
//! Call the methods in this order: [`Arrival::read`], [`Arrival::strip`], [`Arrival::admit`], and
//! then [`Arrival::respond`] on the response, or [`Arrival::reject`] on the response to a request
//! that was not admitted.
//!
//! Cost: reading and writing up to three header fields.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;

use crate::admission::{Admitted, RequestMeta};
use crate::builder::DEFAULT_WORKFLOW;
use crate::flow::{Class, Flow};
use crate::metadata::{self, ResponseMeta};
use crate::reject::Rejected;

/// The maximum value of `Retry-After`, in seconds. The value is bounded because rates change.
const RETRY_AFTER_MAX: u64 = 30;

/// A request as described by its headers.
#[derive(Clone, Debug)]
pub struct Arrival {
    flow: Flow,
    class: Class,
    meta: RequestMeta,
    is_edge: bool,
}

impl Arrival {
    /// Reads the headers. `workflow` returns the workflow of a request without metadata, and of
    /// every request at a trust edge.
    #[must_use]
    pub fn read(
        flow: &Flow,
        headers: &HeaderMap,
        is_edge: bool,
        workflow: impl FnOnce() -> Option<String>,
    ) -> Self {
        let timeout = metadata::read_timeout(headers);
        let call = metadata::read_call(headers, flow.0.key.as_ref()).filter(|_| !is_edge);
        let classified = if call.is_none() { workflow() } else { None };
        let name = call.as_ref().map(|call| call.workflow.as_str()).or(classified.as_deref());
        let class = flow.0.classify(name.unwrap_or(DEFAULT_WORKFLOW));
        let meta = RequestMeta { timeout, call };
        let mut arrival = Self { flow: flow.clone(), class, meta, is_edge };
        if is_edge && arrival.has_own_deadline() {
            arrival.meta.timeout = None;
        }
        arrival
    }

    /// Shortens the timeout of the request to at most `timeout`.
    #[must_use]
    pub fn within(mut self, timeout: Duration) -> Self {
        self.meta.timeout = Some(self.meta.timeout.map_or(timeout, |of| of.min(timeout)));
        self
    }

    fn has_own_deadline(&self) -> bool {
        self.flow.0.own_deadline(self.class.id).is_some()
    }

    /// Whether the request has metadata that was accepted.
    #[must_use]
    pub fn has_metadata(&self) -> bool {
        self.meta.call.is_some()
    }

    fn caller(&self) -> Option<u32> {
        self.meta.call.as_ref().map(|call| call.caller)
    }

    /// At a trust edge, removes the headers that clients are not allowed to set.
    pub fn strip(&self, headers: &mut HeaderMap) {
        if self.is_edge {
            metadata::write_call(headers, None, None);
            if self.has_own_deadline() {
                headers.remove(metadata::GRPC_TIMEOUT);
            }
        }
    }

    /// Waits until the request is admitted. Dropping the future withdraws the request.
    ///
    /// # Errors
    /// See [`Flow::admit`].
    pub async fn admit(&self) -> Result<Admitted, Rejected> {
        self.flow.admit_class(self.class.clone(), &self.meta).await
    }

    /// Ends the request, and writes the response headers. The response carries metadata only if the
    /// request did.
    pub fn respond(&self, headers: &mut HeaderMap, admitted: Admitted, is_good: bool) {
        let caller = self.caller();
        let spent = caller.map(|_| admitted.context().progress().here);
        let announcement = admitted.finish_for(is_good, caller);
        metadata::write_response(headers, &ResponseMeta { announcement, spent });
    }

    /// Writes the headers of a rejection. `Retry-After` is set to the time needed to process the
    /// requests in the queue.
    pub fn reject(&self, headers: &mut HeaderMap) {
        let (announcement, drains_in) = self.flow.0.turned_away(self.class.id, self.caller());
        metadata::write_response(headers, &ResponseMeta { announcement, spent: None });
        headers.insert(RETRY_AFTER, retry_after(drains_in).into());
    }
}

fn retry_after(drains_in: Duration) -> u64 {
    (drains_in.as_secs_f64().ceil() as u64).clamp(1, RETRY_AFTER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_retry_after_whole_seconds_and_not_too_late() {
        let seconds = [0, 2_100, 60_000].map(|ms| retry_after(Duration::from_millis(ms)));
        assert_eq!(seconds, [1, 3, 30]);
    }
}
