//! Computes the critical path of a trace, which is the span that the request waited for at each
//! moment.
//!
//! The path is computed backward from the end of the root. Within a span, it first follows the
//! child that ended last, from that child's end back to its start. From there, it follows the last
//! child that ended before this start. Where there is no such child, the path lies in the span
//! itself, and this time is the span's self time. The idea is from CRISP (Zhang et al., USENIX ATC
//! 2022), but the code was written independently.
//!
//! - Each nanosecond of the root belongs to exactly one span, so the self times add up to the
//!   root's duration.
//! - Ends may be recorded late. A child that overlaps the next one by at most 1/1,000 of its
//!   duration (`LATE`) therefore counts as having ended before it.
//! - If no child ended shortly before (`PAUSE`) but one was still running, the path lies in that
//!   child. Overlapping siblings thus keep their own parts.
//! - A server's span may outlast its client's (a stream). It is on the path whenever the path would
//!   otherwise lie in the client's parent itself.
//! - All other children are clipped to their parents. Time that is attributed to a parent because
//!   of clipping or missing spans is reported as an `Uncertainty`.
//!
//! Cost: O(n log n) for n spans, without recursion.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::clocks::Clocks;
use super::halves::Node;
use super::tree::{Flaws, Tree};
use super::{Kind, Uncertainty};

/// The end of a span may be recorded late by 1/`LATE` of its duration.
pub(super) const LATE: u64 = 1_000;
/// After a child ends, a gap of up to 1/`PAUSE` of its duration counts as work of the parent, even
/// if another child is still running.
const PAUSE: u64 = 10;

/// A trace, reduced to its critical path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Path {
    /// The stage of the root.
    pub root: u32,
    /// The start of the root.
    pub start_ns: u64,
    /// The parts of the path, sorted by stage.
    pub parts: Vec<Part>,
    /// Self time that may belong to another stage. Each entry contains the stage, the reason, and
    /// an upper bound.
    pub uncertain: Vec<(u32, Uncertainty, u64)>,
    /// The stages of clients. Each entry contains the number of calls that have a server span and
    /// the number of calls that have none.
    pub calls: Vec<(u32, u32, u32)>,
    /// Whether clocks were corrected.
    pub is_shifted: bool,
    /// Self times by stage, computed without correcting the clocks.
    pub unshifted: Vec<(u32, u64)>,
}

/// The self time of the spans on the path that have the same stage and attributes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Part {
    /// The identifier of the operation.
    pub stage: u32,
    /// The identifier of the attribute set.
    pub attributes: u32,
    /// The stage that called the latest of the spans.
    pub caller: u32,
    /// The number of spans.
    pub calls: u32,
    /// The sum of the spans' queueing times, which are read from an attribute.
    pub queued: f32,
    /// The sum of the spans' self times.
    pub self_ns: u64,
    /// The time from the start of the root until the path first entered one of the spans.
    pub first_ns: u64,
}

impl Path {
    /// Returns, per stage, its self time and the time at which the path first entered it.
    pub fn stages(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        self.parts.chunk_by(|a, b| a.stage == b.stage).map(|parts| {
            let first_ns = parts.iter().map(|part| part.first_ns).min().unwrap_or(0);
            (parts[0].stage, parts.iter().map(|part| part.self_ns).sum(), first_ns)
        })
    }
}

/// Computes the critical path. `None` if there are no spans.
pub(super) fn path(spans: &[Node], clocks: Option<&Clocks>) -> Option<(Path, Flaws)> {
    let mut tree = Tree::new(spans.to_vec())?;
    let is_shifted = clocks.is_some_and(|clocks| tree.align(clocks));
    let (root, mut flaws) = (tree.spans[tree.root as usize], tree.flaws);
    let mut walk = Walk {
        tree: &tree,
        stack: vec![Piece { at: tree.root, from: root.start_ns, to: root.end_ns }],
        seen: vec![false; tree.spans.len()],
        parts: BTreeMap::new(),
        uncertain: Vec::new(),
        calls: BTreeMap::new(),
        clipped: 0,
    };
    while let Some(piece) = walk.stack.pop() {
        walk.visit(piece);
    }
    flaws.clipped = walk.clipped;
    let mut parts: Vec<Part> = walk.parts.into_values().collect();
    parts.iter_mut().for_each(|part| part.first_ns -= root.start_ns);
    let calls = walk.calls.into_iter().map(|(stage, (with, without))| (stage, with, without));
    let (root, start_ns) = (root.stage, root.start_ns);
    let (uncertain, calls) = (walk.uncertain, calls.collect());
    Some((
        Path { root, start_ns, parts, uncertain, calls, is_shifted, unshifted: Vec::new() },
        flaws,
    ))
}

/// The part of a span between two times.
#[derive(Debug, Clone, Copy)]
struct Piece {
    at: u32,
    from: u64,
    to: u64,
}

struct Walk<'a> {
    tree: &'a Tree,
    stack: Vec<Piece>,
    seen: Vec<bool>,
    parts: BTreeMap<(u32, u32), Part>,
    uncertain: Vec<(u32, Uncertainty, u64)>,
    calls: BTreeMap<u32, (u32, u32)>,
    clipped: u64,
}

impl Walk<'_> {
    fn visit(&mut self, whole: Piece) {
        let (tree, spans, children) = (self.tree, &self.tree.spans, self.tree.children(whole.at));
        let inside = |at: u32, from: u64, to: u64| Piece {
            at,
            from: from.max(whole.from),
            to: to.min(whole.to),
        };
        let child = |&at: &u32| inside(at, spans[at as usize].start_ns, spans[at as usize].end_ns);
        let stream = |&at: &u32| {
            let client = tree.outlived(at)?;
            Some(inside(at, spans[client as usize].end_ns, spans[at as usize].end_ns))
        };
        let streams = children.iter().flat_map(|&at| tree.children(at)).filter_map(stream);
        let mut streams = cover(whole, streams.collect()).into_iter().peekable();
        let picked = cover(whole, children.iter().map(child).collect());
        let (mut until, mut own) = (whole.to, Vec::new());
        let begin = Piece { to: whole.from, ..whole };
        for piece in picked.iter().chain([&begin]) {
            // Other spans may still stream between this child and the next.
            while let Some(&stream) = streams.peek().filter(|stream| stream.to > piece.to) {
                let (from, to) = (stream.from.max(piece.to), stream.to.min(until));
                if from < to {
                    own.push((to, until));
                    until = from;
                    self.stack.push(Piece { from, to, ..stream });
                }
                if streams.next_if(|stream| stream.from >= piece.to).is_none() {
                    break;
                }
            }
            own.push((piece.to, until));
            until = piece.from;
        }
        self.stack.extend(picked);
        own.retain(|(from, to)| from < to || whole.from == whole.to);
        self.count(whole, &own);
    }

    /// Adds the self times of a span, the latest first, and the parts of them that may belong to
    /// other spans.
    fn count(&mut self, piece: Piece, own: &[(u64, u64)]) {
        let (tree, span) = (self.tree, &self.tree.spans[piece.at as usize]);
        let is_first = !std::mem::replace(&mut self.seen[piece.at as usize], true);
        let (mut early_ns, mut late_ns, mut is_broken, mut is_called) =
            (0_u64, 0_u64, false, false);
        for &at in tree.children(piece.at) {
            let child = &tree.spans[at as usize];
            let early = child.end_ns.min(span.start_ns).saturating_sub(child.start_ns);
            let late = child.end_ns.saturating_sub(child.start_ns.max(span.end_ns));
            if early + late > child.length() / LATE && tree.outlived(at).is_none() {
                self.clipped += u64::from(is_first);
                early_ns = early_ns.saturating_add(early);
                late_ns = late_ns.saturating_add(late);
            }
            is_called |= child.service != span.service || child.kind == Kind::Server;
            is_broken |= child.is_backward;
        }
        let Some(&(first_ns, _)) = own.last() else { return };
        let own_ns = own.iter().map(|(from, to)| to - from).sum::<u64>();
        let (stage, attributes) = (span.stage, span.attributes);
        let new = Part { stage, attributes, first_ns, ..Part::default() };
        let part = self.parts.entry((stage, attributes)).or_insert(new);
        part.self_ns += own_ns;
        part.first_ns = part.first_ns.min(first_ns);
        if is_first {
            part.calls += 1;
            part.queued += span.queued;
            // The parent, and not the client's half of the call, determines how often the call is
            // made.
            let parent = tree.parent(piece.at).unwrap_or(piece.at);
            let is_half = tree.spans[parent as usize].kind == Kind::Client;
            let caller = tree.parent(parent).filter(|_| is_half).unwrap_or(parent);
            part.caller = tree.spans[caller as usize].stage;
        }
        let beside = tree.orphans.iter().flat_map(|orphan| {
            own.iter().map(|own| own.1.min(orphan.1).saturating_sub(own.0.max(orphan.0)))
        });
        let mut uncertain = vec![
            (Uncertainty::Early, early_ns),
            (Uncertainty::Outlives, late_ns),
            (Uncertainty::Backward, if is_broken { own_ns } else { 0 }),
            (Uncertainty::Orphans, beside.fold(0, u64::saturating_add)),
        ];
        if span.kind == Kind::Client {
            let (with, without) = self.calls.entry(stage).or_default();
            *if is_called { with } else { without } += 1;
            uncertain.push((Uncertainty::MissingCallee, if is_called { 0 } else { own_ns }));
        }
        uncertain.retain(|of| of.1 > 0);
        self.uncertain.extend(uncertain.into_iter().map(|of| (stage, of.0, of.1.min(own_ns))));
    }
}

/// Returns the pieces that `whole` waited for, the last one first. They do not overlap.
fn cover(whole: Piece, mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.retain(|piece| piece.from < piece.to);
    pieces.sort_unstable_by_key(|piece| (Reverse(piece.to), piece.from, piece.at));
    let (mut picked, mut until, mut next) = (Vec::new(), whole.to, 0);
    // A heap of the pieces that end after the path has moved to another piece. The piece that ends
    // first is on top.
    let mut running = BinaryHeap::new();
    loop {
        while let Some(piece) = pieces.get(next).filter(|piece| piece.to > until) {
            let is_late = piece.to - until <= (piece.to - piece.from) / LATE;
            if piece.from < until && is_late {
                break;
            }
            running.push(Reverse((piece.to, piece.from, next)));
            next += 1;
        }
        while running.peek().is_some_and(|Reverse((_, from, _))| *from >= until) {
            running.pop();
        }
        let ended = pieces.get(next).copied();
        let still = running.peek().map(|Reverse((.., at))| pieces[*at]);
        let long = |piece: Piece| until.saturating_sub(piece.to) > (piece.to - piece.from) / PAUSE;
        let piece = match (ended, still) {
            (Some(ended), Some(still)) if long(ended) => still,
            (Some(ended), _) => {
                next += 1;
                ended
            }
            (None, Some(still)) => still,
            (None, None) => return picked,
        };
        picked.push(Piece { to: piece.to.min(until), ..piece });
        until = piece.from;
    }
}

#[cfg(test)]
mod tests;
