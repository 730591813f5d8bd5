//! What a filter leaves to the next one of the same request.
//!
//! Once Envoy's router has a response, even a bad one, no filter can replace it. So the request
//! begins anew, as after an internal redirect: Envoy creates other filters for it, while this one
//! waits, and the next filter goes on. Filters before this one see the request twice.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::Passing;
use super::request::{Hook, Phase, Request};
use crate::abi::Stream;
use crate::link::Leg;
use crate::message::Message;
use crate::service::Service;

/// What the next filter goes on with.
pub(crate) enum Handover {
    /// This copy of the query, in place of the router's.
    Retry(Box<Request>, Arc<Leg>),
    /// This response of a duplicate.
    Answer(Box<Message>),
}

thread_local! {
    static HANDOVER: Cell<Option<Handover>> = const { Cell::new(None) };
}

impl Handover {
    /// Takes what the last filter has left, while it lets Envoy create this one.
    pub(crate) fn take() -> Option<Self> {
        HANDOVER.take()
    }

    /// Returns the request with which the next filter begins.
    pub(super) fn resume(
        self,
        service: &Arc<Service>,
        stream: &mut Stream<'_>,
        passing: &Rc<Cell<Passing>>,
    ) -> Request {
        match self {
            Self::Retry(request, leg) => {
                let mut request = *request;
                request.link.move_to(stream.scheduler());
                request.passing = Rc::clone(passing);
                request.phase = match std::mem::replace(&mut request.phase, Phase::Over) {
                    Phase::Waiting(reply) => Phase::Resumed(leg, reply),
                    other => other,
                };
                request
            }
            Self::Answer(message) => {
                let mut request = Request::new(service, stream, passing);
                request.phase = Phase::Answered(message);
                request
            }
        }
    }
}

impl Request {
    /// Sends a copy in place of the router's, which has failed.
    pub(super) fn retry(&mut self, stream: &mut Stream<'_>, leg: Arc<Leg>) {
        let mut husk = Self::new(&self.service, stream, &self.passing);
        husk.hook = self.hook;
        let mut request = std::mem::replace(self, husk);
        (request.router, request.hook) = (None, Hook::Other);
        self.hand_over(stream, Handover::Retry(Box::new(request), leg));
    }

    /// Lets Envoy begin the request anew.
    pub(super) fn hand_over(&mut self, stream: &mut Stream<'_>, handover: Handover) {
        HANDOVER.set(Some(handover));
        let is_anew = stream.recreate();
        if is_anew {
            self.passing.set(Passing::Gone);
        }
        if Handover::take().is_some() {
            tracing::error!(is_anew, "Envoy did not begin a request anew; it gets what there is");
        }
        if !is_anew {
            self.pass(stream);
        }
    }
}
