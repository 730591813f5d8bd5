//! The tree of a trace's spans, with all times on one clock.

use std::cmp::Reverse;

use super::Kind;
use super::clocks::Clocks;
use super::halves::{NONE, Node, link};

/// The maximum number of orphans, which are spans with missing parents, whose times are kept.
const ORPHANS_MAX: usize = 64;

/// The numbers of defects in the spans of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flaws {
    /// The number of spans that arrived twice.
    pub(super) duplicates: u64,
    /// The number of spans that end before they begin. They are treated as empty.
    pub(super) backward: u64,
    /// The number of spans that are not connected to the root. They are ignored.
    pub(super) orphans: u64,
    /// The number of spans that extend beyond a parent on the path by more than 1/`LATE` of their
    /// own duration.
    pub(super) clipped: u64,
}

/// The spans of a trace and their parents.
pub(super) struct Tree {
    pub(super) spans: Vec<Node>,
    pub(super) root: u32,
    pub(super) flaws: Flaws,
    /// The times of spans whose parents are missing.
    pub(super) orphans: Vec<(u64, u64)>,
    parents: Vec<u32>,
    /// All spans with a parent, except the root, sorted by parent.
    by_parent: Vec<u32>,
}

impl Tree {
    /// Builds the tree. `None` if there are no spans.
    pub(super) fn new(mut spans: Vec<Node>) -> Option<Tree> {
        let mut flaws = Flaws::default();
        for span in spans.iter_mut().filter(|span| span.end_ns < span.start_ns) {
            (span.end_ns, span.is_backward) = (span.start_ns, true);
            flaws.backward += 1;
        }
        let all = spans.len();
        let (spans, mut parents) = link(spans);
        flaws.duplicates = (all - spans.len()) as u64;
        // If there are several roots, the longest one is chosen, because durations do not depend on
        // differences between clocks.
        let rank = |&at: &u32| {
            let (span, parent) = (&spans[at as usize], parents[at as usize]);
            let kind = (parent != NONE, span.parent != 0);
            (kind, Reverse(span.length()), span.start_ns, span.id, at)
        };
        let root = (0..spans.len() as u32).min_by_key(rank)?;
        // As a result, there is exactly one path from the root to each span, and there are no
        // cycles.
        parents[root as usize] = NONE;
        let mut by_parent: Vec<u32> = (0..spans.len() as u32).collect();
        by_parent.retain(|&at| parents[at as usize] != NONE);
        by_parent.sort_by_key(|&at| parents[at as usize]);
        let is_top = |(at, span): &(usize, &Node)| span.parent != 0 && parents[*at] == NONE;
        let tops = spans.iter().enumerate().filter(is_top).filter(|top| top.0 != root as usize);
        let orphans =
            tops.map(|(_, span)| (span.start_ns, span.end_ns)).take(ORPHANS_MAX).collect();
        let mut tree = Tree { spans, root, flaws, orphans, parents, by_parent };
        tree.flaws.orphans = (tree.spans.len() - tree.below().len()) as u64;
        Some(tree)
    }

    pub(super) fn children(&self, of: u32) -> &[u32] {
        let parent = |at: &u32| self.parents[*at as usize];
        let begin = self.by_parent.partition_point(|at| parent(at) < of);
        let count = self.by_parent[begin..].partition_point(|at| parent(at) == of);
        &self.by_parent[begin..begin + count]
    }

    pub(super) fn parent(&self, of: u32) -> Option<u32> {
        Some(self.parents[of as usize]).filter(|&at| at != NONE)
    }

    /// Returns all pairs of a parent and a child.
    pub(super) fn edges(&self) -> impl Iterator<Item = (&Node, &Node)> {
        let parent = |at: &u32| &self.spans[self.parents[*at as usize] as usize];
        self.by_parent.iter().map(move |at| (parent(at), &self.spans[*at as usize]))
    }

    /// Returns the root and all its descendants, parents first.
    fn below(&self) -> Vec<u32> {
        let (mut all, mut at) = (vec![self.root], 0);
        while at < all.len() {
            all.extend(self.children(all[at]));
            at += 1;
        }
        all
    }

    /// Converts the times of all spans below the root to the root's clock. Returns whether any time
    /// changed.
    pub(super) fn align(&mut self, clocks: &Clocks) -> bool {
        let mut shifts = vec![0_i64; self.spans.len()];
        for &at in &self.below()[1..] {
            let parent = self.parents[at as usize] as usize;
            let ahead = clocks.ahead(&self.spans[parent], &self.spans[at as usize]);
            shifts[at as usize] = shifts[parent].saturating_sub(ahead);
        }
        for (span, &shift) in self.spans.iter_mut().zip(&shifts) {
            span.start_ns = span.start_ns.saturating_add_signed(shift);
            span.end_ns = span.end_ns.saturating_add_signed(shift);
        }
        shifts.iter().any(|&shift| shift != 0)
    }

    /// Returns the client's span if it ends before this server's span does. The server's span must
    /// begin before the client's span ends, and the client's span must have a parent.
    pub(super) fn outlived(&self, at: u32) -> Option<u32> {
        let client_at = self.parent(at).filter(|&client| self.parent(client).is_some())?;
        let (span, client) = (&self.spans[at as usize], &self.spans[client_at as usize]);
        let is_call = match (client.kind, span.kind) {
            (Kind::Client, Kind::Server | Kind::Unknown) => true,
            (Kind::Unknown, Kind::Server | Kind::Unknown) => client.service != span.service,
            _ => false,
        };
        let is_within = (span.start_ns..span.end_ns).contains(&client.end_ns);
        (is_call && is_within).then_some(client_at)
    }
}
