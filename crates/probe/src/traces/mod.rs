//! Distributed traces: which service and operation owns the variance of whole requests.
//!
//! [`parse`](parse::parse) turns documents into spans, [`Traces`] collects spans into traces, `halves` finds the parent of
//! each span, `clocks` how far the hosts' clocks are apart, [`critical`] cuts each trace into the times that its spans were
//! what the request waited for, and [`Traces::profile`] makes those a [`Profile`], which is ranked as that of a server is;
//! `why` finds what its stages owe to the number of calls and to attributes. A stage is an operation of a service,
//! `service: operation`; its value in a trace is its self time on the critical path, so the stages of a trace add up to its
//! duration exactly.
//!
//! Bounds: [`Limits`]. What goes beyond them, or cannot be used, is counted by reason in [`Profile::lost`].

mod attributes;
mod clocks;
pub mod critical;
mod group;
mod halves;
mod jaeger;
mod otlp;
pub mod parse;
mod tree;
mod why;
mod zipkin;

use std::collections::{BTreeMap, VecDeque};

use crate::histogram::LONGEST_NS;
use crate::profile::{Lost, Profile, Uncertainty};
use attributes::Sets;
use clocks::Clocks;
use critical::Path;
use halves::Node;
use tree::Tree;

/// A span's part in a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nothing says so.
    #[default]
    Unknown,
    /// None: it is within a service.
    Internal,
    /// The caller's half.
    Client,
    /// The callee's half.
    Server,
    /// The half of who sends a message, and does not wait.
    Producer,
    /// The half of who receives it.
    Consumer,
}

impl Kind {
    /// The halves of a call in order.
    fn half(self) -> u8 {
        match self {
            Kind::Client | Kind::Producer => 0,
            Kind::Unknown | Kind::Internal => 1,
            Kind::Server | Kind::Consumer => 2,
        }
    }
}

/// What is not done about spans that are not as the model has them. Only tests leave something out, to see that it matters.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Without {
    pub(crate) shared_ids: bool,
    pub(crate) clocks: bool,
    pub(crate) overlaps: bool,
    pub(crate) streams: bool,
    pub(crate) attributes: bool,
    pub(crate) calls: bool,
}

/// A timed operation of one service on behalf of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// The trace that it is of; 0 is no trace.
    pub trace: u128,
    /// Its own id; 0 is none. The halves of a call may share one.
    pub id: u64,
    /// The span that caused it; 0 for a root.
    pub parent: u64,
    /// Its part in a call.
    pub kind: Kind,
    /// The name of the service that it ran in.
    pub service: String,
    /// What was done.
    pub operation: String,
    /// When it began, in nanoseconds of the Unix epoch.
    pub start_ns: u64,
    /// When it ended, likewise.
    pub end_ns: u64,
    /// Those attributes of it and of its resource that may explain its time.
    pub attributes: Vec<(String, String)>,
}

/// What is held at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Spans of traces that may still grow, at 56 bytes each. Beyond it, the trace that began to arrive first is closed.
    pub spans: usize,
    /// Closed traces, at 60 bytes per stage and set of attributes. Beyond it, further ones are
    /// dropped.
    pub traces: usize,
    /// Different operations, services, hosts and sets of attributes, each. Beyond it, new ones share a name, and attributes
    /// are not read.
    pub operations: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { spans: 2_000_000, traces: 500_000, operations: 10_000 }
    }
}

/// No name of an operation is longer, in characters.
const NAME_CHARS_MAX: usize = 120;
/// What operations are called beyond [`Limits::operations`].
const UNNAMED: &str = "(further operations)";

/// Why traces give no profile.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TracesError {
    /// There was no usable span.
    #[error("there is no trace in it")]
    Empty,
    /// No trace has this root.
    #[error("no trace begins with `{root}`; there are {known}")]
    NoSuchRoot {
        /// What was asked for.
        root: String,
        /// What there is, most frequent first.
        known: String,
    },
}

/// Collects spans, in any order, into traces.
#[derive(Debug, Default)]
pub struct Traces {
    limits: Limits,
    without: Without,
    names: Names,
    services: Names,
    hosts: Names,
    sets: Sets,
    clocks: Clocks,
    /// Traces that may still grow.
    open: BTreeMap<u128, Vec<Node>>,
    /// Their ids, in the order of their first spans.
    arrived: VecDeque<u128>,
    /// Spans in `open`.
    held: usize,
    closed: Vec<Path>,
    lost: BTreeMap<&'static str, u64>,
}

/// Names, each held once.
#[derive(Debug, Default)]
struct Names {
    numbers: BTreeMap<String, u32>,
    list: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str, max: usize) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        if self.list.len() >= max && name != UNNAMED {
            return self.number(UNNAMED, max);
        }
        let number = self.list.len() as u32;
        self.list.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

impl Traces {
    /// None yet.
    #[must_use]
    pub fn new(limits: Limits) -> Traces {
        Traces { limits, ..Traces::default() }
    }

    /// Adds a span.
    pub fn add(&mut self, span: &Span) {
        if span.trace == 0 || span.id == 0 {
            return self.lose("spans without a valid id", 1);
        }
        // No clock shows such times, and one such span would be all of the variance.
        let is_timed = (1..=i64::MAX as u64).contains(&span.end_ns);
        if !is_timed || span.end_ns.saturating_sub(span.start_ns) > LONGEST_NS {
            return self.lose("spans without a valid time, or of hours", 1);
        }
        // OpenTelemetry's name for a service that has none.
        let unknown = "unknown_service".to_owned();
        let service = if span.service.is_empty() { &unknown } else { &span.service };
        let name = format!("{service}: {}", span.operation);
        let name = name.chars().take(NAME_CHARS_MAX).collect::<String>();
        let max = self.limits.operations;
        let stage = self.names.number(&name, max);
        let attributes = if self.without.attributes { &[][..] } else { &span.attributes };
        let (attributes, place, queued) = self.sets.read(attributes, max);
        if attributes.is_none() {
            self.lose("spans with attributes beyond the most that are kept", 1);
        }
        let attributes = attributes.unwrap_or(0);
        let host = place.map_or(service.clone(), |place| format!("{service} ({place})"));
        let host = self.hosts.number(&host.chars().take(NAME_CHARS_MAX).collect::<String>(), max);
        let service = self.services.number(service, max);
        let Span { trace, id, parent, kind, start_ns, end_ns, .. } = *span;
        let spans = self.open.entry(trace).or_insert_with(|| {
            self.arrived.push_back(trace);
            Vec::new()
        });
        let is_backward = false;
        let named = Node { stage, service, host, attributes, queued, ..Node::default() };
        spans.push(Node { id, parent, kind, is_backward, start_ns, end_ns, ..named });
        self.held += 1;
        while self.held > self.limits.spans.max(1) {
            let reason = "traces closed early to make room; spans that came later are not in them";
            self.lose(reason, 1);
            if let Some(&oldest) = self.arrived.front() {
                self.observe(oldest);
                self.clocks.settle();
            }
            self.close();
        }
    }

    /// Spans and traces so far.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.held, self.open.len() + self.closed.len())
    }

    /// Counts what could not be used.
    pub fn lose(&mut self, reason: &'static str, count: u64) {
        if count > 0 {
            *self.lost.entry(reason).or_default() += count;
        }
    }

    /// Learns from the calls of a trace how far clocks are apart.
    fn observe(&mut self, trace: u128) {
        let spans = self.open.get(&trace).filter(|_| !self.without.clocks);
        let tree = spans.and_then(|spans| Tree::new(spans.clone(), self.without));
        let edges = tree.iter().flat_map(Tree::edges);
        edges.for_each(|(caller, callee)| self.clocks.observe(caller, callee));
    }

    /// Closes the trace whose first span came first.
    fn close(&mut self) {
        let Some(spans) = self.arrived.pop_front().and_then(|trace| self.open.remove(&trace))
        else {
            return;
        };
        self.held -= spans.len();
        if self.closed.len() >= self.limits.traces {
            return self.lose("traces beyond the most that are kept", 1);
        }
        let Some((mut path, flaws)) = critical::path(&spans, Some(&self.clocks), self.without)
        else {
            return;
        };
        let plain = path.is_shifted.then(|| critical::path(&spans, None, self.without)).flatten();
        let plain = plain.as_ref().map_or(&path, |(path, _)| path);
        path.unshifted = plain.stages().map(|(stage, self_ns, _)| (stage, self_ns)).collect();
        self.lose("spans that arrived twice", flaws.duplicates);
        self.lose("spans that end before they begin, taken as empty", flaws.backward);
        self.lose("orphaned spans, whose parents lead to no root", flaws.orphans);
        self.lose("spans outside the time of their parent, clipped", flaws.clipped);
        self.closed.push(path);
    }

    /// The profile of all traces with this root; that of the most frequent root where none is given. The stages are the
    /// `stages_max` that vary most, and the others in sum.
    ///
    /// # Errors
    ///
    /// If there is no such trace.
    pub fn profile(
        mut self,
        root: Option<&str>,
        stages_max: usize,
    ) -> Result<Profile, TracesError> {
        self.arrived.clone().into_iter().for_each(|trace| self.observe(trace));
        self.clocks.settle();
        while !self.arrived.is_empty() {
            self.close();
        }
        let (mut profile, left_out) = group::profile(&self, root, stages_max)?;
        let lost = self.lost.into_iter().map(|(reason, count)| (reason.to_owned(), count));
        let lost = lost.chain(left_out).map(|(reason, count)| Lost { reason, count });
        profile.lost = lost.collect();
        Ok(profile)
    }
}

#[cfg(test)]
mod known;
#[cfg(test)]
mod tests;
