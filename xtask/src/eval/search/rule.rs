//! When simulated and measured agree: within 15 % in all cells. One cell may miss, if a simulation
//! with the measured overhead agrees there.

/// How far a measured percentile may be from the simulated one, as a share of that.
pub(crate) const TOLERANCE: f64 = 0.15;
/// How many cells may agree only with the overhead.
const MISSES_MOST: usize = 1;

/// A figure, and half of its 95 % confidence interval where that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) half: Option<f64>,
}

/// A percentile of a policy at a load. A figure is missing where there are too few samples for it,
/// or where the simulation is unstable.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) policy: &'static str,
    pub(crate) load: f64,
    pub(crate) percentile: f64,
    pub(crate) measured: Option<Estimate>,
    pub(crate) simulated: Option<Estimate>,
    pub(crate) with_overhead: Option<Estimate>,
}

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Measured as simulated.
    Agrees,
    /// Measured as simulated with the measured overhead, and not without it.
    WithOverhead,
    /// Neither.
    Differs,
}

impl Cell {
    /// By which share the measured figure is above the simulated one.
    pub(crate) fn difference(&self) -> Option<f64> {
        difference(self.measured, self.simulated)
    }

    /// The same, beside the simulation with overhead.
    pub(crate) fn difference_with_overhead(&self) -> Option<f64> {
        difference(self.measured, self.with_overhead)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let near = |by: Option<f64>| by.is_some_and(|by| by.abs() <= TOLERANCE);
        if near(self.difference()) {
            Verdict::Agrees
        } else if near(self.difference_with_overhead()) {
            Verdict::WithOverhead
        } else {
            Verdict::Differs
        }
    }
}

fn difference(measured: Option<Estimate>, simulated: Option<Estimate>) -> Option<f64> {
    Some(measured?.value / simulated?.value - 1.0)
}

/// Does the rule hold in so many cells?
pub(crate) fn holds(verdicts: &[Verdict], cells: usize) -> bool {
    let count = |which| verdicts.iter().filter(|verdict| **verdict == which).count();
    verdicts.len() == cells
        && count(Verdict::Differs) == 0
        && count(Verdict::WithOverhead) <= MISSES_MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(measured: f64, simulated: f64, with_overhead: f64) -> Cell {
        let some = |value: f64| value.is_finite().then_some(Estimate { value, half: None });
        Cell {
            policy: "psq",
            load: 0.2,
            percentile: 99.0,
            measured: some(measured),
            simulated: some(simulated),
            with_overhead: some(with_overhead),
        }
    }

    #[test]
    fn a_cell_agrees_within_a_share_of_what_is_simulated() {
        for (measured, verdict) in [
            (8.4, Verdict::Differs),
            (8.6, Verdict::Agrees),
            (11.4, Verdict::Agrees),
            (11.6, Verdict::WithOverhead),
            (13.7, Verdict::WithOverhead),
            (13.9, Verdict::Differs),
        ] {
            assert_eq!(cell(measured, 10.0, 12.0).verdict(), verdict, "{measured}");
        }
        let by = cell(11.0, 10.0, 12.0).difference().expect("both are known");
        assert!((by - 0.1).abs() < 1e-9);
    }

    #[test]
    fn what_is_unknown_does_not_agree() {
        let none = f64::NAN;
        assert_eq!(cell(none, 10.0, 10.0).verdict(), Verdict::Differs);
        assert_eq!(cell(10.0, none, none).verdict(), Verdict::Differs);
        assert_eq!(cell(10.0, none, 10.0).verdict(), Verdict::WithOverhead);
    }

    #[test]
    fn one_cell_may_miss_if_the_overhead_explains_it() {
        use Verdict::{Agrees, Differs, WithOverhead};
        let with = |some: &[Verdict]| {
            let mut all = [Agrees; 12];
            all[..some.len()].copy_from_slice(some);
            holds(&all, 12)
        };
        assert!(with(&[]));
        assert!(with(&[WithOverhead]));
        assert!(!with(&[Differs]));
        assert!(!with(&[WithOverhead, WithOverhead]));
        assert!(!holds(&[Agrees; 11], 12), "a cell that was not measured does not agree");
        assert!(!holds(&[], 12));
    }
}
