//! The copy that Envoy's router sends.
//!
//! Its response passes when it wins. Until then Envoy holds it: a short one until its end, so that a
//! duplicate can win until then, and a bad one until nothing better can come.

use std::sync::Arc;
use std::task::Waker;

use curtail_kernel::{Feedback, Outcome};
use curtail_runtime::http::{Commit, LoadReport, ORCA};
use curtail_runtime::{Failure, Head, PushBack, TailEnd};

use super::Part;
use crate::abi::{Fields, Headers, Stream};
use crate::link::{Leg, Response};
use crate::message::{Verdict, failure, number};
use crate::service::Service;

/// A response up to this size, in bytes, counts when it is complete.
const SHORT: u64 = 16 << 10;

/// How Envoy's router describes the response of a server.
const VIA_UPSTREAM: &[u8] = b"via_upstream";

/// The copy that Envoy's router sends.
pub(super) struct Router {
    pub(super) leg: Arc<Leg>,
    /// The head has arrived, from a server or from the router itself.
    has_head: bool,
    /// The kernel knows of the response.
    is_reported: bool,
    /// The query must be polled, because the leg has a report.
    has_news: bool,
    /// The router has no good response.
    is_lost: bool,
    /// What the head means to the kernel.
    verdict: Verdict,
    feedback: Option<Feedback>,
    /// The declared length is short.
    is_short: bool,
    /// The response may pass before it counts.
    passes_early: bool,
    /// The bytes of the body so far, and the number from which it counts.
    bytes: u64,
    most: u64,
}

/// What the response is judged by.
pub(super) struct Rules<'r> {
    pub(super) service: &'r Service,
    pub(super) commit: Commit,
    pub(super) is_grpc: bool,
    pub(super) waker: &'r Waker,
}

impl Router {
    pub(super) fn new(leg: Arc<Leg>) -> Self {
        Self {
            leg,
            has_head: false,
            is_reported: false,
            has_news: false,
            is_lost: false,
            verdict: Verdict { outcome: Outcome::Local, push_back: None },
            feedback: None,
            is_short: false,
            passes_early: false,
            bytes: 0,
            most: 0,
        }
    }

    /// Whether Envoy holds a response.
    pub(super) fn is_held(&self) -> bool {
        self.has_head
    }

    /// Whether there is no response, or a bad one.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether the leg has had a report since the last call.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// A part of the response has arrived. Returns whether it may pass before it counts.
    pub(super) fn receive(
        &mut self,
        stream: &Stream<'_>,
        part: &Part,
        end: bool,
        rules: &Rules<'_>,
    ) -> bool {
        match part {
            Part::Head => self.head(stream, rules),
            Part::Body(bytes) => self.bytes += *bytes as u64,
            Part::Trailers => {}
        }
        if self.leg.is_over() {
            return false;
        }
        if end {
            self.end(stream, rules);
        } else if !self.is_reported && self.counts_now(rules) {
            self.report(rules, false);
        }
        self.passes_early
    }

    fn head(&mut self, stream: &Stream<'_>, rules: &Rules<'_>) {
        self.has_head = true;
        let fields = stream.fields(Headers::Response);
        let config = &rules.service.config;
        let by = |name: &str| fields.get(name);
        self.verdict = Verdict::of(config.outcomes(), by, grpc(&fields, rules));
        let status: Option<u16> = fields.get(":status").and_then(number);
        if status.is_none_or(|status| status >= 400) {
            let details = stream.details();
            if !details.starts_with(VIA_UPSTREAM) {
                (self.is_lost, self.has_news) = (true, true);
                return self.leg.fail(failure(details), rules.waker);
            }
        }
        if rules.service.policy().needs().feedback {
            self.feedback = fields.get(ORCA).and_then(feedback);
        }
        let length = fields.get("content-length").and_then(number::<u64>);
        self.is_short = length.is_some_and(|length| length <= SHORT);
        // No other copy can win, so the client need not wait for the end.
        self.passes_early = self.is_short
            && !rules.is_grpc
            && self.verdict.outcome.wins()
            && !rules.service.policy().hedges();
        let most = config.response_buffer() as u64;
        self.most = stream.buffer_limit().map_or(most, |limit| most.min(limit / 2));
    }

    /// Whether the response counts before its end.
    fn counts_now(&self, rules: &Rules<'_>) -> bool {
        match rules.commit {
            Commit::End => self.bytes > self.most,
            Commit::FirstChunk => self.bytes > 0,
            Commit::Head => !self.is_short || self.bytes > self.most,
        }
    }

    /// The response is complete.
    fn end(&mut self, stream: &Stream<'_>, rules: &Rules<'_>) {
        let trailers = rules.is_grpc.then(|| stream.fields(Headers::ResponseTrailers));
        let code = trailers.and_then(|trailers| grpc(&trailers, rules));
        let outcome = code.map(|code| rules.service.config.outcomes().grpc(code));
        self.has_news = true;
        if self.is_reported {
            return self.leg.end(TailEnd { outcome, bytes: self.bytes }, rules.waker);
        }
        if self.verdict.outcome.wins() {
            self.verdict.outcome = outcome.unwrap_or(self.verdict.outcome);
        }
        self.report(rules, true);
    }

    /// Tells the kernel of the response.
    fn report(&mut self, rules: &Rules<'_>, is_whole: bool) {
        (self.is_reported, self.has_news) = (true, true);
        let Verdict { outcome, push_back } = self.verdict;
        self.is_lost = !outcome.wins();
        let (feedback, bytes, tail) = (self.feedback, self.bytes, None);
        let response = Response::Router(None);
        let head = Head { response, outcome, push_back, feedback, bytes, tail };
        self.leg.head(head, is_whole, rules.waker);
    }

    /// The response has broken off.
    pub(super) fn break_off(&mut self, waker: &Waker) {
        if self.is_reported || self.leg.is_over() {
            return self.leg.fail(Failure::Incomplete, waker);
        }
        self.is_reported = true;
        let head = Head {
            outcome: Failure::Incomplete.outcome(),
            push_back: Some(PushBack::Never),
            ..Head::whole(Response::Router(None))
        };
        self.leg.head(head, true, waker);
    }

    /// The request is over.
    pub(super) fn over(&self, stream: &Stream<'_>, waker: &Waker) {
        if self.leg.is_over() {
            return;
        }
        // Otherwise, the client has left.
        let is_broken = self.has_head && stream.details().starts_with(b"upstream_reset");
        self.leg.fail(if is_broken { Failure::Incomplete } else { Failure::GivenUp }, waker);
    }
}

/// Returns the status of a call of gRPC, once it is there.
fn grpc(fields: &Fields<'_>, rules: &Rules<'_>) -> Option<u16> {
    if !rules.is_grpc {
        return None;
    }
    number(fields.get("grpc-status")?)
}

fn feedback(value: &[u8]) -> Option<Feedback> {
    let mut report = LoadReport::default();
    report.read_orca(value);
    report.feedback()
}
