//! Servers join and leave while the cell runs.

use curtail_kernel::{
    Action, Event, Fault, Limits, Outcome, Policy, ServerId, ShedReason, Topology,
};

use crate::referee::{Harness, named};

const A: ServerId = ServerId(0);
const B: ServerId = ServerId(1);
const D: ServerId = ServerId(3);

fn harness(policy: Policy, servers: u32) -> Harness {
    let limits = Limits { retry_reserve: 1_000, queue: 2, timeout_ns: 1_000, ..Limits::default() };
    Harness::new(policy, &Topology::replicated(servers, 1), limits, 1)
}

#[test]
fn a_server_that_has_left_gets_no_copies_and_another_one_takes_its_place() {
    let mut w = harness(Policy::ROUND_ROBIN, 3);
    let first = w.arrive(0, 0);
    let (copy, left) = w.only(first);
    w.feed(1, Event::ServerLeft { server: left });
    for now in 2..12 {
        let query = w.arrive(now, 0);
        let (copy, server) = w.only(query);
        assert_ne!(server, left);
        w.finish(now, copy, Outcome::Good);
    }
    // Whatever is reported about its health, it does not return, and its copy still counts.
    for event in [
        Event::ServerUp { server: left },
        Event::ServerUnhealthy { server: left, listens: true },
        Event::ServerDraining { server: left },
        Event::ServerJoined { server: left },
    ] {
        w.feed(20, event);
        let view = w.cell.core().server(left);
        assert!(!view.up && !view.member && view.outstanding == 1, "{event:?}: {view:?}");
    }
    let ended = w.finish(21, copy, Outcome::Good);
    assert_eq!(ended, [Action::Answer { query: first, copy }]);
    w.feed(22, Event::ServerJoined { server: left });
    let view = w.cell.core().server(left);
    assert!(view.up && view.member, "{view:?}");
    let mut served = Vec::new();
    for _ in 0..3 {
        let query = w.arrive(23, 0);
        served.push(w.only(query).1);
    }
    assert!(served.contains(&left), "{served:?}");
}

#[test]
fn a_server_that_takes_a_place_has_a_clean_record() {
    let mut w = harness(Policy::ROUND_ROBIN, 3);
    let fail = |w: &mut Harness, now: u64| {
        let query = w.arrive(now, 0);
        while let Some(&copy) = w.copies(query).first() {
            let is_bad = w.server_of(copy) == A;
            w.finish(
                now,
                copy,
                if is_bad { Outcome::Failed(Fault::Status) } else { Outcome::Good },
            );
        }
    };
    let mut now = 0;
    while w.is_up(A) {
        now += 1;
        fail(&mut w, now);
    }
    w.feed(now, Event::ServerLeft { server: A });
    // The back-off of the server that has left does not concern the one that takes its place.
    w.feed(now, Event::ServerJoined { server: A });
    assert!(w.is_up(A));
    assert_eq!(w.cell.core().server(A).held, 0);
}

/// Half of four servers may be ejected, but only one of three.
#[test]
fn only_members_count_in_fractions() {
    for (fourth_leaves, ejects) in [(false, 2), (true, 1)] {
        let mut w = harness(Policy::ROUND_ROBIN, 4);
        if fourth_leaves {
            w.feed(0, Event::ServerLeft { server: D });
        }
        for now in 1..400 {
            let query = w.arrive(now, 0);
            let bad = if now < 200 { A } else { B };
            while let Some(&copy) = w.copies(query).first() {
                let failed = Outcome::Failed(Fault::Status);
                w.finish(now, copy, if w.server_of(copy) == bad { failed } else { Outcome::Good });
            }
        }
        let out = [A, B].into_iter().filter(|&server| !w.is_up(server)).count();
        assert_eq!(out, ejects, "fourth leaves: {fourth_leaves}");
    }
}

#[test]
fn queries_wait_while_every_server_has_left() {
    for policy in ["random", "psq", "rescue", "laedge", "c3", "prequal", "rescue+least-outstanding"]
    {
        let mut w = harness(named(policy), 2);
        for server in [A, B] {
            w.feed(0, Event::ServerLeft { server });
        }
        let waiting = [w.arrive(1, 0), w.arrive(2, 0)];
        let full = w.arrive(3, 0);
        let shed = Action::Shed { query: full, why: ShedReason::QueueFull };
        assert!(w.actions.contains(&shed), "{policy}: {:?}", w.actions);
        w.feed(10, Event::ServerJoined { server: B });
        let (copy, server) = w.only(waiting[0]);
        assert_eq!(server, B, "{policy}");
        w.finish(20, copy, Outcome::Good);
        assert_eq!(w.only(waiting[1]).1, B, "{policy}");
    }
}
