//! Latencies over time, exact and in bounded memory, because neighboring intervals are merged when
//! there are too many.

use curtail_load::{Histogram, SAMPLES_ABOVE_MIN};

/// Maximum number of intervals. It exceeds the width of a plot, in pixels.
const PIECES_MAX: usize = 512;

/// The latencies of an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Piece {
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    /// Latencies in nanoseconds in ascending order, each with its count.
    counts: Vec<(u64, u64)>,
}

impl Piece {
    /// The number of latencies.
    pub(super) fn len(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    pub(super) fn seconds(&self) -> f64 {
        self.until_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }

    pub(super) fn max(&self) -> Option<u64> {
        self.counts.last().map(|(ns, _)| *ns)
    }

    /// The percentile given by `per_mille`, if enough samples are above it.
    pub(super) fn percentile(&self, per_mille: u64) -> Option<u64> {
        let all = self.len();
        if all * (1_000 - per_mille) < SAMPLES_ABOVE_MIN * 1_000 {
            return None;
        }
        let rank = (all * per_mille).div_ceil(1_000);
        let mut below = 0;
        let reaches = |(_, count): &&(u64, u64)| {
            below += count;
            below >= rank
        };
        self.counts.iter().find(reaches).map(|(ns, _)| *ns)
    }

    /// Merges the next interval into this one.
    fn merge(&mut self, next: &Piece) {
        self.until_ns = self.until_ns.max(next.until_ns);
        self.counts.extend(&next.counts);
        self.counts.sort_unstable();
        self.counts.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
    }
}

/// Intervals, in order.
#[derive(Debug, Default)]
pub(super) struct Series {
    pieces: Vec<Piece>,
    /// The number of snapshots per interval.
    snapshots: usize,
    /// The number of snapshots in the last interval.
    last: usize,
}

impl Series {
    /// Adds the latencies of the next snapshot.
    pub(super) fn add(&mut self, (from_ns, until_ns): (u64, u64), counted: &Histogram<u64>) {
        let of = counted
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to().min(counted.max()), bucket.count_at_value()));
        let piece = Piece { from_ns, until_ns, counts: of.collect() };
        if self.last < self.snapshots
            && let Some(last) = self.pieces.last_mut()
        {
            last.merge(&piece);
            self.last += 1;
            return;
        }
        if self.pieces.len() == PIECES_MAX {
            let pairs = self.pieces.chunks(2).map(|pair| {
                let mut merged = pair[0].clone();
                pair[1..].iter().for_each(|next| merged.merge(next));
                merged
            });
            self.pieces = pairs.collect();
            self.snapshots = 2 * self.snapshots.max(1);
        }
        self.pieces.push(piece);
        (self.snapshots, self.last) = (self.snapshots.max(1), 1);
    }

    /// The intervals, merged until each has `samples` samples; the remainder joins the last one.
    pub(super) fn joined(&self, samples: u64) -> Vec<Piece> {
        let mut joined: Vec<Piece> = Vec::new();
        for piece in &self.pieces {
            match joined.last_mut() {
                Some(last) if last.len() < samples => last.merge(piece),
                _ => joined.push(piece.clone()),
            }
        }
        if joined.len() > 1
            && let Some(rest) = joined.pop_if(|last| last.len() < samples)
            && let Some(last) = joined.last_mut()
        {
            last.merge(&rest);
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).expect("three digits");
        values.iter().for_each(|&value| histogram.record(value).expect("in range"));
        histogram
    }

    #[test]
    fn a_long_run_keeps_all_counts_and_all_of_its_time_in_few_intervals() {
        let mut series = Series::default();
        let snapshots = 5_000_u64;
        for at in 0..snapshots {
            series.add((at * 10, at * 10 + 10), &counted(&[1 + at % 7, 1_000]));
        }
        assert!(series.pieces.len() <= PIECES_MAX && series.pieces.len() > PIECES_MAX / 4);
        assert_eq!(series.pieces.iter().map(Piece::len).sum::<u64>(), 2 * snapshots);
        assert!(series.pieces.windows(2).all(|pair| pair[0].until_ns == pair[1].from_ns));
        assert_eq!(
            (series.pieces[0].from_ns, series.pieces.last().map(|last| last.until_ns)),
            (0, Some(snapshots * 10))
        );
        let whole = series.joined(u64::MAX);
        assert_eq!(whole.len(), 1);
        assert_eq!((whole[0].counts.len(), whole[0].max()), (8, Some(1_000)));
    }

    #[test]
    fn a_percentile_is_that_of_the_samples_and_has_ten_above_it() {
        let values: Vec<u64> = (1..=1_000).collect();
        let mut series = Series::default();
        series.add((0, 5), &counted(&values));
        let whole = &series.joined(0)[0];
        assert_eq!(whole.percentile(500), Some(500));
        assert_eq!(whole.percentile(990), Some(990));
        assert_eq!(whole.percentile(999), None);
        assert_eq!(Piece::default().percentile(500), None);
    }
}
