//! IQ-jitter: finds hiccups in a leaf from repeated executions of the same queries.
//!
//! Each query Q is executed several times, in random order. P(Q), its minimum service time, belongs
//! to the query itself. J, the rest of an execution's time, is the IQ-jitter. A *hiccup* is an
//! execution from the slow component of a bimodal distribution of J.
//!
//! Source: document 000, section 6.1, which reads the probability and duration of hiccups off a
//! plot. This crate estimates both, with confidence intervals, but only if a test finds hiccups.
//!
//! The statistics read no clock, and their random numbers depend only on a seed. The same
//! executions therefore produce the same figures on every machine.
//!
//! # Use
//!
//! ```
//! use curtail_jitter::{Blame, Executions, Floor};
//!
//! // The classes of four queries; then their executions, in the order in which they ran.
//! let mut executions = Executions::new(["term", "term", "phrase", "phrase"]);
//! for round in 0..200_u64 {
//!     for query in 0..4 {
//!         let noise = 20_000 + (round * 7_919 + query * 104_729) % 60_000;
//!         let hiccup = if round % 20 == query { 30_000_000 } else { 0 };
//!         executions.push(query as usize, 1_000_000 + noise + hiccup);
//!     }
//! }
//! let all = executions.all();
//! let summary = all.summarize();
//! assert!(summary.modality.bimodal);
//! assert!(summary.hiccups.probability.contains(0.05));
//!
//! // An idle loop ran for a minute, and its interruptions were all shorter.
//! let floor = Floor::new(60_000_000_000, &[(150_000, 12)]).expect("some time");
//! assert_eq!(all.attribute(&summary, &floor).blame, Blame::Leaf);
//! ```
//!
//! # How hiccups are found
//!
//! 1. A mixture of normal distributions is fitted to the histogram of ln(J + offset). The Bayesian
//!    information criterion selects the number of components (`mixture`).
//! 2. If the mixture has a valley, a distribution-free test decides whether the data have one too
//!    (`modality`). A heavy tail alone produces no valley.
//! 3. Executions beyond the last valley are hiccups. Those between two valleys are intermediate,
//!    such as short pauses of the machine (`modes`). Overlapping kinds of slow executions are
//!    separated if their components are far apart (`kinds`).
//! 4. The intervals of probability and duration allow for chance, for clusters of hiccups, and for
//!    executions that cannot be classified with certainty (`hiccups`).
//! 5. A test compares the hiccups with a floor: the gaps that a loop observed on the same machine
//!    while the leaf was idle. The test attributes the hiccups to the leaf or the machine, and
//!    estimates the leaf's own hiccups (`floor`).
//!
//! # What it cannot distinguish
//!
//! - It cannot tell machine pauses from hiccups of similar length (pauses of 1 to 4 ms, hiccups of
//!   5 ms ± 30 %). Both form a single mode, so the hiccups of a [`Summary`] include the pauses.
//!   [`Attribution::leaf`] excludes the pauses.
//! - It cannot tell exponential hiccups from a heavy tail unless the hiccups are numerous or long,
//!   because the shortest ones fill the valley. The probability is then 0, with an upper bound that
//!   allows for undetected hiccups.
//! - It cannot distinguish fewer than four hiccups, or a dozen hiccups of varying length, from
//!   chance.

mod bias;
mod executions;
mod figures;
mod floor;
mod hiccups;
mod histogram;
mod kinds;
mod mixture;
mod modality;
mod modes;
mod summary;

#[cfg(test)]
mod tests;

pub use bias::{Bias, Repetitions, Stop};
pub use curtail_stats::{Estimate, student_quantile};
pub use executions::{EXECUTIONS_MAX, Executions, View};
pub use figures::{Ccdf, Curve, Ranked};
pub use floor::{Attribution, Blame, Floor, FloorHits, LeafHiccups};
pub use hiccups::{Hiccups, Intermediate};
pub use summary::{Modality, Summary};
