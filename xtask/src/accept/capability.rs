//! The lines of each capability.

mod clean;
mod decide;
mod demo;
mod faults;
mod kernel;
mod measure;
mod peers;
mod rescue;
mod soak;

use super::Check;

pub(super) const MAIN: &[Check] = &[
    Check { line: 1, run: demo::judge },
    Check { line: 2, run: faults::judge },
    Check { line: 3, run: soak::judge },
    Check { line: 4, run: kernel::judge },
    Check { line: 5, run: peers::judge },
    Check { line: 6, run: clean::judge },
];

pub(super) const DECIDE: &[Check] = &[
    Check { line: 1, run: decide::claims },
    Check { line: 2, run: decide::live },
    Check { line: 3, run: decide::conformance },
    Check { line: 4, run: decide::speed },
    Check { line: 5, run: decide::advice },
    Check { line: 6, run: decide::python },
];

pub(super) const RESCUE: &[Check] = &[
    Check { line: 1, run: rescue::table },
    Check { line: 2, run: rescue::worlds },
    Check { line: 3, run: rescue::steps },
    Check { line: 4, run: rescue::live },
    Check { line: 5, run: rescue::properties },
];

pub(super) const MEASURE: &[Check] = &[
    Check { line: 1, run: measure::truth },
    Check { line: 2, run: measure::lag },
    Check { line: 3, run: measure::peers },
    Check { line: 4, run: measure::omission },
    Check { line: 5, run: measure::jitter },
    Check { line: 6, run: measure::chain },
];
