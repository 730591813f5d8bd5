//! Distributed traces: finds the service and operation that contributes most to the variance of
//! whole requests.
//!
//! 1. [`parse`](parse::parse) converts documents to spans, and [`Traces`] collects spans into
//!    traces.
//! 2. `halves` finds the parent of each span, and `clocks` estimates the differences between the
//!    hosts' clocks.
//! 3. [`critical`] finds the critical path of each trace: the span that the request waited for at
//!    each moment.
//! 4. [`Traces::profile`] converts the paths to a [`Profile`], which is ranked like the profile of
//!    a server. `why` computes the share of a stage's variance that its number of calls and its
//!    attributes explain.
//!
//! A stage is an operation of a service, `service: operation`. The value of a stage in a trace is
//! its self time on the critical path, so the stages of a trace add up to exactly the duration of
//! the trace.
//!
//! Memory is bounded by [`Limits`]. Spans and traces that exceed them, or cannot be used, are
//! counted by reason in [`Profile::lost`].

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

use curtail_stats::buckets::LONGEST_NS;

use crate::profile::{Lost, Profile, Uncertainty};
use attributes::Sets;
use clocks::Clocks;
use critical::Path;
use halves::Node;
use tree::Tree;

/// The role of a span in a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The format or the span does not specify it.
    #[default]
    Unknown,
    /// Work within a service that is not part of a call.
    Internal,
    /// The caller's half of a call.
    Client,
    /// The callee's half of a call.
    Server,
    /// The sender of a message, which does not wait.
    Producer,
    /// The receiver of a message.
    Consumer,
}

impl Kind {
    /// Returns the rank by which the halves of a call are sorted.
    fn half(self) -> u8 {
        match self {
            Kind::Client | Kind::Producer => 0,
            Kind::Unknown | Kind::Internal => 1,
            Kind::Server | Kind::Consumer => 2,
        }
    }
}

/// A timed operation of one service on behalf of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// The trace to which the span belongs. 0 is invalid.
    pub trace: u128,
    /// The id of the span. 0 is invalid. The two halves of a call may share an id.
    pub id: u64,
    /// The id of the span that caused this one. It is 0 for a root.
    pub parent: u64,
    /// The span's role in a call.
    pub kind: Kind,
    /// The service in which the span ran.
    pub service: String,
    /// The name of the operation.
    pub operation: String,
    /// The start, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// The end, in nanoseconds since the Unix epoch.
    pub end_ns: u64,
    /// Those attributes of the span and its resource that may explain its duration.
    pub attributes: Vec<(String, String)>,
}

/// Bounds on memory.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum number of spans in open traces, at 56 bytes each. When it is exceeded, the trace
    /// whose first span arrived first is closed.
    pub spans: usize,
    /// The maximum number of closed traces. Each takes 60 bytes per combination of a stage and an
    /// attribute set. Further traces are dropped.
    pub traces: usize,
    /// The maximum number of operations. The same maximum applies to services, hosts and attribute
    /// sets. Beyond it, names are replaced by a common name, and new attribute sets are ignored.
    pub operations: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { spans: 2_000_000, traces: 500_000, operations: 10_000 }
    }
}

/// The maximum length of a name, in characters.
const NAME_CHARS_MAX: usize = 120;
/// The common name of operations beyond [`Limits::operations`].
const UNNAMED: &str = "(further operations)";

/// The reason why traces yield no profile.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TracesError {
    /// No span was usable.
    #[error("it contains no trace")]
    Empty,
    /// No trace has the requested root.
    #[error("no trace begins with `{root}`; traces begin with {known}")]
    NoSuchRoot {
        /// The requested root.
        root: String,
        /// The roots that exist, the most frequent first.
        known: String,
    },
}

/// Collects spans into traces. Spans may arrive in any order.
#[derive(Debug, Default)]
pub struct Traces {
    limits: Limits,
    names: Names,
    services: Names,
    hosts: Names,
    sets: Sets,
    clocks: Clocks,
    /// Traces that may still receive spans.
    open: BTreeMap<u128, Vec<Node>>,
    /// Ids of the open traces, in the order of their first spans.
    arrived: VecDeque<u128>,
    /// The number of spans in `open`.
    held: usize,
    closed: Vec<Path>,
    lost: BTreeMap<&'static str, u64>,
}

/// Interned names.
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
    /// Creates an empty collection.
    #[must_use]
    pub fn new(limits: Limits) -> Traces {
        Traces { limits, ..Traces::default() }
    }

    /// Adds a span.
    pub fn add(&mut self, span: &Span) {
        if span.trace == 0 || span.id == 0 {
            return self.lose("spans without a valid id", 1);
        }
        // No working clock reports times like these, and a single span of this kind would dominate
        // the variance.
        let is_timed = (1..=i64::MAX as u64).contains(&span.end_ns);
        if !is_timed || span.end_ns.saturating_sub(span.start_ns) > LONGEST_NS {
            return self.lose("spans without a valid time, or of hours", 1);
        }
        // The name that OpenTelemetry uses for services without a name.
        let unknown = "unknown_service".to_owned();
        let service = if span.service.is_empty() { &unknown } else { &span.service };
        let name = format!("{service}: {}", span.operation);
        let name = name.chars().take(NAME_CHARS_MAX).collect::<String>();
        let max = self.limits.operations;
        let stage = self.names.number(&name, max);
        let (attributes, place, queued) = self.sets.read(&span.attributes, max);
        if attributes.is_none() {
            self.lose("spans with attributes beyond the limit", 1);
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
            let reason = "traces closed early to free memory; their later spans are missing";
            self.lose(reason, 1);
            if let Some(&oldest) = self.arrived.front() {
                self.observe(oldest);
                self.clocks.settle();
            }
            self.close();
        }
    }

    /// Returns the number of spans in open traces.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the number of traces.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.len() + self.closed.len()
    }

    /// Adds to the count of spans or traces that could not be used for this reason.
    pub fn lose(&mut self, reason: &'static str, count: u64) {
        if count > 0 {
            *self.lost.entry(reason).or_default() += count;
        }
    }

    /// Updates the estimated clock differences with the calls in a trace.
    fn observe(&mut self, trace: u128) {
        let tree = self.open.get(&trace).and_then(|spans| Tree::new(spans.clone()));
        let edges = tree.iter().flat_map(Tree::edges);
        edges.for_each(|(caller, callee)| self.clocks.observe(caller, callee));
    }

    /// Closes the open trace whose first span arrived first.
    fn close(&mut self) {
        let Some(spans) = self.arrived.pop_front().and_then(|trace| self.open.remove(&trace))
        else {
            return;
        };
        self.held -= spans.len();
        if self.closed.len() >= self.limits.traces {
            return self.lose("traces beyond the limit", 1);
        }
        let Some((mut path, flaws)) = critical::path(&spans, Some(&self.clocks)) else { return };
        let plain = path.is_shifted.then(|| critical::path(&spans, None)).flatten();
        let plain = plain.as_ref().map_or(&path, |(path, _)| path);
        path.unshifted = plain.stages().map(|(stage, self_ns, _)| (stage, self_ns)).collect();
        self.lose("spans that arrived twice", flaws.duplicates);
        self.lose("spans that end before they begin, taken as empty", flaws.backward);
        self.lose("orphaned spans, whose parents lead to no root", flaws.orphans);
        self.lose("spans outside the time of their parent, clipped", flaws.clipped);
        self.closed.push(path);
    }

    /// Returns the profile of all traces with this root. `None` selects the most frequent root. The
    /// `stages_max` stages that vary most are kept, and all other stages are summed into one stage.
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
