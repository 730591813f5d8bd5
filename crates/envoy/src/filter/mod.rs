//! A request in Envoy.
//!
//! Envoy calls the filter's hooks on one thread. A hook may run while another one does, because
//! what the module asks of Envoy may have effects at once. Then it leaves what it has seen in the
//! inbox, and the outer hook acts on it. All decisions are in `request`.

mod copies;
mod handover;
mod request;
mod router;

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use crate::abi::{BodyStatus, Field, HeadStatus, Slice, Status, Stream, TrailersStatus};
use crate::balancer;
use crate::message::OwnField;
use crate::service::Service;
pub(crate) use handover::Handover;
use request::{Hook, Request};

/// What a hook has seen.
enum Event {
    /// The decisions about the query have changed, or nothing but the request.
    Look,
    /// Parts of the response that Envoy's router has received.
    Router { part: Part, end: bool },
    /// Parts of the response to a copy that this filter has sent.
    Copy { id: u64, part: CopyPart },
}

enum Part {
    Head,
    /// This many bytes of the body.
    Body(usize),
    Trailers,
}

enum CopyPart {
    Head(Vec<OwnField>),
    Body(Vec<u8>),
    Trailers(Vec<OwnField>),
    Over,
    /// The number of the reason.
    Reset(u32),
}

/// What may pass to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passing {
    /// The response waits here.
    Nothing,
    /// The response that Envoy's router has received.
    Router,
    /// A response of this filter, or of another one.
    Own,
    /// Nothing any more: the request began anew, with another filter.
    Gone,
}

/// The filter of a request.
pub(crate) struct Filter {
    request: RefCell<Request>,
    inbox: RefCell<VecDeque<Event>>,
    passing: Rc<Cell<Passing>>,
}

impl Filter {
    pub(crate) fn new(
        service: &Arc<Service>,
        stream: &mut Stream<'_>,
        handover: Option<Handover>,
    ) -> Self {
        let passing = Rc::new(Cell::new(Passing::Nothing));
        let request = match handover {
            Some(handover) => handover.resume(service, stream, &passing),
            None => Request::new(service, stream, &passing),
        };
        Self { request: RefCell::new(request), inbox: RefCell::default(), passing }
    }

    /// Acts on an event, and on those that are seen meanwhile. `None` if another hook of this filter
    /// runs, which will do so.
    fn see(
        &self,
        stream: &mut Stream<'_>,
        hook: Hook,
        event: Event,
    ) -> Option<RefMut<'_, Request>> {
        let Ok(mut request) = self.request.try_borrow_mut() else {
            self.inbox.borrow_mut().push_back(event);
            return None;
        };
        request.enter(hook);
        request.looks();
        let mut next = Some(event);
        while let Some(event) = next {
            request.take(stream, event);
            next = self.inbox.borrow_mut().pop_front();
        }
        request.enter(Hook::Other);
        Some(request)
    }

    /// A part of the request has arrived. `act` returns what becomes of it, unless Envoy's router
    /// has the request.
    fn request<S: Status>(
        &self,
        stream: &mut Stream<'_>,
        act: impl FnOnce(&mut Request, &mut Stream<'_>) -> S,
    ) -> S {
        balancer::unpin();
        let mut request = self.request.borrow_mut();
        request.enter(Hook::Request);
        let waits = act(&mut request, stream);
        drop(request);
        match self.see(stream, Hook::Request, Event::Look) {
            Some(request) if request.is_with_router() => S::PASS,
            _ => waits,
        }
    }

    /// The head of the request.
    pub(crate) fn request_head(&self, stream: &mut Stream<'_>, end: bool) -> HeadStatus {
        self.request(stream, |request, stream| {
            request.head(stream, end);
            HeadStatus::HOLD
        })
    }

    /// A part of the request's body.
    pub(crate) fn request_body(&self, stream: &mut Stream<'_>, end: bool) -> BodyStatus {
        self.request(stream, |request, stream| request.body(stream, end))
    }

    /// The request's trailers.
    pub(crate) fn request_trailers(&self, stream: &mut Stream<'_>) -> TrailersStatus {
        self.request(stream, |request, _| {
            request.trailers();
            TrailersStatus::HOLD
        })
    }

    /// A part of the response has arrived.
    fn response<S: Status>(&self, stream: &mut Stream<'_>, part: Part, end: bool) -> S {
        if matches!(self.passing.get(), Passing::Nothing | Passing::Router) {
            self.see(stream, Hook::Response, Event::Router { part, end });
        }
        match self.passing.get() {
            Passing::Router | Passing::Own => S::PASS,
            Passing::Nothing | Passing::Gone => S::HOLD,
        }
    }

    /// The head of the response.
    pub(crate) fn response_head(&self, stream: &mut Stream<'_>, end: bool) -> HeadStatus {
        self.response(stream, Part::Head, end)
    }

    /// A part of the response's body.
    pub(crate) fn response_body(&self, stream: &mut Stream<'_>, end: bool) -> BodyStatus {
        let bytes = stream.response_body_size();
        self.response(stream, Part::Body(bytes), end)
    }

    /// The response's trailers.
    pub(crate) fn response_trailers(&self, stream: &mut Stream<'_>) -> TrailersStatus {
        self.response(stream, Part::Trailers, true)
    }

    /// Envoy calls because the link has asked for it.
    pub(crate) fn woken(&self, stream: &mut Stream<'_>) {
        if let Ok(request) = self.request.try_borrow() {
            request.called();
        }
        self.see(stream, Hook::Other, Event::Look);
    }

    fn copy(&self, stream: &mut Stream<'_>, id: u64, part: CopyPart) {
        self.see(stream, Hook::Other, Event::Copy { id, part });
    }

    /// The head of the response to a copy.
    pub(crate) fn copy_head(&self, stream: &mut Stream<'_>, id: u64, fields: &[Field<'_>]) {
        self.copy(stream, id, CopyPart::Head(fields.iter().map(OwnField::from).collect()));
    }

    /// A part of the body of the response to a copy.
    pub(crate) fn copy_body(&self, stream: &mut Stream<'_>, id: u64, chunks: &[Slice<'_>]) {
        let mut body = Vec::new();
        chunks.iter().for_each(|chunk| body.extend_from_slice(chunk.bytes()));
        self.copy(stream, id, CopyPart::Body(body));
    }

    /// The trailers of the response to a copy.
    pub(crate) fn copy_trailers(&self, stream: &mut Stream<'_>, id: u64, fields: &[Field<'_>]) {
        self.copy(stream, id, CopyPart::Trailers(fields.iter().map(OwnField::from).collect()));
    }

    /// The response to a copy is complete.
    pub(crate) fn copy_over(&self, stream: &mut Stream<'_>, id: u64) {
        self.copy(stream, id, CopyPart::Over);
    }

    /// A copy was reset.
    pub(crate) fn copy_reset(&self, stream: &mut Stream<'_>, id: u64, reason: u32) {
        self.copy(stream, id, CopyPart::Reset(reason));
    }

    /// Envoy is about to respond itself. If it has the head of a response, which has broken off then,
    /// its response passes by the filters.
    pub(crate) fn local_reply(&self, stream: &mut Stream<'_>) {
        if let Ok(mut request) = self.request.try_borrow_mut() {
            request.broken_off(stream);
        }
    }

    /// The request is over: its response is sent, or the client has left.
    pub(crate) fn request_over(&self, stream: &mut Stream<'_>) {
        if let Ok(mut request) = self.request.try_borrow_mut() {
            request.over(stream);
        }
    }

    /// A hook has panicked, so nothing is known about the request.
    pub(crate) fn broken(&self, stream: &mut Stream<'_>) {
        if matches!(self.passing.replace(Passing::Own), Passing::Nothing | Passing::Router) {
            stream.respond(500, &[], "a bug in the module curtail; its log has the panic\n");
        }
    }
}
