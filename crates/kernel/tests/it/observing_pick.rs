//! A pick and a hedge get every hook that their descriptors declare, through the path of any policy:
//! boxed, as parts of a policy that is built by its descriptors.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use curtail_kernel::balance::{Ended, NewPick, Pick, Wanted};
use curtail_kernel::hedge::rescue::{RESCUE, Record, RescueLearner, Snapshot, Version};
use curtail_kernel::hedge::{
    self, AnyLearner, AnyLearns, HEDGES, Hedge, LAEDGE, Learns, NAIVE, NewHedge, NoHedge, Records,
};
use curtail_kernel::{
    Arguments, Arrive, Compiled, Conduct, CopyId, Core, Descriptor, Event, Feedback, GroupId,
    Levels, Limits, Needs, Outcome, Policy, Probed, QueryId, Rng, Scheduler, ServerId, Timestamp,
    Topology, rng,
};

use crate::actions::starts;

type Ends = Vec<(u32, u64, Option<Outcome>, u64)>;

#[derive(Default)]
struct Log {
    called: BTreeSet<&'static str>,
    started: Vec<u32>,
    ends: Ends,
    feedback: Vec<(u32, Feedback)>,
    cost_hints: Vec<Option<u64>>,
}

/// What the parts below have recorded. Only one test at a time may use them, because a descriptor
/// builds a part without any context.
static LOG: Mutex<Option<Log>> = Mutex::new(None);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn begin() -> MutexGuard<'static, ()> {
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *LOG.lock().unwrap() = Some(Log::default());
    turn
}

fn log<R>(hook: &'static str, with: impl FnOnce(&mut Log) -> R) -> R {
    let mut log = LOG.lock().unwrap();
    let log = log.as_mut().expect("a test has begun");
    log.called.insert(hook);
    with(log)
}

/// Returns what was recorded. Asserts that exactly these hooks were called.
fn end(hooks: &[&'static str]) -> Log {
    let log = LOG.lock().unwrap().take().expect("a test has begun");
    assert_eq!(log.called, hooks.iter().copied().collect());
    log
}

#[derive(Debug)]
struct Recorder;

impl Pick for Recorder {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        log("pick", |log| log.cost_hints.push(copy.cost_hint.map(Into::into)));
        levels.least(rng, copy.avoid)
    }

    fn started(&mut self, server: ServerId, _: Timestamp) {
        log("started", |log| log.started.push(server.0));
    }

    fn ended(&mut self, copy: Ended) {
        let Ended { server, took_ns, outcome, bytes, .. } = copy;
        log("ended", |log| log.ends.push((server.0, took_ns, outcome, bytes)));
    }

    fn restored(&mut self, _: ServerId) {
        log("restored", |_| {});
    }

    fn feedback(&mut self, server: ServerId, _: Timestamp, feedback: Feedback) {
        log("feedback", |log| log.feedback.push((server.0, feedback)));
    }

    fn probes(&mut self, _: Levels<'_>, _: &mut Rng, probe: &mut dyn FnMut(ServerId)) {
        log("probes", |_| probe(ServerId(1)));
    }

    fn probed(&mut self, _: Timestamp, _: Probed) {
        log("probed", |_| {});
    }

    fn score(&self, _: ServerId, _: Levels<'_>) -> Option<f64> {
        log("score", |_| Some(7.0))
    }
}

const ALL: Needs = Needs {
    copies: true,
    waiting: true,
    feedback: true,
    probes: true,
    hints: true,
    bytes: true,
    ..Needs::NOTHING
};
static NEEDS_ALL: Descriptor<NewPick> =
    Descriptor::pick("recorder", "records its calls", |_| ALL, |_, _| Box::new(Recorder));
static NEEDS_NOTHING: Descriptor<NewPick> =
    Descriptor::pick("aloof", "needs nothing", |_| Needs::NOTHING, |_, _| Box::new(Recorder));

fn build(policy: Policy) -> Box<dyn Scheduler> {
    let limits = Limits { max_outstanding: 1, queue: 9, cancel: true, ..Limits::default() };
    policy.build(&Topology::replicated(2, 1), limits, rng(1)).expect("a cell")
}

fn arrive(query: u32, cost: u64) -> Event {
    let cost_hint = std::num::NonZeroU64::new(cost);
    Event::Arrive(Arrive { cost_hint, ..Arrive::new(QueryId(query), GroupId(0)) })
}

/// Feeds a cell every event that concerns a pick.
fn run(policy: Policy) -> Box<dyn Scheduler> {
    let mut cell = build(policy);
    let feedback = Feedback { queue: 3, service_ns: 4 };
    let first = starts(cell.handle(Timestamp(10), &arrive(0, 5)))[0].0;
    cell.handle(Timestamp(11), &Event::Feedback { copy: first, feedback });
    cell.handle(Timestamp(11), &Event::Received { copy: first, bytes: 9 });
    cell.handle(Timestamp(15), &Event::Finished { copy: first, outcome: Outcome::Good });
    cell.handle(Timestamp(16), &Event::ServerDown { server: ServerId(0) });
    cell.handle(Timestamp(17), &Event::ServerUp { server: ServerId(0) });
    let probed = Probed { server: ServerId(0), in_flight: 1, latency_ns: 1 };
    cell.handle(Timestamp(18), &Event::Probed(probed));
    cell.score(ServerId(0));
    cell
}

#[test]
fn a_pick_gets_every_hook_that_it_declares_whatever_the_hedge() {
    let plain = Policy::balance(&NEEDS_ALL);
    for hedge in [None, Some(&NAIVE), Some(&LAEDGE), Some(&RESCUE)] {
        let _turn = begin();
        let policy = match hedge {
            Some(hedge) => Policy::hedged(hedge.with(Arguments::NONE)).over_pick(&NEEDS_ALL),
            None => plain,
        };
        assert!(run(policy).needs().feedback, "{policy}: a driver reports feedback");
        let log =
            end(&["pick", "started", "ended", "restored", "feedback", "probes", "probed", "score"]);
        assert_eq!(log.feedback[0].1, Feedback { queue: 3, service_ns: 1 }, "{policy}");
        assert_eq!(log.cost_hints[0], Some(5), "{policy}");
        assert_eq!((log.ends[0].1, log.ends[0].3), (5, 9), "{policy}: a response of 9 bytes");
    }
}

#[test]
fn a_pick_that_declares_nothing_is_only_asked_to_pick() {
    let _turn = begin();
    assert_eq!(run(Policy::balance(&NEEDS_NOTHING)).needs(), Needs::NOTHING);
    // A driver that reports what is not needed does no harm.
    end(&["pick", "feedback", "probed", "score"]);
}

#[test]
fn every_start_and_end_is_observed_once_with_its_time() {
    let _turn = begin();
    let mut cell = build(Policy::hedged(NAIVE.with(Arguments::NONE)).over_pick(&NEEDS_ALL));
    let both = starts(cell.handle(Timestamp(10), &arrive(0, 0)));
    let [(first, server), (second, other)] = both[..] else { panic!("both are idle: {both:?}") };
    cell.handle(Timestamp(15), &Event::Finished { copy: first, outcome: Outcome::Good });
    cell.handle(Timestamp(40), &Event::Stopped { copy: second });
    cell.handle(Timestamp(50), &Event::Stopped { copy: second });
    let log = end(&["pick", "started", "ended", "probes"]);
    assert_eq!(log.started, [server.0, other.0]);
    assert_eq!(log.ends, [(server.0, 5, Some(Outcome::Good), 0), (other.0, 30, None, 0)]);
    assert_eq!(log.cost_hints, [None, None]);
}

#[derive(Debug)]
struct Diary;

impl<P: Pick + ?Sized> Hedge<P> for Diary {
    fn conduct(&self) -> Conduct {
        Conduct { cleans_up: false, preempts: true, biases: true }
    }

    fn primary_started(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        log("primary_started", |_| core.set_timer(query, core.now().after(5)));
    }

    fn primary_started_late(&mut self, _: &mut Core, _: &mut P, _: QueryId) {
        log("primary_started_late", |_| {});
    }

    fn timer(&mut self, _: &mut Core, _: &mut P, _: QueryId) {
        log("timer", |_| {});
    }

    fn began(&mut self, _: &mut Core, _: QueryId, _: CopyId) {
        log("began", |_| {});
    }

    fn spare(&mut self, _: &mut Core, _: ServerId) -> bool {
        log("spare", |_| false)
    }

    fn overtakes(&mut self, _: &mut Core, _: ServerId) -> bool {
        log("overtakes", |_| false)
    }

    fn starved(&mut self, _: &mut Core, _: GroupId) {
        log("starved", |_| {});
    }

    fn recount(&mut self, _: &Core, _: QueryId) {
        log("recount", |_| {});
    }

    fn released(&mut self, _: &mut Core, _: ServerId, _: CopyId) {
        log("released", |_| {});
    }

    fn ended(&mut self, _: &Core, _: QueryId) {
        log("query ended", |_| {});
    }

    fn suspects(&self) -> u32 {
        log("suspects", |_| 4)
    }

    fn learns(&mut self) -> Option<&mut dyn AnyLearns> {
        Some(self)
    }
}

impl Learns for Diary {
    type Learner = RescueLearner;

    fn answered(&mut self, _: &mut Core, _: QueryId, _: CopyId, _: ServerId) -> bool {
        log("answered", |_| false)
    }

    fn outlived(&mut self, _: &mut Core, _: ServerId, _: CopyId) {
        log("outlived", |_| {});
    }

    fn overran(&mut self, _: &Core, _: CopyId) {
        log("overran", |_| {});
    }

    fn publish(&mut self, into: &mut Vec<Record>) {
        log("publish", |_| into.push(Record::Place { older: 1 }));
    }

    fn adopt(&mut self, _: &Snapshot) {
        log("adopt", |_| {});
    }
}

static DIARY: Descriptor<NewHedge> = Descriptor {
    name: "diary",
    forms: &["diary"],
    about: "records its calls",
    needs: |_| Needs { timers: true, ..Needs::NOTHING },
    builds: NewHedge {
        learner: |_, _, _| Some(AnyLearner::new(RescueLearner::new(Version::Cleanup, 0.02))),
        ..NewHedge::pull(|_, _| Box::new(Diary))
    },
};

#[test]
fn a_hedge_gets_every_hook() {
    let _turn = begin();
    let limits = Limits { attempt_timeout_ns: 60, queue: 9, retries: 1, ..Limits::default() };
    let policy = Policy::hedged(DIARY.with(Arguments::NONE));
    let mut cell = policy.build(&Topology::replicated(2, 1), limits, rng(1)).expect("a cell");
    let good = |copy| Event::Finished { copy, outcome: Outcome::Good };
    let (a, _) = starts(cell.handle(Timestamp(0), &arrive(0, 0)))[0];
    let (b, _) = starts(cell.handle(Timestamp(0), &arrive(1, 0)))[0];
    cell.handle(Timestamp(1), &Event::Started { copy: a });
    cell.handle(Timestamp(1), &arrive(2, 0));
    cell.handle(Timestamp(6), &Event::Tick);
    // The head wins, so the copy outlives its query.
    cell.handle(Timestamp(7), &Event::Responded { copy: a, outcome: Outcome::Good });
    let (c, _) = starts(cell.handle(Timestamp(8), &good(a)))[0];
    cell.handle(Timestamp(9), &Event::ForbidRetry { copy: c });
    cell.handle(Timestamp(10), &good(c));
    // A head that arrives early, whose body outlasts the attempt timer.
    cell.handle(Timestamp(11), &good(b));
    assert_eq!(cell.suspects(), 4);
    let mut records = Records::default();
    cell.publish(&mut records);
    assert_eq!(*records.list::<Record>(), [Record::Place { older: 1 }]);
    cell.adopt(&hedge::Snapshot::new(Snapshot::NOTHING));
    end(&[
        "primary_started",
        "primary_started_late",
        "timer",
        "began",
        "spare",
        "overtakes",
        "starved",
        "recount",
        "released",
        "query ended",
        "suspects",
        "answered",
        "outlived",
        "publish",
        "adopt",
    ]);
}

#[test]
fn cells_that_are_compiled_for_a_hedge_know_its_needs() {
    fn check<H: Compiled>(of: &Descriptor<NewHedge>) {
        let compiled = H::NEEDS.expect("it is compiled");
        for form in 0..of.forms.len() {
            let needs = (of.needs)(&Arguments::form(form % 3));
            assert_eq!((needs.timers, needs.hints), (compiled.timers, compiled.hints), "{of:?}");
        }
    }
    check::<curtail_kernel::hedge::Laedge<curtail_kernel::hedge::MostRecent>>(&LAEDGE);
    check::<curtail_kernel::hedge::Rescue>(&RESCUE);
    assert_eq!(NoHedge::NEEDS, Some(Needs::NOTHING));
    const { assert!(!NoHedge::HEDGES) };
    assert_eq!(HEDGES.iter().filter(|hedge| hedge.builds.simulator_only.is_some()).count(), 1);
}
