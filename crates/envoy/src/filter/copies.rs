//! The copies that the filter sends itself: duplicates.
//!
//! The response to a duplicate is kept until it is complete, because Envoy's router may respond
//! until then, and a client gets one response. One that exceeds the buffer is given up.

use std::sync::Arc;
use std::task::Waker;

use curtail_runtime::{Failure, Head};
use smallvec::SmallVec;

use super::CopyPart;
use super::request::Request;
use crate::abi::Stream;
use crate::link::{Leg, Response};
use crate::message::{Message, Verdict, number};

/// The duplicates of a request.
#[derive(Default)]
pub(super) struct Copies(SmallVec<[Duplicate; 1]>);

struct Duplicate {
    id: u64,
    leg: Arc<Leg>,
    message: Box<Message>,
}

impl Copies {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends a duplicate to the host that is pinned.
    pub(super) fn start(
        &mut self,
        stream: &mut Stream<'_>,
        cluster: &str,
        body: &[u8],
        leg: Arc<Leg>,
        waker: &Waker,
    ) {
        match stream.start(cluster, body) {
            Some(id) => self.0.push(Duplicate { id, leg, message: Box::default() }),
            None => leg.fail(Failure::Resources(std::io::ErrorKind::NotFound), waker),
        }
    }

    /// Removes a duplicate and returns its number.
    pub(super) fn remove(&mut self, leg: &Arc<Leg>) -> Option<u64> {
        let at = self.0.iter().position(|copy| Arc::ptr_eq(&copy.leg, leg))?;
        Some(self.0.swap_remove(at).id)
    }

    /// The request is over, and its duplicates with it.
    pub(super) fn give_up(&mut self, waker: &Waker) {
        for copy in std::mem::take(&mut self.0) {
            copy.leg.fail(Failure::GivenUp, waker);
        }
    }
}

impl Request {
    /// A part of the response to a duplicate has arrived.
    pub(super) fn copy_part(&mut self, stream: &mut Stream<'_>, id: u64, part: CopyPart) {
        let copies = &mut self.copies.0;
        // The ends of those that were reset come late.
        let Some(at) = copies.iter().position(|copy| copy.id == id) else { return };
        let message = &mut copies[at].message;
        match part {
            CopyPart::Head(fields) => message.head = fields,
            CopyPart::Trailers(fields) => message.trailers = fields,
            CopyPart::Body(bytes) => {
                let most = self.service.config.response_buffer();
                if message.body.len() + bytes.len() > most {
                    let copy = copies.swap_remove(at);
                    copy.leg.fail(Failure::BodyTooLarge(most), &self.waker);
                    stream.reset(id);
                } else {
                    message.body.extend_from_slice(&bytes);
                }
            }
            CopyPart::Reset(reason) => {
                let copy = copies.swap_remove(at);
                copy.leg.fail(reset(reason), &self.waker);
            }
            CopyPart::Over => {
                let copy = copies.swap_remove(at);
                self.copy_over(&copy.leg, copy.message);
            }
        }
    }

    fn copy_over(&self, leg: &Leg, message: Box<Message>) {
        if let Some(why) = message.failure() {
            return leg.fail(why, &self.waker);
        }
        let grpc =
            if self.is_grpc { message.trailer("grpc-status").and_then(number) } else { None };
        let verdict =
            Verdict::of(self.service.config.outcomes(), |name| message.header(name), grpc);
        let bytes = message.body.len() as u64;
        let head = Head {
            outcome: verdict.outcome,
            push_back: verdict.push_back,
            bytes,
            ..Head::whole(Response::Whole(message))
        };
        leg.head(head, true, &self.waker);
    }
}

/// The failure that a reason of Envoy stands for.
fn reset(reason: u32) -> Failure {
    const CONNECTION_FAILURE: u32 = 0;
    const LOCAL: [u32; 2] = [2, 3];
    const OVERFLOW: u32 = 4;
    match reason {
        CONNECTION_FAILURE => Failure::ConnectFailed(std::io::ErrorKind::ConnectionRefused),
        OVERFLOW => Failure::Resources(std::io::ErrorKind::QuotaExceeded),
        local if LOCAL.contains(&local) => Failure::GivenUp,
        _ => Failure::Reset,
    }
}
