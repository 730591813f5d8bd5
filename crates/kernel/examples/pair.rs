//! What a decision costs: feeds a cell arrivals and ends of copies, and prints nanoseconds per
//! query. `cargo xtask bench kernel` runs it under callgrind as well, to count instructions.
//!
//! `pair POLICY REPLICAS WAITING QUERIES`: WAITING queries stand in the queue throughout.
// A benchmark is about real time.
#![allow(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::time::Instant;

use curtail_kernel::{
    Action, Arrive, Event, GroupId, Limits, Outcome, Policy, QueryId, Scheduler, Timestamp,
    Topology, rng,
};

struct Driver {
    cell: Box<dyn Scheduler>,
    running: VecDeque<curtail_kernel::CopyId>,
    free: Vec<QueryId>,
    now: Timestamp,
    answers: u64,
}

impl Driver {
    fn feed(&mut self, event: Event) {
        self.now = self.now.after(1_000);
        for &action in self.cell.handle(self.now, &event) {
            match action {
                Action::Start { copy, .. } => self.running.push_back(copy),
                Action::Answer { query, .. } => {
                    self.answers += 1;
                    self.free.push(query);
                }
                other => panic!("not in this world: {other:?}"),
            }
        }
    }

    fn arrive(&mut self) {
        let query = self.free.pop().expect("ids enough");
        self.feed(Event::Arrive(Arrive::new(query, GroupId(0))));
    }

    /// Ends the oldest copies until a query is answered.
    fn answer(&mut self) {
        let before = self.answers;
        while self.answers == before {
            let copy = self.running.pop_front().expect("something runs");
            self.feed(Event::Finished { copy, outcome: Outcome::Good });
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [policy, replicas, waiting, queries] = &args[..] else {
        eprintln!("usage: pair POLICY REPLICAS WAITING QUERIES");
        std::process::exit(2);
    };
    let number = |text: &String| text.parse::<u32>().expect("a number");
    let (replicas, waiting, queries) = (number(replicas), number(waiting), number(queries));
    let policy = Policy::parse(policy, None).expect("a policy");
    // As in the proxy: every query has a deadline.
    let limits = Limits {
        queue: waiting + 10,
        cancel: true,
        timeout_ns: if std::env::var("DEADLINE").is_ok() {
            2_000_000_000_000
        } else {
            curtail_kernel::NEVER_NS
        },
        ..Limits::default()
    };
    let topology = Topology::replicated(replicas, 1);
    let cell = policy.build(&topology, limits, rng(1)).expect("a cell");
    let ids = 2 * (waiting + 200 * replicas);
    let mut driver = Driver {
        cell,
        running: VecDeque::new(),
        free: (0..ids).rev().map(QueryId).collect(),
        now: Timestamp(0),
        answers: 0,
    };
    // Half of the servers are busy where nothing waits, all of them where something does.
    let busy = if waiting == 0 { replicas / 2 } else { replicas + waiting };
    (0..busy).for_each(|_| driver.arrive());
    let start = Instant::now();
    for _ in 0..queries {
        driver.arrive();
        driver.answer();
    }
    println!("{:.1}", start.elapsed().as_nanos() as f64 / f64::from(queries));
}
