//! Copies that stop only together with their query.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use curtail_kernel::{Limits, ServerId};
use curtail_runtime::{Cell, CopyContext, Failure, Head, Query, Timers, Transport};

use crate::servers::kernel;

/// The first copy of a query takes 30 ms, and the second one 20 ms. Each logs its end.
#[derive(Clone, Default)]
struct Slow {
    binds: bool,
    ends: Arc<Mutex<Vec<&'static str>>>,
}

struct Ended(&'static str, Slow);

impl Drop for Ended {
    fn drop(&mut self) {
        self.1.ends.lock().unwrap().push(self.0);
    }
}

impl Transport for Slow {
    type Request = ();
    type Response = u32;

    async fn send(
        &self,
        server: ServerId,
        (): (),
        copy: CopyContext,
    ) -> Result<Head<u32>, Failure> {
        let (ms, name) = if copy.attempt() == 0 { (30, "first") } else { (20, "second") };
        if self.binds && copy.attempt() == 0 {
            copy.stops_with_query();
        }
        let _ended = Ended(name, self.clone());
        tokio::time::sleep(Duration::from_millis(ms)).await; // tidy: real time (it is paused)
        Ok(Head::whole(server.0))
    }
}

fn busy(cell: &Cell<Slow>) -> u32 {
    cell.look(|core| (0..2).map(|server| core.server(ServerId(server)).outstanding).sum())
}

/// What became of a query.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    took_ms: u64,
    /// The copies that servers held after 20 ms, and when the query had ended.
    held: u32,
    left: u32,
}

/// Runs a query whose first copy must stop after 15 ms.
async fn run(transport: &Slow) -> Seen {
    let limits = Limits { cancel: true, hedge_budget: 1.0, ..Limits::default() };
    let cell = Cell::new(kernel("app-timeout:15ms", 2, limits), transport.clone(), Timers::tokio());
    let later = async {
        tokio::time::sleep(Duration::from_millis(20)).await; // tidy: real time (it is paused)
        busy(&cell)
    };
    let (response, held) = tokio::join!(cell.query(Query::new(())), later);
    Seen { took_ms: response.unwrap().took_ns / 1_000_000, held, left: busy(&cell) }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_stops_with_its_query_keeps_its_slot_until_then() {
    let free = Slow::default();
    assert_eq!(run(&free).await, Seen { took_ms: 35, held: 1, left: 0 });
    // It goes on, so its response comes first.
    let bound = Slow { binds: true, ..Slow::default() };
    assert_eq!(run(&bound).await, Seen { took_ms: 30, held: 2, left: 0 });
    assert_eq!(*bound.ends.lock().unwrap(), ["first", "second"]);
}
