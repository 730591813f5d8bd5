//! An instance of a downstream service, for code that performs each step of a call itself. It is
//! used by [`ClientLayer`](crate::ClientLayer), and by proxies, whose balancers choose the instance
//! for each copy.
//!
//! Source: document 002 §5.2.4, *Rate aggregation*.
//!
//! For each copy, call [`Target::called`] and, if there is a response, [`Target::returned`].
//!
//! Cost: one lock acquisition per copy and one per response.

use std::sync::Arc;

use curtail_kernel::flow::{InstanceId, Spent, WorkflowId};
use http::Response;

use crate::context::Context;
use crate::flow::Flow;
use crate::metadata::{self, ResponseMeta};
use crate::reject::is_good;
use crate::state::State;

/// An instance that this process calls.
#[derive(Debug)]
pub struct Target {
    flow: Flow,
    service: String,
    instance: String,
}

impl Target {
    /// Creates an instance of a service. Its address can serve as its name. The table has room for
    /// 256 services and 256 instances of each. If the table is full, a new instance replaces
    /// another instance of the same service, and a new service is called without rate limits.
    #[must_use]
    pub fn new(flow: Flow, service: &str, instance: &str) -> Self {
        Self { flow, service: service.to_owned(), instance: instance.to_owned() }
    }

    /// Returns the number of the calling process.
    pub(crate) fn caller(&self) -> u32 {
        self.flow.0.caller
    }

    /// Returns the workflow of a context. If another process created the context, looks up the
    /// workflow by its name.
    fn workflow(&self, context: &Context) -> WorkflowId {
        match Arc::ptr_eq(&context.flow().0, &self.flow.0) {
            true => context.id(),
            false => self.flow.0.classify(context.workflow()).id,
        }
    }

    /// Applies `look` to the instance. `None` if there are too many services.
    fn with<V>(&self, look: impl FnOnce(&mut State, InstanceId) -> V) -> Option<V> {
        let (mut state, now) = self.flow.0.lock();
        let state = &mut *state;
        let id = state.services.call(&mut state.process, now, &self.service, &self.instance)?;
        Some(look(state, id))
    }

    /// Records a copy of a call to the instance. Returns the rate at which this process wants to
    /// send requests of the call's workflow to the instance, in requests per second.
    pub fn called(&self, context: &Context) -> f64 {
        let workflow = self.workflow(context);
        let called = self.with(|state, id| {
            state.process.called(id, workflow);
            state.process.wants(id, workflow)
        });
        called.unwrap_or(0.0)
    }

    /// Returns the rate that [`Self::called`] returns, but does not record a copy.
    #[must_use]
    pub fn wanted(&self, context: &Context) -> f64 {
        let workflow = self.workflow(context);
        self.with(|state, id| state.process.wants(id, workflow)).unwrap_or(0.0)
    }

    /// Records a response. Returns the time spent on the call.
    pub fn returned<B>(&self, context: &Context, response: &Response<B>) -> Option<Spent> {
        let ResponseMeta { announcement, spent } = metadata::read_response(response.headers());
        let workflow = self.workflow(context);
        let (mut state, now) = self.flow.0.lock();
        let state = &mut *state;
        // If another instance has taken the place of this one, the response is not from that
        // instance.
        if let Some(id) = state.services.touch(now, &self.service, &self.instance) {
            state.process.returned(id, workflow, is_good(response));
            if let Some(announcement) = announcement {
                state.process.announced(now, id, workflow, announcement);
            }
        }
        spent
    }
}
