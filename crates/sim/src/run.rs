//! Runs one replication: every shard simulates each block of arrivals.
//!
//! Requests keep arriving after the last measured one until all measured requests are done, so the
//! last ones meet the same load as the others.
//!
//! Memory: O(shards + open requests). The number of open requests is bounded. A run that exceeds
//! the bound is unstable, and ends.

use curtail_kernel::hedge::{AnyLearner, Records};
use curtail_kernel::{Driver, Rng, Scheduler};

use crate::net::SharedShard;
use crate::part::{Executed, Part};
use crate::setup::Setup;
use crate::shard::Shard;
use crate::sink::Sink;
use crate::tally::{Tally, Windowed};
use crate::train::Log;

/// Arrivals per block. The draws of a block fit into the first-level cache.
const BLOCK: u64 = 256;

/// The number of queries in the first epoch of a service that learns, and in its late epochs. In
/// between, the length of an epoch is a quarter of the number of queries before it. After a cold
/// start, a service therefore learns as early as it does in the runtime, where epochs are short.
/// Every epoch contains at least one request.
const FIRST_EPOCH: u64 = 16;
const EPOCH: u64 = 1_024;

/// The maximum number of open requests, in addition to one per slot.
const MOST_OPEN: u64 = 1 << 21;

/// The maximum number of open queries in all shards together, in addition to one per slot.
const MOST_QUERIES: u64 = 1 << 22;

/// Simulates one replication. Calls `progress` with the number of requests that have arrived, and
/// returns `None` if `progress` returns false.
pub(crate) fn run(setup: &Setup<'_>, progress: &mut dyn FnMut(u64) -> bool) -> Option<Tally> {
    replicate(setup, Vec::new(), progress).map(|(tally, _)| tally)
}

/// Simulates one replication as [`run`] does, and logs response times. `logs` contains one log per
/// shard, or is empty.
pub(crate) fn replicate(
    setup: &Setup<'_>,
    logs: Vec<Log>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Option<(Tally, Vec<Log>)> {
    let checked = "checked before the run";
    let Some(shared) = setup.with_stages().expect(checked) else {
        return setup.drive(Replication { setup, logs, progress }).expect(checked);
    };
    let shard = |index| SharedShard::new(setup, &shared, index).expect(checked);
    let mut shards: Vec<SharedShard> = (0..setup.experiment.world.shards()).map(shard).collect();
    Some((through(setup, &mut shards, progress)?, logs))
}

struct Replication<'a> {
    setup: &'a Setup<'a>,
    logs: Vec<Log>,
    progress: &'a mut dyn FnMut(u64) -> bool,
}

impl Driver for Replication<'_> {
    type Output = Option<(Tally, Vec<Log>)>;

    fn drive<S: Scheduler + 'static>(self, mut cell: impl FnMut(Rng) -> S) -> Self::Output {
        let Self { setup, logs, progress } = self;
        let mut logs = logs.into_iter();
        let new = |index| Shard::new(setup, index, &mut cell, logs.next());
        let mut shards: Vec<Shard<S>> = (0..setup.experiment.world.shards()).map(new).collect();
        let tally = through(setup, &mut shards, progress)?;
        Some((tally, shards.into_iter().filter_map(|shard| shard.log).collect()))
    }
}

fn through(
    setup: &Setup<'_>,
    shards: &mut [impl Part],
    progress: &mut dyn FnMut(u64) -> bool,
) -> Option<Tally> {
    let measured = setup.experiment.measured();
    let (from, to) = (measured.start, measured.end);
    let queries = setup.experiment.world.shards();
    let mut clock = setup.clock();
    let mut sink = Sink::new(queries, measured);
    sink.tally.windows = setup.experiment.windows.map(Windowed::new);
    // The first request after the change, and the changed experiment.
    let turn = setup.experiment.world.change_at().zip(setup.experiment.after());
    let slots = setup.experiment.slots_in_all();
    let borders = [0, 1, 2, 3, 4].map(|quarter| from + (quarter * (to - from)).div_ceil(4));
    let most_queries = MOST_QUERIES + slots;
    let mut times = vec![0; BLOCK as usize];
    let mut begun = Moment::default();
    let (mut learners, mut records) = (setup.learners(), Records::default());
    let queries = u64::from(queries);
    loop {
        let first = sink.requests.next();
        let most = match learners.len() {
            0 => BLOCK,
            _ => (first / 4).max(FIRST_EPOCH / queries).min(EPOCH / queries),
        };
        // A block ends at the first measured request, at the end of each quarter of the measured
        // requests, and at the change.
        let ends = borders.into_iter().chain(turn.as_ref().map(|turn| turn.0));
        let border = ends.filter(|&end| first < end).min().unwrap_or(u64::MAX);
        let turns = turn.as_ref().filter(|turn| turn.0 == first);
        // A block contains at most as many requests as the run. Otherwise, a short run would
        // continue to simulate a long block after its end.
        let times = &mut times[..most.clamp(1, BLOCK).min(border - first).min(to) as usize];
        if let Some((_, after)) = turns {
            clock.set_gap(after.gap_ns());
        }
        clock.fill(times);
        sink.requests.arrive(times.len() as u64);
        if let Some((at, after)) = turns {
            let to = Setup { experiment: after, ..*setup };
            shards.iter_mut().for_each(|shard| shard.change(&to, *at, times[0], &mut sink));
        }
        let mut open = 0;
        for shard in &mut *shards {
            shard.run(times, first, &mut sink);
            open += shard.open();
            // With many shards, memory could run out before any single shard overflows.
            if open > most_queries {
                sink.tally.overflowed = true;
                break;
            }
        }
        teach(&mut learners, &mut records, shards);
        let now = times[times.len() - 1];
        let next = first + times.len() as u64;
        if first >= from && first < to {
            sink.tally.add_backlog((first - from) * 4 / (to - from), open);
        }
        let goes_on = sink.collect();
        sink.tally.overflowed |= sink.requests.open() > MOST_OPEN + slots;
        if next == from {
            begun = Moment::of(now, shards, &sink);
        }
        if next == to || (next < to && sink.tally.overflowed) {
            let ended = Moment::of(now, shards, &sink);
            sink.tally.capacity_ns = u128::from(ended.now - begun.now) * u128::from(slots);
            sink.tally.busy_ns = ended.busy_ns - begun.busy_ns;
            // In a short run, it is possible that the responses of all copies that were executing
            // when the measured time began are not used.
            sink.tally.useful_ns = ended.useful_ns.saturating_sub(begun.useful_ns);
        }
        if !goes_on || sink.tally.overflowed {
            sink.tally.load = shards.iter().find_map(Part::load);
            return Some(sink.tally);
        }
        if !progress(times.len() as u64) {
            return None;
        }
    }
}

/// Ends an epoch: each client's records from all shards go to its learner, and the learner's
/// snapshot goes to all shards.
fn teach(learners: &mut [AnyLearner], records: &mut Records, shards: &mut [impl Part]) {
    for (client, learner) in learners.iter_mut().enumerate() {
        shards.iter_mut().for_each(|shard| shard.publish(client, records));
        learner.absorb(records);
        let snapshot = learner.snapshot();
        shards.iter_mut().for_each(|shard| shard.adopt(client, &snapshot));
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    now: u64,
    busy_ns: u128,
    useful_ns: u128,
}

impl Moment {
    fn of(now: u64, shards: &[impl Part], sink: &Sink) -> Self {
        let (mut busy_ns, mut useful_ns) = (0, sink.useful_ns);
        for Executed { ended_ns, running_ns } in shards.iter().map(|shard| shard.executed(now)) {
            busy_ns += ended_ns + running_ns;
            // Copies that are still executing are counted as useful, because it is not known
            // whether their responses will be used.
            useful_ns += running_ns;
        }
        Self { now, busy_ns, useful_ns }
    }
}
