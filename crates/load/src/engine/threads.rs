//! Starts, stops and joins the threads of a run.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, panic};

use curtail_dist::seed;
use curtail_machine::keep_to;
use tokio::sync::oneshot;

use crate::engine::observe::{Listener, Observer};
use crate::engine::{self, Clock, Measured, Orders, Source, Task, stamp};
use crate::plan::error::LoadError;
use crate::plan::schedule::{Extent, Part, Schedule, Share};
use crate::plan::{Pace, Plan};
use crate::results::facts::Sender;
use crate::results::record::Record;
use crate::session::Sessions;

/// Time between the start of the threads and the start of the schedule. It gives the threads time
/// to initialize.
pub(crate) const LEAD: Duration = Duration::from_millis(5);

/// Running threads. Dropping this value stops and joins them, which takes microseconds.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(crate) clock: Clock,
    warmup_ns: u64,
    orders: Arc<Orders>,
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct Thread {
    notify: UnixStream,
    empty: SyncSender<Box<Record>>,
    full: Receiver<Box<Record>>,
    /// Resolves when the thread ends, even if it panics.
    end: oneshot::Receiver<()>,
    ended: bool,
    /// `None` once joined.
    handle: Option<JoinHandle<io::Result<Measured>>>,
}

/// What a machine prepares before it starts its threads. It must live until the run ends.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) source: stamp::Source,
}

impl Threads {
    /// Starts the threads for a machine's part of the plan. The schedule begins at `epoch`, which
    /// should be [`LEAD`] from now.
    pub(crate) fn start(
        plan: &Plan,
        part: Part,
        epoch: Instant,
        machine: &Machine,
        listener: Option<&Listener>,
    ) -> Result<Threads, LoadError> {
        let schedule = plan.schedule()?;
        let (clock, orders) = (Clock::new(epoch), Arc::default());
        let mut threads = Threads { clock, warmup_ns: plan.warmup_ns, orders, threads: Vec::new() };
        let addresses: Arc<[SocketAddr]> = machine.addresses.as_slice().into();
        for number in 0..plan.threads {
            let (notify, notified) = UnixStream::pair().map_err(LoadError::Thread)?;
            notified.set_nonblocking(true).map_err(LoadError::Thread)?;
            // The channel has room for the record that is being offered and for the previous one.
            let ((empty, offers), (handed, full)) = (sync_channel(1), sync_channel(2));
            let (alive, end) = oneshot::channel();
            let source = source(plan, &schedule, part, number);
            let task = Task {
                clock,
                addresses: Arc::clone(&addresses),
                sessions: Arc::clone(&machine.sessions),
                connections: share_of(plan.connections, plan.threads, number),
                threads: plan.threads,
                backlog_max: share_of(plan.backlog, plan.threads, number),
                timeout_ns: plan.timeout_ns,
                spin: plan.spin,
                stamps: machine.source.clock(),
                bypass: machine.source.bypass().cloned(),
                orders: Arc::clone(&threads.orders),
                notify: notified,
                empty: offers,
                full: handed,
                warmup_ns: plan.warmup_ns,
                observer: Observer::new(listener.cloned()),
            };
            let processor = plan.processors.numbers().get(number).copied();
            let body = move || {
                let _alive: oneshot::Sender<()> = alive;
                if let Some(processor) = processor {
                    keep_to(&[processor])?;
                }
                engine::run(source, task)
            };
            let named = thread::Builder::new().name(format!("load-{number}"));
            let handle = Some(named.spawn(body).map_err(LoadError::Thread)?);
            threads.threads.push(Thread { notify, empty, full, end, ended: false, handle });
        }
        Ok(threads)
    }

    pub(crate) fn stop(&self) {
        self.orders.stop.store(true, Ordering::Relaxed);
        self.notify();
    }

    pub(crate) fn drain(&self) {
        self.orders.drain.store(true, Ordering::Relaxed);
        self.notify();
    }

    fn notify(&self) {
        for thread in &self.threads {
            // This fails if the thread has ended.
            let _ = io::Write::write(&mut &thread.notify, &[0]);
        }
    }

    /// Waits until all threads have ended. Cancel safe.
    pub(crate) async fn finished(&mut self) {
        for thread in &mut self.threads {
            if !thread.ended {
                let _ = (&mut thread.end).await;
                thread.ended = true;
            }
        }
    }

    /// Returns the merged records that have not been handed over yet, the intended time of the last
    /// request, and the idle time of the threads. Call it after [`finished`](Threads::finished).
    pub(crate) fn join(mut self) -> Result<(Record, u64, Option<Sender>), LoadError> {
        let (mut all, mut last_ns, mut sender) = (Record::new(), 0, None::<Sender>);
        for thread in &mut self.threads {
            let handle = thread.handle.take().expect("it is joined only here");
            let joined = handle.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
            let measured = joined.map_err(LoadError::Thread)?;
            all.merge(&measured.record);
            thread.full.try_iter().for_each(|record| all.merge(&record));
            last_ns = last_ns.max(measured.last_ns);
            sender.get_or_insert(measured.sender).merge(&measured.sender);
        }
        Ok((all, last_ns, sender))
    }

    /// Returns the merged records that were handed over since the last call. Offers each thread an
    /// empty record.
    pub(crate) fn collect(&self) -> Record {
        let mut together = Record::new();
        let now_ns = self.clock.elapsed_ns();
        for thread in &self.threads {
            thread.full.try_iter().for_each(|record| together.merge(&record));
            // This fails if a record has already been offered.
            let _ = thread.empty.try_send(Box::new(Record::with_room(now_ns, self.warmup_ns)));
        }
        together
    }
}

fn source(plan: &Plan, schedule: &Schedule, part: Part, number: usize) -> Source {
    let thread = number as u64;
    if matches!(plan.pace, Pace::Open { .. }) {
        return Source::open(Share::new(schedule.clone(), part, plan.threads, thread));
    }
    let own = plan.threads as u64;
    let all = Part { number: part.number * own + thread, of: part.of * own };
    // Otherwise all threads of a machine would draw the same requests. Machines have their own
    // seeds.
    let seed = match thread {
        0 => plan.seed,
        _ => seed::stream(plan.seed, &[b"load", b"thread", &thread.to_le_bytes()]),
    };
    let extent = match plan.extent {
        Extent::Requests(count) => Extent::Requests(all.share_of(count)),
        time @ Extent::Duration { .. } => time,
    };
    let schedule = Schedule::untimed(seed)
        .with_queries(plan.queries.len(), plan.order)
        .with_keys(plan.protocol.keys)
        .with_start(all)
        .with_extent(plan.warmup_ns, extent);
    Source::closed(schedule, all.of, all.number)
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
        for handle in self.threads.iter_mut().filter_map(|thread| thread.handle.take()) {
            // An error means that the thread panicked. The panic hook has already printed the
            // message.
            let _ = handle.join();
        }
    }
}

fn share_of(all: usize, threads: usize, number: usize) -> usize {
    Part { number: number as u64, of: threads as u64 }.share_of(all as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::own_plan;
    use crate::plan::schedule::{KeyDistribution, Keys, QueryOrder};

    fn plan(order: QueryOrder, keys: Option<Keys>) -> Plan {
        let mut plan = Plan::new("http://127.0.0.1:1/".parse().unwrap(), 1.0);
        (plan.pace, plan.threads, plan.connections) = (Pace::Closed, 3, 8);
        plan.queries = (0..60).map(|i| format!("/{i}?{{key}}")).collect();
        (plan.order, plan.protocol.keys) = (order, keys);
        plan
    }

    fn sequences(plan: &Plan, machines: u64) -> Vec<Vec<usize>> {
        let mut all = Vec::new();
        for number in 0..machines {
            let part = Part { number, of: machines };
            let own = own_plan(plan, part);
            let schedule = own.schedule().unwrap();
            for thread in 0..own.threads {
                let mut source = source(&own, &schedule, part, thread);
                let next = std::iter::from_fn(|| source.next(0, true));
                all.push(next.map(|slot| slot.query).take(60).collect());
            }
        }
        all
    }

    #[test]
    fn threads_of_a_closed_loop_send_different_sequences() {
        let keys = Keys { count: 1_000, distribution: KeyDistribution::Uniform };
        let orders = [QueryOrder::InOrder, QueryOrder::Random, QueryOrder::Rounds];
        for (order, keys) in
            orders.into_iter().flat_map(|order| [(order, None), (order, Some(keys))])
        {
            let plan = plan(order, keys);
            for machines in [1, 2] {
                let all = sequences(&plan, machines);
                let mut different = all.clone();
                different.sort_unstable();
                different.dedup();
                assert_eq!(different.len(), all.len(), "{order:?} {keys:?} {machines}");
            }
            let one: Vec<usize> =
                plan.schedule().unwrap().take(60).map(|slot| slot.query).collect();
            assert_eq!(sequences(&plan, 1)[0], one, "the first sends what a single one would send");
        }
    }

    #[test]
    fn threads_start_evenly_spaced_in_order_and_send_each_query_once_in_rounds() {
        let starts = |machines| -> Vec<usize> {
            sequences(&plan(QueryOrder::InOrder, None), machines)
                .iter()
                .map(|queries| queries[0])
                .collect()
        };
        assert_eq!(starts(1), [0, 20, 40]);
        assert_eq!(starts(2), [0, 10, 20, 30, 40, 50]);
        for mut round in sequences(&plan(QueryOrder::Rounds, None), 2) {
            round.sort_unstable();
            assert!(round.into_iter().eq(0..60));
        }
    }
}
