//! One replication: arrivals in blocks, and every shard through each of them.
//!
//! Requests keep arriving after the last one that is measured, until all that are measured are
//! done: so the last ones meet the same load as the others.
//!
//! Memory: O(shards + open requests). The requests that are open are bounded; a run that exceeds
//! the bound is unstable, and ends.

use curtail_kernel::hedge::{Learner, Record};
use curtail_kernel::{Driver, Rng, Scheduler};

use crate::experiment::Setup;
use crate::net::World;
use crate::part::Part;
use crate::shard::Shard;
use crate::shared::Shared;
use crate::sink::Sink;
use crate::tally::{Tally, Windowed};
use crate::train::Log;

/// Arrivals per block: few enough that their draws stay in the first cache.
const BLOCK: u64 = 256;

/// The queries of an epoch of a service that learns, unless one request has more: at first, and later. In between an
/// epoch has a quarter of the queries that came before it, so that a cold start learns as early as in the runtime, whose
/// epochs are short in time.
const FIRST_EPOCH: u64 = 16;
const EPOCH: u64 = 1_024;

/// The most requests that may be open, besides one for every slot.
const MOST_OPEN: u64 = 1 << 21;

/// The most queries that may be open in all shards together, besides one for every slot.
const MOST_QUERIES: u64 = 1 << 22;

/// Simulates one replication. `progress` hears how many requests have arrived, and says whether
/// to go on; none if it does not.
pub(crate) fn run(setup: &Setup<'_>, progress: &mut dyn FnMut(u64) -> bool) -> Option<Tally> {
    replicate(setup, Vec::new(), progress).map(|(tally, _)| tally)
}

/// Simulates one replication, as [`run`] does, and logs response times: a log for each shard, or
/// none at all.
pub(crate) fn replicate(
    setup: &Setup<'_>,
    logs: Vec<Log>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Option<(Tally, Vec<Log>)> {
    if let Some(shared) = &setup.experiment.shared {
        let world = World::new(setup, shared, 0).expect("checked before the run");
        return Some((through(setup, &mut [world], progress)?, logs));
    }
    if setup.has_priorities() {
        let shared = Shared::shard(setup.experiment.servers.len() as u32);
        let world = |index| World::new(setup, &shared, index).expect("checked before the run");
        let mut worlds: Vec<World> = (0..setup.experiment.shards).map(world).collect();
        let mut tally = through(setup, &mut worlds, progress)?;
        tally.load = None;
        return Some((tally, logs));
    }
    setup.drive(Replication { setup, logs, progress }).expect("checked before the run")
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
        let mut shards: Vec<Shard<S>> = (0..setup.experiment.shards).map(new).collect();
        let tally = through(setup, &mut shards, progress)?;
        Some((tally, shards.into_iter().filter_map(|shard| shard.log).collect()))
    }
}

fn through(
    setup: &Setup<'_>,
    shards: &mut [impl Part],
    progress: &mut dyn FnMut(u64) -> bool,
) -> Option<Tally> {
    let (from, to) = setup.experiment.measured();
    let mut clock = setup.clock();
    let mut sink = Sink::new(setup.experiment.shards, (from, to));
    sink.tally.windows = setup.experiment.windows.map(Windowed::new);
    // Where the world changes: the first request that meets it, and the world then.
    let change = setup.experiment.change.as_ref().map(|change| change.at);
    let turn = change.zip(setup.experiment.after());
    let slots = setup.experiment.slots_in_all();
    let borders = [0, 1, 2, 3, 4].map(|quarter| from + (quarter * (to - from)).div_ceil(4));
    let most_queries = MOST_QUERIES + slots;
    let mut times = vec![0; BLOCK as usize];
    let mut begun = Moment::default();
    let (mut learners, mut records) = (setup.learners(), Vec::new());
    let queries = u64::from(setup.experiment.shards);
    loop {
        let first = sink.requests.next();
        let most = match learners.len() {
            0 => BLOCK,
            _ => (first / 4).max(FIRST_EPOCH / queries).min(EPOCH / queries),
        };
        // A block ends where measuring begins, where each quarter of it ends, and where the world
        // changes.
        let ends = borders.into_iter().chain(turn.as_ref().map(|turn| turn.0));
        let border = ends.filter(|&end| first < end).min().unwrap_or(u64::MAX);
        let turns = turn.as_ref().filter(|turn| turn.0 == first);
        // After short runs, the shards need not come to the end of a long block.
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
            // Many shards have no memory to go on until each of them overflows.
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
            // In a short time, what was at work when it began may all have been in vain.
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

/// An epoch has ended: what a client recorded in all shards goes to its learner, and what that learned to all of them.
fn teach(learners: &mut [Learner], records: &mut Vec<Record>, shards: &mut [impl Part]) {
    for (client, learner) in learners.iter_mut().enumerate() {
        records.clear();
        shards.iter_mut().for_each(|shard| shard.publish(client, records));
        learner.absorb(records);
        shards.iter_mut().for_each(|shard| shard.adopt(client, learner.snapshot()));
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
        for (ended, at_it) in shards.iter().map(|shard| shard.executed(now)) {
            busy_ns += ended + at_it;
            // Which of these will answer is not known yet.
            useful_ns += at_it;
        }
        Self { now, busy_ns, useful_ns }
    }
}
