//! The whole experiment: every method measures every subject, in turns.
//!
//! In each repetition all subjects have a turn. While a subject runs, all methods measure it in
//! direct succession, so a temporary disturbance of the machine affects all methods alike. The
//! order rotates from repetition to repetition.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use curtail_load::Histogram;

use crate::function::{Running, Subject};
use crate::method::{Flow, Method, measure};
use crate::processors::Processors;
use crate::slice::{Slice, nanoseconds};
use crate::testbed::Testbed;

/// The size of the experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
    pub(crate) repetitions: u32,
}

impl Size {
    /// Returns the flow of one turn. A tenth of it, but at most half a second, is a warm-up in
    /// which sockets find their routes, caches fill, and the kernel starts to take timestamps.
    pub(crate) fn flow(&self) -> Flow {
        let packets = (self.rate * self.seconds).ceil();
        let warmup = (packets / 10.0).min(self.rate / 2.0);
        let packets = packets + warmup;
        Flow { period_ns: (1e9 / self.rate) as u64, packets: packets as u32, warmup: warmup as u32 }
    }
}

/// All turns of a subject and a method.
#[derive(Debug)]
pub(crate) struct MethodSlices {
    pub(crate) slices: Vec<Slice>,
}

impl MethodSlices {
    /// Merges the histograms of all turns.
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

    /// Returns the mean over the turns.
    pub(crate) fn mean(&self, of: impl Fn(&Slice) -> f64) -> f64 {
        self.slices.iter().map(of).sum::<f64>() / self.slices.len().max(1) as f64
    }
}

/// The results of the experiment.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) size: Size,
    pub(crate) places: Processors,
    pub(crate) cells: BTreeMap<(Subject, Method), MethodSlices>,
}

impl Results {
    pub(crate) fn cell(&self, subject: Subject, method: Method) -> Option<&MethodSlices> {
        self.cells.get(&(subject, method)).filter(|cell| cell.total(|s| s.measured.len()) > 0)
    }

    /// Whether every method measured every subject and received most packets.
    pub(crate) fn whole(&self) -> bool {
        let seen =
            |cell: &MethodSlices| cell.total(|s| s.measured.len()) * 2 > cell.total(|s| s.sent);
        let all = Subject::all().len() * Method::ALL.len();
        self.cells.len() == all && self.cells.values().all(seen)
    }
}

/// Runs the whole experiment.
pub(crate) fn run(size: Size) -> Result<Results> {
    let places = Processors::find()?;
    let testbed = Arc::new(Testbed::new()?);
    let flow = size.flow();
    let mut cells: BTreeMap<(Subject, Method), MethodSlices> = BTreeMap::new();
    let mut number = 0_u16;
    for repetition in 0..size.repetitions {
        for (i, subject) in rotated(&Subject::all(), repetition as usize).into_iter().enumerate() {
            eprintln!("{} of {}: {subject}", repetition + 1, size.repetitions);
            let running = Running::start(&testbed, places, subject)?;
            for method in rotated(&Method::ALL, i + repetition as usize) {
                number = number.wrapping_add(1);
                let slice = measure(&testbed, places, method, (flow, number))?;
                let cell = cells.entry((subject, method));
                cell.or_insert_with(|| MethodSlices { slices: Vec::new() }).slices.push(slice);
            }
            running.end()?;
        }
    }
    Ok(Results { size, places, cells })
}

/// Rotates a list, so that it starts with another element.
fn rotated<T: Clone>(all: &[T], by: usize) -> Vec<T> {
    let mut all = all.to_vec();
    let by = by % all.len().max(1);
    all.rotate_left(by);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Function;
    use crate::processors::Configuration;

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
        for function in [Function::Switch, Function::Sockets, Function::Xdp] {
            let process = (function != Function::Switch).then_some(Configuration::Pinned);
            let subject = Subject { function, configuration: process, antagonist: false };
            let running = Running::start(&testbed, places, subject).expect("it starts");
            for method in Method::ALL {
                number += 1;
                let flow = (SIZE.flow(), number);
                let slice = measure(&testbed, places, method, flow).expect("it measures");
                let seen = slice.measured.len();
                // A busy machine delays the generator, which then skips packets.
                assert!(
                    seen > 0 && slice.sent + slice.skipped <= 200,
                    "{subject} {method}: {seen}"
                );
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

    #[test]
    fn every_element_comes_first_once() {
        let firsts: Vec<u32> = (0..4).map(|by| rotated(&[1, 2, 3, 4], by)[0]).collect();
        assert_eq!(firsts, [1, 2, 3, 4]);
    }
}
