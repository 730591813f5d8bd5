//! The critical path of a trace: at each moment, the one span that the request waited for.
//!
//! From the end of the root backward: the path is in the child that ended last, from its end to its begin; before that, in
//! the child that ended last before then; where there is none, in the span itself, which is its self time. The idea is
//! that of CRISP (Zhang et al., USENIX ATC 2022); the code is ours.
//!
//! - Each nanosecond of the root belongs to exactly one span, so the self times add up to the root's duration.
//! - Children are clipped to their parents, which also bounds what clocks that disagree can do.
//! - A child that overlaps the next one by at most 1 part in 1,000 (`OVERLAP`) went before it: ends are recorded late.
//! - The root is the earliest span without a parent; where there is none, the earliest whose parent is not there; where
//!   all are in cycles, the earliest.
//!
//! Cost: n log n for n spans; no recursion.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// 1 part in so many of a span's duration is what its end may be recorded late.
const OVERLAP: u64 = 1_000;

/// A span inside its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Not 0.
    pub id: u64,
    /// 0 if it has none.
    pub parent: u64,
    /// The number of its operation.
    pub stage: u32,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// A trace, reduced to its critical path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The stage of its root.
    pub root: u32,
    /// When the root began.
    pub start_ns: u64,
    /// The stages on the path.
    pub parts: Vec<Part>,
}

/// The self time of a stage on a critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The number of the operation.
    pub stage: u32,
    /// In sum.
    pub self_ns: u64,
    /// From the begin of the root until the path was in it first.
    pub first_ns: u64,
}

/// What was wrong with the spans of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flaws {
    /// Further spans of the same id. The earliest is used.
    pub duplicates: u64,
    /// Spans that end before they begin. They are taken as empty.
    pub backward: u64,
    /// Spans that no chain of parents connects with the root. They are not used.
    pub orphans: u64,
    /// Children of spans on the path that reach beyond them, by more than 1 part in `OVERLAP`.
    pub clipped: u64,
}

/// The critical path of these spans. None of none.
#[must_use]
pub fn path(mut spans: Vec<Node>) -> Option<(Path, Flaws)> {
    let mut flaws = Flaws::default();
    let all = spans.len();
    spans.sort_unstable_by_key(|span| {
        (span.id, span.start_ns, span.end_ns, span.parent, span.stage)
    });
    spans.dedup_by_key(|span| span.id);
    flaws.duplicates = (all - spans.len()) as u64;
    for span in spans.iter_mut().filter(|span| span.end_ns < span.start_ns) {
        span.end_ns = span.start_ns;
        flaws.backward += 1;
    }
    let root = root(&spans)?;
    // Without the root, so that each span has one way from it, and none leads into a cycle.
    spans.retain(|span| span.id != root.id);
    spans.sort_unstable_by_key(|span| span.parent);
    let tree = Tree { by_parent: &spans };
    flaws.orphans = spans.len() as u64 - tree.below(root);
    let parts = tree.walk(root, &mut flaws.clipped);
    let mut parts: Vec<Part> = parts.into_values().collect();
    parts.iter_mut().for_each(|part| part.first_ns -= root.start_ns);
    parts.sort_by_key(|part| part.first_ns);
    Some((Path { root: root.stage, start_ns: root.start_ns, parts }, flaws))
}

/// The root of spans that are sorted by id.
fn root(spans: &[Node]) -> Option<Node> {
    let known = |id| spans.binary_search_by_key(&id, |span| span.id).is_ok();
    let rank = |span: &&Node| {
        let kind = match span.parent {
            0 => 0,
            parent if !known(parent) => 1,
            _ => 2,
        };
        (kind, span.start_ns, Reverse(span.end_ns), span.id)
    };
    spans.iter().min_by_key(rank).copied()
}

/// How long it took.
fn length(span: &Node) -> u64 {
    span.end_ns.saturating_sub(span.start_ns)
}

/// All spans but the root, sorted by their parents.
struct Tree<'a> {
    by_parent: &'a [Node],
}

impl Tree<'_> {
    fn children(&self, of: Node) -> &[Node] {
        let begin = self.by_parent.partition_point(|span| span.parent < of.id);
        let count = self.by_parent[begin..].partition_point(|span| span.parent == of.id);
        &self.by_parent[begin..begin + count]
    }

    /// How many spans are below this one.
    fn below(&self, root: Node) -> u64 {
        let (mut stack, mut count) = (vec![root], 0);
        while let Some(span) = stack.pop() {
            let children = self.children(span);
            count += children.len() as u64;
            stack.extend(children);
        }
        count
    }

    /// Self times by stage, and when each was first, in time that is not relative.
    fn walk(&self, root: Node, clipped: &mut u64) -> BTreeMap<u32, Part> {
        let mut parts = BTreeMap::new();
        let mut stack = vec![root];
        // Spans on the stack are clipped to their parents.
        while let Some(span) = stack.pop() {
            let inside = |child: &Node| Node {
                start_ns: child.start_ns.max(span.start_ns),
                end_ns: child.end_ns.min(span.end_ns),
                ..*child
            };
            let is_clipped = |child: &&Node| {
                let (is, was) = (length(&inside(child)), length(child));
                is < was - was / OVERLAP
            };
            let children = self.children(span);
            *clipped += children.iter().filter(is_clipped).count() as u64;
            let mut children: Vec<Node> = children.iter().map(inside).collect();
            children.retain(|child| child.start_ns < child.end_ns);
            children
                .sort_unstable_by_key(|child| (Reverse(child.end_ns), child.start_ns, child.id));
            let mut own = |start_ns: u64, end_ns: u64| {
                let new = Part { stage: span.stage, self_ns: 0, first_ns: start_ns };
                let part = parts.entry(span.stage).or_insert(new);
                part.self_ns += end_ns - start_ns;
                part.first_ns = part.first_ns.min(start_ns);
            };
            let mut until = span.end_ns;
            for mut child in children {
                let late = child.end_ns.saturating_sub(until);
                if child.start_ns >= until || late > length(&child) / OVERLAP {
                    continue;
                }
                child.end_ns = child.end_ns.min(until);
                if child.end_ns < until {
                    own(child.end_ns, until);
                }
                until = child.start_ns;
                stack.push(child);
            }
            if span.start_ns < until || span.start_ns == span.end_ns {
                own(span.start_ns, until);
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests;
