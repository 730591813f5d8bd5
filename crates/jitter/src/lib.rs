//! IQ-jitter: what repeated executions of the same queries tell about a leaf, and hiccups in it.
//!
//! Each query Q is executed several times, in random order. P(Q), its least service time, is what
//! the query itself takes; J, what an execution takes beyond it, is the IQ-jitter. A *hiccup* is an
//! execution from the slow component of a bimodal distribution of J.
//!
//! Source: document 000, section 6.1, which reads probability and duration of hiccups off a plot.
//! Here they are estimated, with intervals, and only where a test finds them.
//!
//! Nothing here reads a clock, draws without a seed or starts anything: the same executions give
//! the same figures on every machine.
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
//! // A loop that did nothing else for a minute was never interrupted for as long.
//! let floor = Floor::new(60_000_000_000, &[(150_000, 12)]).expect("some time");
//! assert_eq!(all.attribute(&summary, &floor).blame, Blame::Leaf);
//! ```
//!
//! # How hiccups are found
//!
//! 1. The histogram of ln(J + offset) is fitted by a mixture of normal distributions, as many as
//!    the Bayesian information criterion asks for (`mixture`).
//! 2. Where the mixture has a valley, a test that assumes no shape decides whether the data have it
//!    (`modality`). A heavy tail has none.
//! 3. What is beyond the last valley are the hiccups; what is between two valleys is intermediate,
//!    as short pauses of the machine are (`modes`). Kinds that overlap are parted by their
//!    components where those are far apart (`kinds`).
//! 4. Probability and duration come with intervals that allow for chance, for hiccups that come in
//!    clusters, and for executions that may belong to either side (`hiccups`).
//! 5. Against a floor, what a loop that does nothing saw on the same machine, a test says whose
//!    doing they are, and what is left for the leaf (`floor`).
//!
//! # What it cannot tell
//!
//! - Pauses of the machine from hiccups that are about as long (pauses of 1 to 4 ms, hiccups of 5
//!   ms ± 30 %): there is one mode, and the hiccups of a [`Summary`] are both.
//!   [`Attribution::leaf`] is without the pauses.
//! - Exponential hiccups from a heavy tail, unless there are many or they are long: the shortest
//!   fill the valley. The probability then is 0, with an upper bound that allows for them.
//! - Hiccups of which there are fewer than four, or a dozen of varying length, from chance.

mod bias;
mod executions;
mod figures;
mod floor;
mod hiccups;
mod histogram;
mod interval;
mod kinds;
pub mod machine;
mod mixture;
mod modality;
mod modes;
mod summary;

#[cfg(test)]
mod tests;

pub use bias::{Bias, Repetitions, Stop};
pub use executions::{EXECUTIONS_MAX, Executions, View};
pub use figures::{Ccdf, Curve, Ranked};
pub use floor::{Attribution, Blame, Floor, FloorHits, LeafHiccups};
pub use hiccups::{Hiccups, Intermediate};
pub use interval::{Estimate, student_quantile};
pub use summary::{Modality, Summary};
