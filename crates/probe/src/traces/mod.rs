//! Distributed traces: which service and operation owns the variance of whole requests.
//!
//! [`parse`](parse::parse) turns documents into spans, [`Traces`] collects spans into traces, [`critical`] cuts each trace
//! into the times that its spans were what the request waited for, and [`Traces::profile`] makes those a [`Profile`],
//! which is ranked as that of a server is. A stage is an operation of a service, `service: operation`; its value in a trace
//! is its self time on the critical path, so the stages of a trace add up to its duration exactly.
//!
//! Bounds: [`Limits`]. What goes beyond them, or cannot be used, is counted by reason in [`Profile::lost`].

pub mod critical;
mod group;
mod jaeger;
mod otlp;
pub mod parse;

use std::collections::{BTreeMap, VecDeque};

use crate::profile::{Lost, Profile};
use critical::{Node, Path};

/// A timed operation of one service on behalf of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// The trace that it is of; 0 is no trace.
    pub trace: u128,
    /// Its own id, unique in its trace; 0 is none.
    pub id: u64,
    /// The span that caused it; 0 for a root.
    pub parent: u64,
    /// The name of the service that it ran in.
    pub service: String,
    /// What was done.
    pub operation: String,
    /// When it began, in nanoseconds of the Unix epoch.
    pub start_ns: u64,
    /// When it ended, likewise.
    pub end_ns: u64,
}

/// What is held at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Spans of traces that may still grow, at 48 bytes each. Beyond it, the trace that began to arrive first is closed.
    pub spans: usize,
    /// Closed traces, at 24 bytes per stage of theirs. Beyond it, further ones are dropped.
    pub traces: usize,
    /// Different operations. Beyond it, new ones share a name.
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
    names: Names,
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
        // OpenTelemetry's name for a service that has none.
        let service = if span.service.is_empty() { "unknown_service" } else { &span.service };
        let name = format!("{service}: {}", span.operation);
        let name = name.chars().take(NAME_CHARS_MAX).collect::<String>();
        let stage = self.names.number(&name, self.limits.operations);
        let Span { trace, id, parent, start_ns, end_ns, .. } = *span;
        let spans = self.open.entry(trace).or_insert_with(|| {
            self.arrived.push_back(trace);
            Vec::new()
        });
        spans.push(Node { id, parent, stage, start_ns, end_ns });
        self.held += 1;
        while self.held > self.limits.spans.max(1) {
            let reason = "traces closed early to make room; spans that came later are not in them";
            self.lose(reason, 1);
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
        let Some((path, flaws)) = critical::path(spans) else { return };
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
        while !self.arrived.is_empty() {
            self.close();
        }
        let (mut profile, left_out) =
            group::profile(&self.closed, &self.names.list, root, stages_max)?;
        let lost = self.lost.into_iter().map(|(reason, count)| (reason.to_owned(), count));
        let lost = lost.chain(left_out).map(|(reason, count)| Lost { reason, count });
        profile.lost = lost.collect();
        Ok(profile)
    }
}

#[cfg(test)]
mod tests;
