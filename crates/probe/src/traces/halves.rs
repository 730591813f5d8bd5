//! Whose child each span is, where an id may stand for several spans.
//!
//! - A span that arrives twice (same id, kind, operation and begin) is one; the later end is the complete one.
//! - Zipkin's shared spans: the client's and the server's half of a call have one id. The server's half becomes a child of
//!   the client's, and what the id is the parent of goes to the half of its own service, else to the server's. Without
//!   kinds, the longest span is the client's half.
//! - Other spans of one id are kept beside each other. Their children go to the span of their own service, else to the
//!   first that contains them.
//!
//! Cost: n log n for n spans.

use std::cmp::Reverse;

use super::Kind;

/// Of spans of one id, at most this many are asked if they are the parent.
const SAME_ID_MAX: usize = 64;
/// No parent.
pub(super) const NONE: u32 = u32::MAX;

/// A span inside its trace.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Node {
    /// Not 0.
    pub(super) id: u64,
    /// 0 if it has none.
    pub(super) parent: u64,
    /// The number of its operation.
    pub(super) stage: u32,
    /// The number of its service.
    pub(super) service: u32,
    /// The number of its clock.
    pub(super) host: u32,
    /// The number of its set of attributes.
    pub(super) attributes: u32,
    /// How long it queued, by an attribute.
    pub(super) queued: f32,
    /// Its part in a call.
    pub(super) kind: Kind,
    /// If it ended before it began, and is taken as empty.
    pub(super) is_backward: bool,
    /// When it began.
    pub(super) start_ns: u64,
    /// When it ended.
    pub(super) end_ns: u64,
}

impl Node {
    /// How long it took.
    pub(super) fn length(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// The spans of a trace, and the parent of each. `is_unique`: as if an id stood for one span, the earliest.
pub(super) fn link(mut spans: Vec<Node>, is_unique: bool) -> (Vec<Node>, Vec<u32>) {
    spans.sort_unstable_by_key(|span| {
        let Node { id, start_ns, end_ns, parent, stage, kind, attributes, .. } = *span;
        let kind = if is_unique { (0, Kind::Unknown) } else { (kind.half(), kind) };
        (id, kind, start_ns, stage, Reverse(end_ns), parent, attributes)
    });
    spans.dedup_by_key(|span| match is_unique {
        true => (span.id, Kind::Unknown, 0, 0),
        false => (span.id, span.kind, span.stage, span.start_ns),
    });
    for same in spans.chunk_by_mut(|a, b| a.id == b.id).filter(|same| same.len() > 1) {
        same.sort_by_key(|span| (span.kind.half(), Reverse(span.length())));
    }
    let parents = (0..spans.len()).map(|at| parent(&spans, at)).collect();
    (spans, parents)
}

/// The parent of the span at `at`, among spans that are sorted by id.
fn parent(spans: &[Node], at: usize) -> u32 {
    let span = &spans[at];
    let first = |id| spans.partition_point(|of| of.id < id);
    let own = first(span.id);
    if own < at && is_caller(&spans[own], span) {
        return own as u32;
    }
    let begin = first(span.parent);
    let same = spans[begin..].iter().take_while(|of| of.id == span.parent).take(SAME_ID_MAX);
    let fits = |of: &Node| {
        let contains = of.start_ns <= span.start_ns && span.end_ns <= of.end_ns;
        (of.service != span.service, of.kind != Kind::Server, !contains)
    };
    let others = (begin..).zip(same).filter(|&(of, _)| of != at && span.parent != 0);
    others.min_by_key(|&(nth, of)| (fits(of), nth)).map_or(NONE, |(nth, _)| nth as u32)
}

/// If these spans of one id are the two halves of a call.
fn is_caller(caller: &Node, callee: &Node) -> bool {
    match (caller.kind, callee.kind) {
        (Kind::Client, Kind::Server) | (Kind::Producer, Kind::Consumer) => true,
        (Kind::Unknown, Kind::Unknown | Kind::Server) | (Kind::Client, Kind::Unknown) => {
            caller.service != callee.service
        }
        _ => false,
    }
}
