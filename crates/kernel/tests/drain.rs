//! A copy that was given up keeps its slot: while it is at work, for as long as that takes; while it
//! is silent, until the drain time-out.

mod referee;

use curtail_kernel::{Action, EjectReason, Event, Limits, Outcome, Policy, ServerId, Topology};
use referee::World;

const DRAIN: u64 = 100;

fn world() -> World {
    let limits = Limits { drain_timeout_ns: DRAIN, ..Limits::default() };
    World::new(Policy::PerShardQueue, &Topology::replicated(2, 1), limits, 1)
}

/// A query that was answered by its head, and whose client left then.
fn abandoned_stream(w: &mut World) -> curtail_kernel::CopyId {
    let query = w.arrive(0, 0);
    let copy = *w.model.attached(query).next().expect("it runs").0;
    w.feed(0, Event::Responded { copy, good: true });
    w.feed(0, Event::Unwanted { copy });
    copy
}

#[test]
fn silence_takes_the_server_out() {
    let mut w = world();
    let copy = abandoned_stream(&mut w);
    let server = w.model.copies[&copy].server;
    w.feed(DRAIN - 1, Event::Tick);
    assert_eq!(w.actions, []);
    w.feed(DRAIN, Event::Tick);
    let out = Action::Eject { server, why: EjectReason::Silent };
    assert_eq!(w.actions, [Action::Lose { copy }, out]);
    assert_eq!(w.cell.core().server(server).outstanding, 0);
}

#[test]
fn a_server_that_sends_is_not_silent() {
    let mut w = world();
    let copy = abandoned_stream(&mut w);
    for now in (0..10 * DRAIN).step_by(DRAIN as usize / 2) {
        w.feed(now, Event::Progress { copy });
        w.feed(now, Event::Tick);
        assert_eq!(w.actions, []);
    }
    w.finish(10 * DRAIN, copy, Outcome::Good);
    assert!((0..2).all(|s| w.cell.core().server(ServerId(s)).up));
    w.drain(11 * DRAIN);
}
