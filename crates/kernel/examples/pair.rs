//! Measures the cost of a scheduling decision. Feeds a cell pairs of events: the arrival of a query
//! and the end of a copy. Prints the number of events, the number of copies, and the time, as
//! `name=value` pairs on one line.
//!
//! `pair POLICY REPLICAS WAITING QUERIES`: The queue always contains WAITING queries. If it is 0,
//! half of the servers are idle instead. With `DEADLINE=1` in the environment, every query has a
//! deadline, as in a proxy.
//!
//! To count instructions, run it under callgrind, and collect only inside the kernel:
//!
//! ```text
//! valgrind --tool=callgrind --toggle-collect='*::Scheduler>::handle' pair psq 2 0 20000
//! ```
//!
//! The cost of a query is the difference between runs of 20000 and 10000 queries, divided by 10000.
//! The difference excludes the cost of filling the cell. `--toggle-collect='*Driver::learn'` also
//! collects the work of the policy's learner.
// A benchmark measures real time.
#![allow(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::time::Instant;

use curtail_kernel::hedge::{AnyLearner, Records};
use curtail_kernel::{
    Action, Arrive, CopyId, Event, GroupId, Limits, NEVER_NS, Outcome, Policy, QueryId, Rng,
    Scheduler, Timestamp, Topology, rng,
};
use rand_core::Rng as _;

/// Queries per epoch. A query causes two events, so it takes 1 ms on average. An epoch takes 100
/// ms, as in a proxy.
const EPOCH: u32 = 100;

struct Driver {
    cell: Box<dyn Scheduler>,
    gaps: Rng,
    running: VecDeque<CopyId>,
    stopping: Vec<CopyId>,
    free: Vec<QueryId>,
    now: Timestamp,
    answers: u64,
    events: u64,
    copies: u64,
    learner: Option<AnyLearner>,
    records: Records,
}

impl Driver {
    /// Feeds an event up to 1 ms after the previous one. So the ages of queries differ, and some
    /// queries reach their hedge delay.
    fn next(&mut self, event: Event) {
        let until = self.now.after(self.gaps.next_u64() % 1_000_000);
        while self.cell.next_deadline() <= until {
            self.now = self.cell.next_deadline().max(self.now);
            self.feed(Event::Tick);
        }
        self.now = until;
        self.feed(event);
    }

    fn feed(&mut self, event: Event) {
        self.events += 1;
        for &action in self.cell.handle(self.now, &event) {
            match action {
                Action::Start { copy, .. } => {
                    self.copies += 1;
                    self.running.push_back(copy);
                }
                Action::Stop { copy, .. } => self.stopping.push(copy),
                Action::Answer { query, .. } => {
                    self.answers += 1;
                    self.free.push(query);
                }
                other => panic!("not possible in this example: {other:?}"),
            }
        }
        // A cancelled copy stops immediately.
        while let Some(copy) = self.stopping.pop() {
            self.running.retain(|&other| other != copy);
            self.feed(Event::Stopped { copy });
        }
    }

    fn arrive(&mut self) {
        let query = self.free.pop().expect("ids enough");
        self.next(Event::Arrive(Arrive::new(query, GroupId(0))));
    }

    /// Ends the oldest copies until a query is answered.
    fn answer(&mut self) {
        let before = self.answers;
        while self.answers == before {
            let copy = self.running.pop_front().expect("something runs");
            self.next(Event::Finished { copy, outcome: Outcome::Good });
        }
    }

    /// Ends an epoch: the cell's records go to the learner, and the learner's snapshot goes to the
    /// cell.
    #[inline(never)]
    fn learn(&mut self) {
        let Some(learner) = &mut self.learner else { return };
        self.cell.publish(&mut self.records);
        learner.absorb(&mut self.records);
        self.cell.adopt(&learner.snapshot());
    }

    fn waiting(&self) -> u32 {
        self.cell.core().waiting(GroupId(0))
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, replicas, waiting, queries] = &args[..] else {
        eprintln!("usage: pair POLICY REPLICAS WAITING QUERIES");
        std::process::exit(2);
    };
    let number = |text: &String| text.parse::<u32>().expect("a number");
    let (replicas, waiting, queries) = (number(replicas), number(waiting), number(queries));
    let policy = Policy::parse(name, None).expect("a policy");
    let deadline = std::env::var("DEADLINE").is_ok_and(|text| text == "1");
    let limits = Limits {
        queue: waiting + 10,
        cancel: true,
        hedge_budget: 1.0,
        // This timeout is longer than the run, so no deadline passes.
        timeout_ns: if deadline { 2_000_000_000_000 } else { NEVER_NS },
        ..Limits::default()
    };
    let learner = policy.learner(&limits);
    let topology = Topology::replicated(replicas, 1);
    let cell = policy.build(&topology, limits, rng(1)).expect("a cell");
    let ids = 2 * (waiting + 200 * replicas);
    let mut driver = Driver {
        cell,
        gaps: rng(2),
        running: VecDeque::new(),
        stopping: Vec::new(),
        free: (0..ids).rev().map(QueryId).collect(),
        now: Timestamp(0),
        answers: 0,
        events: 0,
        copies: 0,
        learner,
        records: Records::default(),
    };
    if waiting == 0 {
        (0..replicas / 2).for_each(|_| driver.arrive());
    }
    while driver.waiting() < waiting {
        driver.arrive();
    }
    (driver.events, driver.copies) = (0, 0);
    let start = Instant::now();
    for i in 0..queries {
        driver.arrive();
        driver.answer();
        if i % EPOCH == EPOCH - 1 {
            driver.learn();
        }
    }
    let ns = start.elapsed().as_nanos() as f64 / f64::from(queries);
    let Driver { events, copies, .. } = driver;
    println!(
        "policy={name} replicas={replicas} waiting={waiting} deadline={deadline} \
         queries={queries} events={events} copies={copies} ns_per_query={ns:.1}"
    );
}
