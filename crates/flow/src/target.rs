//! An instance of a downstream service, by hand: for [`ClientLayer`](crate::ClientLayer), and for proxies, whose
//! balancers choose the instance of each copy.
//!
//! Source: document 002 §5.2.4, *Rate aggregation*.
//!
//! Per copy, the order is [`Target::called`] and, if there is a response, [`Target::returned`].
//!
//! Cost: one lock per copy and one per response.

use std::sync::{Arc, Mutex};

use curtail_kernel::flow::{InstanceId, Spent, WorkflowId};
use http::Response;

use crate::Flow;
use crate::context::Context;
use crate::downstream::Place;
use crate::inner::lock;
use crate::metadata;
use crate::respond::is_good;
use crate::state::State;

/// An instance that this process calls.
#[derive(Debug)]
pub struct Target {
    flow: Flow,
    service: String,
    instance: String,
    place: Mutex<Option<Place>>,
}

impl Target {
    /// An instance of a service; its address may be its name. Of one service 256 instances are known, of services 256;
    /// what is beyond them takes the place of another, or has no limit.
    #[must_use]
    pub fn new(flow: Flow, service: &str, instance: &str) -> Self {
        let (service, instance) = (service.to_owned(), instance.to_owned());
        Self { flow, service, instance, place: Mutex::new(None) }
    }

    /// The number of the process that calls.
    pub(crate) fn caller(&self) -> u32 {
        self.flow.0.caller
    }

    /// That of a context, which another process may have made: then names count.
    fn workflow(&self, context: &Context) -> WorkflowId {
        match Arc::ptr_eq(&context.flow().0, &self.flow.0) {
            true => context.id(),
            false => self.flow.0.classify(context.workflow()).0,
        }
    }

    /// Looks at the instance, unless there are too many.
    fn with<V>(&self, look: impl FnOnce(&mut State, InstanceId) -> V) -> Option<V> {
        let mut place = lock(&self.place);
        let (mut state, now) = self.flow.0.lock();
        let state = &mut *state;
        let mut id = place.and_then(|place| state.services.id(now, place));
        if id.is_none() {
            let name = (&*self.service, &*self.instance);
            *place = state.services.place(&mut state.process, now, name);
            id = place.and_then(|place| state.services.id(now, place));
        }
        id.map(|id| look(state, id))
    }

    /// A copy of a call leaves for it. So many requests of its kind per second this process wants to send there.
    pub fn called(&self, context: &Context) -> f64 {
        let workflow = self.workflow(context);
        let called = self.with(|state, id| {
            state.process.called(id, workflow);
            state.process.wants(id, workflow)
        });
        called.unwrap_or(0.0)
    }

    /// The same, before it leaves and whether or not it does.
    #[must_use]
    pub fn wanted(&self, context: &Context) -> f64 {
        let workflow = self.workflow(context);
        self.with(|state, id| state.process.wants(id, workflow)).unwrap_or(0.0)
    }

    /// It has responded: what it spent on the call.
    pub fn returned<B>(&self, context: &Context, response: &Response<B>) -> Option<Spent> {
        let (announced, spent) = metadata::read_response(response.headers());
        let workflow = self.workflow(context);
        let place = *lock(&self.place);
        let (mut state, now) = self.flow.0.lock();
        let state = &mut *state;
        // Where another has its place by now, that one has not responded.
        if let Some(id) = place.and_then(|place| state.services.id(now, place)) {
            state.process.returned(id, workflow, is_good(response));
            if let Some(announced) = announced {
                state.process.announced(now, id, workflow, announced);
            }
        }
        spent
    }
}
