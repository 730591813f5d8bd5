//! Finds the parent of each span in a trace, even if several spans share an id.
//!
//! - Duplicates (same id, kind, operation and start) are merged. The copy with the latest end is
//!   the complete one.
//! - In Zipkin, the client's half and the server's half of a call may share an id. The server's
//!   half becomes a child of the client's half. Children of the shared id belong to the half of
//!   their own service if there is one, and otherwise to the server's half. If kinds are missing,
//!   the longest span is the client's half.
//! - Other spans with the same id stay separate. Their children belong to the span of their own
//!   service if there is one, and otherwise to the first span that contains them.
//!
//! Cost: O(n log n) for n spans.

use std::cmp::Reverse;

use super::Kind;

/// The maximum number of spans with the same id among which a parent is chosen.
const SAME_ID_MAX: usize = 64;
/// The index that means "no parent".
pub(super) const NONE: u32 = u32::MAX;

/// A span within its trace.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Node {
    /// Never 0.
    pub(super) id: u64,
    /// 0 if there is none.
    pub(super) parent: u64,
    /// The operation, the service, the host (and therefore its clock), and the attribute set.
    pub(super) stage: u32,
    pub(super) service: u32,
    pub(super) host: u32,
    pub(super) attributes: u32,
    /// The queueing time, which is read from an attribute.
    pub(super) queued: f32,
    pub(super) kind: Kind,
    /// Whether the span ends before it starts. Such a span is treated as empty.
    pub(super) is_backward: bool,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

impl Node {
    pub(super) fn length(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Returns the spans of a trace and the index of each one's parent.
pub(super) fn link(mut spans: Vec<Node>) -> (Vec<Node>, Vec<u32>) {
    spans.sort_unstable_by_key(|span| {
        let Node { id, start_ns, end_ns, parent, stage, kind, attributes, .. } = *span;
        (id, (kind.half(), kind), start_ns, stage, Reverse(end_ns), parent, attributes)
    });
    spans.dedup_by_key(|span| (span.id, span.kind, span.stage, span.start_ns));
    for same in spans.chunk_by_mut(|a, b| a.id == b.id).filter(|same| same.len() > 1) {
        same.sort_by_key(|span| (span.kind.half(), Reverse(span.length())));
    }
    let parents = (0..spans.len()).map(|at| parent(&spans, at)).collect();
    (spans, parents)
}

/// Returns the index of a span's parent. `spans` must be sorted by id.
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

/// Whether two spans with the same id are the two halves of a call.
fn is_caller(caller: &Node, callee: &Node) -> bool {
    match (caller.kind, callee.kind) {
        (Kind::Client, Kind::Server) | (Kind::Producer, Kind::Consumer) => true,
        (Kind::Unknown, Kind::Unknown | Kind::Server) | (Kind::Client, Kind::Unknown) => {
            caller.service != callee.service
        }
        _ => false,
    }
}
