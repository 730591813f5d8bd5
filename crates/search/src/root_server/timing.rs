//! The times that a query takes in each shard.

use std::time::Duration;

use crate::serve::timing;

/// Maximum number of shards whose times a response contains. The times of more shards would not fit
/// into a head.
const SHARDS_MAX: usize = 64;

/// The times of a query on one shard. Each time is part of the one before it, so the differences
/// are the costs of queues, network, wake-ups and timers.
///
/// The header `server-timing` of the root's responses has `took-2;dur=…, ran-2;dur=…,
/// served-2;dur=…, drawn-2;dur=…` for shard 2, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardTiming {
    /// Time from the query's arrival in the shard's cell to its response.
    pub took: Duration,
    /// Time from the start of the winning copy to its response, not counting its wait for a slot on
    /// the leaf.
    pub ran: Duration,
    /// How long that copy held its slot, as reported by the leaf.
    pub served: Option<Duration>,
    /// How long it should have held the slot: P + J, if the leaf draws them.
    pub drawn: Option<Duration>,
}

impl ShardTiming {
    /// Computes the times of a shard. `leaf` is the `server-timing` of the leaf's response.
    pub(super) fn new(took_ns: u64, ran_ns: u64, leaf: Option<&[u8]>) -> Self {
        let (mut real, mut own) = (None, None);
        let (mut queue, mut stretch, mut hiccup) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for (name, time) in timing::read(leaf.unwrap_or_default()) {
            match name {
                "queue" => queue = time,
                "real" => real = Some(time),
                "stretch" => stretch = time,
                "own" => own = Some(time),
                "hiccup" => hiccup = time,
                _ => {}
            }
        }
        Self {
            took: Duration::from_nanos(took_ns),
            ran: Duration::from_nanos(ran_ns).saturating_sub(queue),
            served: real.map(|real| real.saturating_add(stretch)),
            drawn: own.map(|own| own.saturating_add(hiccup)),
        }
    }

    /// Formats the header from the numbers and times of the shards.
    pub(super) fn write_all(all: Vec<(usize, Self)>) -> String {
        let shown = all.into_iter().filter(|(shard, _)| *shard < SHARDS_MAX);
        timing::write(shown.flat_map(|(shard, timing)| {
            let Self { took, ran, served, drawn } = timing;
            let times =
                [("took", Some(took)), ("ran", Some(ran)), ("served", served), ("drawn", drawn)];
            let named =
                move |(name, time): (_, Option<_>)| Some((format!("{name}-{shard}"), time?));
            times.into_iter().filter_map(named)
        }))
    }

    /// Parses the header of a root's response. Returns the times of each shard. The times are zero
    /// for shards that the header does not contain.
    pub fn read_all(header: &[u8]) -> Vec<Self> {
        let mut all = Vec::new();
        for (name, time) in timing::read(header) {
            let Some((name, shard)) = name.split_once('-') else { continue };
            let Some(shard) = shard.parse().ok().filter(|shard| *shard < SHARDS_MAX) else {
                continue;
            };
            if all.len() <= shard {
                all.resize(shard + 1, Self::default());
            }
            match name {
                "took" => all[shard].took = time,
                "ran" => all[shard].ran = time,
                "served" => all[shard].served = Some(time),
                "drawn" => all[shard].drawn = Some(time),
                _ => {}
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_leaf_are_summed_up() {
        let leaf = b"queue;dur=1, real;dur=1, stretch;dur=4.5, own;dur=2, hiccup;dur=3".as_slice();
        let ms = Duration::from_millis;
        let timing = ShardTiming::new(8_000_000, 7_000_000, Some(leaf));
        assert_eq!((timing.took, timing.ran), (ms(8), ms(6)), "without the leaf's queue");
        assert_eq!(timing.served, Some(Duration::from_micros(5_500)));
        assert_eq!(timing.drawn, Some(ms(5)));
        let unknown = ShardTiming::new(8, 7, Some(b"real;dur=1, hiccup;dur=2"));
        assert_eq!((unknown.served, unknown.drawn), (Some(ms(1)), None));
        assert_eq!(ShardTiming::new(8, 7, None).served, None);
    }

    #[test]
    fn shards_read_back_as_written_whatever_their_order() {
        let first = ShardTiming::new(8, 7, Some(b"real;dur=1, own;dur=2"));
        let second = ShardTiming::new(6, 5, None);
        let text = ShardTiming::write_all(vec![(1, second), (0, first)]);
        assert_eq!(ShardTiming::read_all(text.as_bytes()), [first, second]);
        assert_eq!(ShardTiming::read_all(b"took-99999999999;dur=1, took-64;dur=1, took;dur=1"), []);
    }

    #[test]
    fn the_times_of_many_shards_fit_into_a_head() {
        let leaf = b"real;dur=12345.678901, own;dur=12345.678901".as_slice();
        let one = ShardTiming::new(12_345_678_901, 12_345_678_901, Some(leaf));
        let text = ShardTiming::write_all((0..1_000).map(|shard| (shard, one)).collect());
        assert!(text.len() < curtail_http::h1::Limits::default().head_bytes / 2, "{}", text.len());
        assert_eq!(ShardTiming::read_all(text.as_bytes()).len(), SHARDS_MAX);
    }
}
