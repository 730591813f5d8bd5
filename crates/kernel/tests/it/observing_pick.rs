//! A pick that observes sees the start and the end of every copy, including those that a hedge
//! starts.

use std::sync::{Arc, Mutex};

use curtail_kernel::balance::{LeastOutstanding, Pick};
use curtail_kernel::hedge::Naive;
use curtail_kernel::{
    Action, Arrive, Avoid, Cell, Event, GroupId, Levels, Limits, Outcome, QueryId, Rng, Scheduler,
    ServerId, Timestamp, Topology, rng,
};

type Ends = Vec<(u32, u64, Option<Outcome>)>;

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<(Vec<u32>, Ends)>>);

impl Pick for Recorder {
    const OBSERVES: bool = true;

    fn pick(
        &mut self,
        group: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId> {
        LeastOutstanding.pick(group, levels, avoid, rng)
    }

    fn started(&mut self, server: ServerId, _: Timestamp) {
        self.0.lock().unwrap().0.push(server.0);
    }

    fn ended(&mut self, server: ServerId, _: Timestamp, took_ns: u64, outcome: Option<Outcome>) {
        self.0.lock().unwrap().1.push((server.0, took_ns, outcome));
    }
}

#[test]
fn every_start_and_end_is_observed_once_with_its_time() {
    let seen = Recorder::default();
    let parts = (seen.clone(), Naive::default());
    let topology = Topology::replicated(2, 1);
    let mut cell = Cell::new(&topology, &[1, 1], Limits::default(), parts, rng(1)).expect("a cell");
    let arrive = Event::Arrive(Arrive::new(QueryId(0), GroupId(0)));
    let actions = cell.handle(Timestamp(10), &arrive).to_vec();
    let [
        Action::Start { copy: first, server, .. },
        Action::Start { copy: second, server: other, .. },
    ] = actions[..]
    else {
        panic!("both servers are idle: {actions:?}")
    };
    assert_eq!(seen.0.lock().unwrap().0, [server.0, other.0]);
    cell.handle(Timestamp(15), &Event::Finished { copy: first, outcome: Outcome::Good });
    cell.handle(Timestamp(40), &Event::Stopped { copy: second });
    cell.handle(Timestamp(50), &Event::Stopped { copy: second });
    let ends = seen.0.lock().unwrap().1.clone();
    assert_eq!(ends, [(server.0, 5, Some(Outcome::Good)), (other.0, 30, None)]);
}
