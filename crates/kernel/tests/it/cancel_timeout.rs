//! A cancelled copy keeps its slot: while its server sends, for as long as that takes; while its
//! server is silent, until the cancel timeout.

use crate::referee::World;
use curtail_kernel::{Action, CopyId, Event, Limits, Outcome, Policy, ServerId, Topology};

const TIMEOUT: u64 = 100;

fn world() -> World {
    let limits = Limits { cancel_timeout_ns: TIMEOUT, ..Limits::default() };
    World::new(Policy::PSQ, &Topology::replicated(2, 1), limits, 1)
}

/// A query that was answered by its head, and whose client left then.
fn abandoned_stream(w: &mut World, now: u64) -> CopyId {
    let query = w.arrive(now, 0);
    let copy = *w.model.attached(query).next().expect("it runs").0;
    w.feed(now, Event::Responded { copy, good: true });
    w.feed(now, Event::Unwanted { copy });
    copy
}

#[test]
fn a_silent_copy_is_lost_and_its_server_stays() {
    let mut w = world();
    let copy = abandoned_stream(&mut w, 0);
    let server = w.model.copies[&copy].server;
    w.feed(TIMEOUT - 1, Event::Tick);
    assert_eq!(w.actions, []);
    w.feed(TIMEOUT, Event::Tick);
    assert_eq!(w.actions, [Action::Lose { copy }], "one copy ejects no server");
    assert_eq!(w.cell.core().server(server).outstanding, 0);
    assert!(w.cell.core().server(server).up);
    w.finish_all(TIMEOUT);
}

#[test]
fn slow_urls_called_at_once_take_no_shard_out() {
    let mut w = world();
    let mut now = 0;
    for _ in 0..20 {
        abandoned_stream(&mut w, now);
        abandoned_stream(&mut w, now);
        now += TIMEOUT;
        w.feed(now, Event::Tick);
        assert!((0..2).all(|server| w.cell.core().server(ServerId(server)).up));
    }
    w.finish_all(now);
}

#[test]
fn a_server_that_sends_is_not_silent() {
    let mut w = world();
    let copy = abandoned_stream(&mut w, 0);
    for now in (0..10 * TIMEOUT).step_by(TIMEOUT as usize / 2) {
        w.feed(now, Event::Progress { copy });
        w.feed(now, Event::Tick);
        assert_eq!(w.actions, []);
    }
    w.finish(10 * TIMEOUT, copy, Outcome::Good);
    w.finish_all(11 * TIMEOUT);
}
