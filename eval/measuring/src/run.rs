//! The whole experiment: every subject by every method, in turns.
//!
//! In each repetition all subjects have their turn, and while one runs all methods measure it, one right
//! after the other. So what disturbs the machine for a while disturbs all methods alike. Who comes first
//! changes from repetition to repetition.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use curtail_load::Histogram;

use crate::function::{Running, Subject};
use crate::method::{Flow, Method, measure};
use crate::place::Places;
use crate::slice::{Slice, nanoseconds};
use crate::world::World;

/// How large the experiment is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
    pub(crate) repetitions: u32,
}

impl Size {
    /// The flow of one turn. A tenth of it, and no more than half a second, is there to warm up: sockets
    /// find their routes, caches fill, and the kernel begins to stamp.
    pub(crate) fn flow(&self) -> Flow {
        let packets = (self.rate * self.seconds).ceil();
        let warmup = (packets / 10.0).min(self.rate / 2.0);
        let packets = packets + warmup;
        Flow { period_ns: (1e9 / self.rate) as u64, packets: packets as u32, warmup: warmup as u32 }
    }
}

/// A subject by a method: all turns.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) slices: Vec<Slice>,
}

impl Cell {
    /// All turns added up.
    pub(crate) fn sum(&self, of: impl Fn(&Slice) -> &Histogram<u64>) -> Histogram<u64> {
        let mut all = nanoseconds();
        for slice in &self.slices {
            all.add(of(slice)).expect("they have the same bounds");
        }
        all
    }

    pub(crate) fn total(&self, of: impl Fn(&Slice) -> u64) -> u64 {
        self.slices.iter().map(of).sum()
    }

    /// The mean over the turns.
    pub(crate) fn mean(&self, of: impl Fn(&Slice) -> f64) -> f64 {
        self.slices.iter().map(of).sum::<f64>() / self.slices.len().max(1) as f64
    }
}

/// What was measured.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) size: Size,
    pub(crate) places: Places,
    pub(crate) cells: BTreeMap<(Subject, Method), Cell>,
}

impl Results {
    pub(crate) fn cell(&self, subject: Subject, method: Method) -> Option<&Cell> {
        self.cells.get(&(subject, method)).filter(|cell| cell.total(|s| s.measured.len()) > 0)
    }

    /// Every subject was measured by every method, and most packets were seen.
    pub(crate) fn whole(&self) -> bool {
        let seen = |cell: &Cell| cell.total(|s| s.measured.len()) * 2 > cell.total(|s| s.sent);
        let all = Subject::all().len() * Method::ALL.len();
        self.cells.len() == all && self.cells.values().all(seen)
    }
}

/// Runs all of it.
pub(crate) fn run(size: Size) -> Result<Results> {
    let places = Places::find()?;
    let world = Arc::new(World::new()?);
    let flow = size.flow();
    let mut cells: BTreeMap<(Subject, Method), Cell> = BTreeMap::new();
    let mut number = 0_u16;
    for repetition in 0..size.repetitions {
        for (i, subject) in turned(&Subject::all(), repetition as usize).into_iter().enumerate() {
            eprintln!("{} of {}: {subject}", repetition + 1, size.repetitions);
            let running = Running::start(&world, places, subject)?;
            for method in turned(&Method::ALL, i + repetition as usize) {
                number = number.wrapping_add(1);
                let slice = measure(&world, places, method, (flow, number))?;
                let cell = cells.entry((subject, method));
                cell.or_insert_with(|| Cell { slices: Vec::new() }).slices.push(slice);
            }
            running.end()?;
        }
    }
    Ok(Results { size, places, cells })
}

/// The same, beginning elsewhere.
fn turned<T: Clone>(all: &[T], by: usize) -> Vec<T> {
    let mut all = all.to_vec();
    let by = by % all.len().max(1);
    all.rotate_left(by);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Function;
    use crate::place::Configuration;

    const SIZE: Size = Size { rate: 2_000.0, seconds: 0.1, repetitions: 1 };

    /// None where there may be no testbed, after saying so.
    fn testbed() -> Option<(Arc<World>, Places)> {
        let made = World::new().and_then(|world| Ok((Arc::new(world), Places::find()?)));
        match made {
            Ok(made) => Some(made),
            Err(error) => {
                // No veth, no XDP, no `ip`, or one processor: it says which.
                println!("SKIPPED: {error:#}");
                None
            }
        }
    }

    #[test]
    fn every_method_measures_every_function_and_never_less_than_the_taps() {
        let Some((world, places)) = testbed() else { return };
        let mut number = 0;
        for function in [Function::Switch, Function::Sockets, Function::Xdp] {
            let process = (function != Function::Switch).then_some(Configuration::Pinned);
            let subject = Subject { function, configuration: process, antagonist: false };
            let running = Running::start(&world, places, subject).expect("it starts");
            for method in Method::ALL {
                number += 1;
                let flow = (SIZE.flow(), number);
                let slice = measure(&world, places, method, flow).expect("it measures");
                let seen = slice.measured.len();
                // A busy machine holds the generator up, and then packets are left out.
                assert!(
                    seen > 0 && slice.sent + slice.skipped <= 200,
                    "{subject} {method}: {seen}"
                );
                for quantile in [0.1, 0.5, 0.9] {
                    let of = |of: &Histogram<u64>| of.value_at_quantile(quantile);
                    let (by_method, by_taps) = (of(&slice.measured), of(&slice.tapped));
                    // Histograms round, to three digits.
                    assert!(
                        by_method + 1_000 > by_taps,
                        "{subject} {method}: {by_method} {by_taps}"
                    );
                }
            }
            running.end().expect("it ends well");
        }
    }

    #[test]
    fn everybody_comes_first_once() {
        let firsts: Vec<u32> = (0..4).map(|by| turned(&[1, 2, 3, 4], by)[0]).collect();
        assert_eq!(firsts, [1, 2, 3, 4]);
    }
}
