//! One replication: arrivals in blocks, and every shard through each of them.
//!
//! Requests keep arriving after the last one that is measured, until all that are measured are
//! done: so the last ones meet the same load as the others.
//!
//! Memory: O(shards + open requests). The requests that are open are bounded; a run that exceeds
//! the bound is unstable, and ends.

use crate::experiment::Setup;
use crate::shard::Shard;
use crate::sink::Sink;
use crate::tally::Tally;

/// Arrivals per block: few enough that their draws stay in the first cache.
const BLOCK: u64 = 1024;

/// The most requests that may be open.
const MOST_OPEN: u64 = 1 << 21;

/// Simulates one replication. `progress` is told how many requests have arrived, and says whether
/// to go on; none if it does not.
pub(crate) fn run(setup: &Setup<'_>, progress: &mut dyn FnMut(u64) -> bool) -> Option<Tally> {
    let (from, to) = setup.experiment.measured();
    let mut clock = setup.clock();
    let mut sink = Sink::new(setup.experiment.shards, (from, to));
    let mut shards: Vec<Shard> =
        (0..setup.experiment.shards).map(|index| Shard::new(setup, index)).collect();
    let mut times = vec![0; BLOCK as usize];
    let mut begun = Moment::default();
    loop {
        let first = sink.requests.next();
        // A block ends where measuring begins, and where it ends.
        let border = [from, to].into_iter().find(|&border| first < border).unwrap_or(u64::MAX);
        let times = &mut times[..BLOCK.min(border - first) as usize];
        clock.fill(times);
        sink.requests.arrive(times.len() as u64);
        for shard in &mut shards {
            shard.run(times, first, &mut sink);
        }
        let now = times[times.len() - 1];
        let next = first + times.len() as u64;
        if first >= from && first < to {
            let quarter = (first - from) * 4 / (to - from);
            let backlog = &mut sink.tally.backlog[quarter as usize];
            backlog.0 += shards.iter().map(Shard::open).sum::<u64>();
            backlog.1 += 1;
        }
        let goes_on = sink.collect();
        sink.tally.overflowed |= sink.requests.open() > MOST_OPEN;
        if next == from {
            begun = Moment::of(now, &shards, &sink);
        }
        if next == to || (next < to && sink.tally.overflowed) {
            let slots = setup.experiment.servers.len() as u64 * u64::from(setup.experiment.slots);
            let ended = Moment::of(now, &shards, &sink);
            sink.tally.capacity_ns = (ended.now - begun.now) * slots * shards.len() as u64;
            sink.tally.busy_ns = ended.busy_ns - begun.busy_ns;
            sink.tally.useful_ns = ended.useful_ns - begun.useful_ns;
        }
        if !goes_on || sink.tally.overflowed {
            return Some(sink.tally);
        }
        if !progress(times.len() as u64) {
            return None;
        }
    }
}

/// What all shards have done until a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    now: u64,
    busy_ns: u64,
    useful_ns: u64,
}

impl Moment {
    fn of(now: u64, shards: &[Shard], sink: &Sink) -> Self {
        let busy_ns = shards.iter().map(|shard| shard.busy_ns(now)).sum();
        Self { now, busy_ns, useful_ns: sink.useful_ns }
    }
}
