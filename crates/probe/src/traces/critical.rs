//! The critical path of a trace: at each moment, the one span that the request waited for.
//!
//! From the end of the root backward: the path is in the child that ended last, from its end to its begin; before that, in
//! the child that ended last before then; where there is none, in the span itself, which is its self time. The idea is
//! that of CRISP (Zhang et al., USENIX ATC 2022); the code is ours.
//!
//! - Each nanosecond of the root belongs to exactly one span, so the self times add up to the root's duration.
//! - A child that overlaps the next one by at most 1 part in 1,000 (`LATE`) went before it: ends are recorded late.
//! - Where no child ended just before (`PAUSE`) and one still ran, the path is in that one: siblings that overlap keep
//!   the part that is theirs.
//! - A server's span that goes on when its client's has ended (a stream) is on the path where the client's parent would
//!   otherwise be alone.
//! - Children are clipped to their parents otherwise. What falls to a parent because of that, or because spans are missing,
//!   is counted (`Uncertainty`).
//!
//! Cost: n log n for n spans; no recursion.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::clocks::Clocks;
use super::halves::Node;
use super::tree::{Flaws, Tree};
use super::{Kind, Uncertainty, Without};

/// 1 part in so many of a span's duration is what its end may be recorded late.
pub(super) const LATE: u64 = 1_000;
/// Up to 1 part in so many of a child's duration, the parent itself may work before the next child.
const PAUSE: u64 = 10;

/// A trace, reduced to its critical path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Path {
    /// The stage of its root.
    pub root: u32,
    /// When the root began.
    pub start_ns: u64,
    /// The stages on the path, by number.
    pub parts: Vec<Part>,
    /// Stages whose self times may be another's, why, and at most how long.
    pub uncertain: Vec<(u32, Uncertainty, u64)>,
    /// Stages of clients, with the calls whose server's span is there, and those without.
    pub calls: Vec<(u32, u32, u32)>,
    /// If clocks were corrected.
    pub is_shifted: bool,
    /// Self times by stage as they would be without that.
    pub unshifted: Vec<(u32, u64)>,
}

/// The self time of a stage with the same attributes on a critical path.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Part {
    /// The number of the operation.
    pub stage: u32,
    /// The number of the set of attributes.
    pub attributes: u32,
    /// The stage that called the last of them.
    pub caller: u32,
    /// How many spans there were.
    pub calls: u32,
    /// How long these queued, by an attribute.
    pub queued: f32,
    /// In sum.
    pub self_ns: u64,
    /// From the begin of the root until the path was in it first.
    pub first_ns: u64,
}

impl Path {
    /// Per stage, its self time and when it was first.
    pub fn stages(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        self.parts.chunk_by(|a, b| a.stage == b.stage).map(|parts| {
            let first_ns = parts.iter().map(|part| part.first_ns).min().unwrap_or(0);
            (parts[0].stage, parts.iter().map(|part| part.self_ns).sum(), first_ns)
        })
    }
}

/// The critical path of these spans. None of none.
pub(super) fn path(
    spans: &[Node],
    clocks: Option<&Clocks>,
    without: Without,
) -> Option<(Path, Flaws)> {
    let mut tree = Tree::new(spans.to_vec(), without)?;
    let is_shifted = clocks.is_some_and(|clocks| tree.align(clocks));
    let (root, mut flaws) = (tree.spans[tree.root as usize], tree.flaws);
    let mut walk = Walk {
        tree: &tree,
        without,
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

/// A span from a time to a time.
#[derive(Debug, Clone, Copy)]
struct Piece {
    at: u32,
    from: u64,
    to: u64,
}

struct Walk<'a> {
    tree: &'a Tree,
    without: Without,
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
            let client = tree.outlived(at).filter(|_| !self.without.streams)?;
            Some(inside(at, spans[client as usize].end_ns, spans[at as usize].end_ns))
        };
        let streams = children.iter().flat_map(|&at| tree.children(at)).filter_map(stream);
        let mut streams = cover(whole, streams.collect(), true).into_iter().peekable();
        let picked = cover(whole, children.iter().map(child).collect(), !self.without.overlaps);
        let (mut until, mut own) = (whole.to, Vec::new());
        let begin = Piece { to: whole.from, ..whole };
        for piece in picked.iter().chain([&begin]) {
            // Between this child and the next, other spans may still stream.
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

    /// Counts a span's own times, the last first, and what of them may be another's.
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
            // The client's half of a call does not decide on it; its parent does.
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

/// From the end backward, the pieces that the whole waited for, none beside another.
fn cover(whole: Piece, mut pieces: Vec<Piece>, overlaps: bool) -> Vec<Piece> {
    pieces.retain(|piece| piece.from < piece.to);
    pieces.sort_unstable_by_key(|piece| (Reverse(piece.to), piece.from, piece.at));
    let (mut picked, mut until, mut next) = (Vec::new(), whole.to, 0);
    // Those that end after the path has left for another: the one that ends first is on top.
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
        let still = running.peek().filter(|_| overlaps).map(|Reverse((.., at))| pieces[*at]);
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
