//! The whole experiment: every method measures every subject, in turns.
//!
//! In each repetition all subjects have a turn. While a subject runs, all methods measure it in
//! direct succession, so a temporary disturbance of the machine affects all methods alike. The
//! order rotates from repetition to repetition.

use std::sync::Arc;

use anyhow::Result;
use curtail_machine::Rounds;

use crate::flow::{Flow, Slice};
use crate::function::{Running, Subject};
use crate::method::{Method, measure};
use crate::processors::Processors;
use crate::testbed::Testbed;

/// The size of the experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
    pub(crate) repetitions: usize,
}

impl Size {
    /// Returns the flow of one turn. A tenth of it, but at most half a second, is a warm-up in
    /// which sockets find their routes, caches fill, and the kernel starts to take timestamps.
    fn flow(&self, run: u16) -> Flow {
        let packets = (self.rate * self.seconds).ceil();
        let warmup = (packets / 10.0).min(self.rate / 2.0);
        let packets = packets + warmup;
        let period_ns = (1e9 / self.rate) as u64;
        Flow { period_ns, packets: packets as u32, warmup: warmup as u32, run }
    }
}

/// The measurements of a subject by a method.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) subject: Subject,
    pub(crate) method: Method,
    pub(crate) turns: Vec<Slice>,
    /// All turns together.
    pub(crate) all: Slice,
}

/// The results of the experiment.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) size: Size,
    pub(crate) places: Processors,
    pub(crate) cells: Vec<Cell>,
}

impl Results {
    /// Returns a cell that is not empty.
    pub(crate) fn cell(&self, subject: Subject, method: Method) -> Option<&Cell> {
        let is_it = |cell: &&Cell| cell.subject == subject && cell.method == method;
        self.cells.iter().find(is_it).filter(|cell| !cell.all.measured.is_empty())
    }

    /// Returns the cells of all methods that are not empty.
    pub(crate) fn of(&self, subject: Subject) -> impl Iterator<Item = &Cell> {
        Method::ALL.into_iter().filter_map(move |method| self.cell(subject, method))
    }

    /// Whether every method received most packets of every subject.
    pub(crate) fn whole(&self) -> bool {
        self.cells.iter().all(|cell| cell.all.measured.len() * 2 > cell.all.sent)
    }
}

/// Runs the whole experiment.
pub(crate) fn run(size: Size) -> Result<Results> {
    let places = Processors::find()?;
    let testbed = Arc::new(Testbed::new()?);
    let subjects = Subject::all();
    let mut number = 0_u16;
    let mut rounds = Rounds::new(subjects.len(), size.repetitions);
    while let Some(round) = rounds.begin() {
        let turns = round.turns(|at| {
            eprintln!("{} of {}: {}", round.number + 1, size.repetitions, subjects[at]);
            let running = Running::start(&testbed, places, subjects[at])?;
            let mut slices = [const { None }; Method::ALL.len()];
            for turn in 0..slices.len() {
                let method = (turn + at + round.number) % slices.len();
                number = number.wrapping_add(1);
                let flow = size.flow(number);
                slices[method] = Some(measure(&testbed, places, Method::ALL[method], flow)?);
            }
            running.end()?;
            anyhow::Ok(slices)
        });
        // Disturbed rounds count, because the taps measure the same packets as the methods.
        rounds.end(turns?, 0.0);
    }
    let mut cells = Vec::new();
    let mut rounds = rounds.finish();
    for (at, subject) in subjects.into_iter().enumerate() {
        for (by, method) in Method::ALL.into_iter().enumerate() {
            let turns: Vec<Slice> =
                rounds.iter_mut().filter_map(|round| round[at][by].take()).collect();
            cells.push(Cell { subject, method, all: Slice::sum(&turns), turns });
        }
    }
    Ok(Results { size, places, cells })
}

#[cfg(test)]
mod tests {
    use curtail_load::Histogram;

    use super::*;
    use crate::function::Function;

    const SIZE: Size = Size { rate: 2_000.0, seconds: 0.1, repetitions: 1 };

    /// Creates the testbed, or prints that the test is skipped and returns `None` if that is not
    /// permitted.
    fn testbed() -> Option<(Arc<Testbed>, Processors)> {
        let made = Testbed::new().and_then(|testbed| Ok((Arc::new(testbed), Processors::find()?)));
        match made {
            Ok(made) => Some(made),
            Err(error) => {
                // The error names the reason: no veth, no XDP, no `ip`, or only one processor.
                println!("SKIPPED: {error:#}");
                None
            }
        }
    }

    #[test]
    fn every_method_measures_every_function_and_never_less_than_the_taps() {
        let Some((testbed, places)) = testbed() else { return };
        let mut number = 0;
        let pinned = |function| Subject::all_of(function, false)[1];
        let processes = [Function::Sockets, Function::Xdp].map(pinned);
        for subject in processes.into_iter().chain([Subject::switch(false)]) {
            let running = Running::start(&testbed, places, subject).expect("it starts");
            for method in Method::ALL {
                number += 1;
                let flow = SIZE.flow(number);
                let slice = measure(&testbed, places, method, flow).expect("it measures");
                let seen = slice.measured.len();
                // A busy machine delays the generator, which then skips packets.
                assert!(seen > 0 && slice.sent <= 200, "{subject} {method}: {seen}");
                for quantile in [0.1, 0.5, 0.9] {
                    let of = |of: &Histogram<u64>| of.value_at_quantile(quantile);
                    let (by_method, by_taps) = (of(&slice.measured), of(&slice.tapped));
                    // Histograms round to three digits.
                    assert!(
                        by_method + 1_000 > by_taps,
                        "{subject} {method}: {by_method} {by_taps}"
                    );
                }
            }
            running.end().expect("it ends well");
        }
    }
}
