//! A synthetic front that calls services. The clocks, pods, lost spans and causes are known.

use std::ops::Range;

use curtail_dist::seed;

use super::super::{Kind, Span};

pub(super) const MS: f64 = 1e6;
/// The start of the first request. Requests start one second apart.
const BEGIN_NS: f64 = 1e15;

/// A random source of durations.
pub(super) struct Draw(Box<dyn FnMut() -> f64>);

impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        let mut rng = seed::rng(seed::stream(seed, &[b"traces"]));
        Draw(Box::new(move || seed::unit(&mut rng)))
    }

    pub(super) fn unit(&mut self) -> f64 {
        (self.0)()
    }

    pub(super) fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.unit()
    }

    pub(super) fn whole(&mut self, least: u32, most: u32) -> u32 {
        self.between(f64::from(least), f64::from(most) + 1.0) as u32
    }

    /// Draws from an exponential distribution.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.unit()).ln() * mean
    }
}

/// The spans of a synthetic system, and the rules by which they are written.
#[derive(Default)]
pub(super) struct SyntheticSystem {
    /// The name of each service or pod whose clock is ahead, and the difference.
    pub(super) clocks: Vec<(String, f64)>,
    /// Whether the halves of a call share an id.
    pub(super) is_shared: bool,
    pub(super) spans: Vec<Span>,
    pub(super) trace: u128,
    pub(super) next: u64,
}

/// A call to a service.
#[derive(Clone, Default)]
pub(super) struct Call {
    pub(super) to: String,
    pub(super) pod: u32,
    pub(super) attributes: Vec<(String, String)>,
    /// The time at which the caller begins the call, and the service time of the callee.
    pub(super) from: f64,
    pub(super) takes: f64,
    /// The network delay in each direction.
    pub(super) network: f64,
    /// If this is set, the client's span ends after the callee has run for this time.
    pub(super) head: Option<f64>,
}

impl SyntheticSystem {
    fn span(
        &mut self,
        parent: u64,
        kind: Kind,
        service: &str,
        operation: &str,
        times: Range<f64>,
    ) -> u64 {
        self.next += 1;
        let ahead = |of: &&(String, f64)| of.0 == service;
        let ahead = self.clocks.iter().find(ahead).map_or(0.0, |of| of.1);
        let [start_ns, end_ns] = [times.start, times.end]
            .map(|at| (BEGIN_NS + self.trace as f64 * 1e9 + at + ahead) as u64);
        let (service, operation) = (service.to_owned(), operation.to_owned());
        let attributes = Vec::new();
        let (trace, id) = (self.trace, self.next);
        self.spans.push(Span {
            trace,
            id,
            parent,
            kind,
            service,
            operation,
            start_ns,
            end_ns,
            attributes,
        });
        self.next
    }

    /// Begins a request. The root has id 1 and is written by [`SyntheticSystem::end`].
    pub(super) fn begin(&mut self) {
        self.trace += 1;
        self.next = 1;
    }

    /// Ends the request, which took `takes`.
    pub(super) fn end(&mut self, takes: f64) {
        let next = std::mem::replace(&mut self.next, 0);
        self.span(0, Kind::Server, "front", "GET /", 0.0..takes);
        self.next = next;
    }

    /// Writes a call from the front to `TO: get`. Returns the time when the front has the whole
    /// response.
    pub(super) fn call(&mut self, call: &Call) -> f64 {
        let server = call.from + call.network..call.from + call.network + call.takes;
        let end = server.end + call.network;
        let client = call.head.map_or(end, |head| server.start + head + call.network);
        let half =
            self.span(1, Kind::Client, "front", &format!("call {}", call.to), call.from..client);
        let id = self.span(half, Kind::Server, &call.to, "get", server.clone());
        let pod = format!("{}-{}", call.to, call.pod);
        let ahead = self.clocks.iter().find(|of| of.0 == pod).map_or(0.0, |of| of.1);
        let span = self.spans.last_mut().expect("just written");
        [span.start_ns, span.end_ns] =
            [span.start_ns, span.end_ns].map(|at| at.saturating_add_signed(ahead as i64));
        span.attributes = call.attributes.clone();
        span.attributes.push(("k8s.pod.name".to_owned(), pod));
        if self.is_shared {
            (span.id, span.parent) = (half, 1);
        }
        // This span lies within the callee, so the callee's id also occurs as a parent.
        let begin = server.start + call.takes * 0.4;
        let inside = begin..begin + 0.1 * MS;
        let parent = if self.is_shared { half } else { id };
        let place =
            self.spans.last().map(|span| (span.attributes.clone(), ahead)).expect("just written");
        self.span(parent, Kind::Internal, &call.to, "check", inside);
        let span = self.spans.last_mut().expect("just written");
        span.attributes = place.0;
        [span.start_ns, span.end_ns] =
            [span.start_ns, span.end_ns].map(|at| at.saturating_add_signed(place.1 as i64));
        end
    }
}
