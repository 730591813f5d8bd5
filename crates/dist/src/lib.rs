//! Distributions of time: parse them, draw from them, know their moments.
//!
//! Service times, hiccups and arrival gaps are written the same way everywhere, for instance
//! `exp:5ms`, `lognormal:1:0.5` or `exp:1+bimodal:0.001:15`:
//!
//! | form | distribution | mean, coefficient of variation |
//! |---|---|---|
//! | `exp:MEAN` | exponential | MEAN, 1 |
//! | `det:V` | the constant V | V, 0 |
//! | `lognormal:MEAN:CV` | log-normal | MEAN, CV |
//! | `gamma:MEAN:CV` | gamma of shape 1/CV² | MEAN, CV |
//! | `erlang:K:MEAN` | sum of K exponentials | MEAN, 1/√K |
//! | `h2:MEAN:CV` | two exponentials with balanced means, CV ≥ 1 | MEAN, CV |
//! | `pareto:ALPHA:MIN[:MAX]` | Pareto; truncated at MAX if given | infinite mean for ALPHA ≤ 1 without MAX |
//! | `weibull:SHAPE:SCALE` | Weibull | SCALE·Γ(1 + 1/SHAPE) |
//! | `bimodal:PROB:VALUE` | VALUE with probability PROB, else 0 | PROB·VALUE |
//! | `hiccup:PROB:MEAN` | exponential with probability PROB, else 0 | PROB·MEAN |
//! | `uniform:A:B` | uniform on [A, B) | (A + B)/2 |
//! | `file:PATH` | one of the samples in a file, or in an interval log of HdrHistogram, each equally likely | those of the samples |
//! | `X+Y` | the sum of independent draws | |
//!
//! # Units
//!
//! Values of time carry a unit (`ns`, `us`, `µs`, `ms`, `s`, `min`, `h`) or none. Without one they are
//! multiples of a unit that the experiment chooses. One specification does not mix the two.
//!
//! # Use
//!
//! Parse a [`Spec`], [`resolve`](Spec::resolve) it once, then draw nanoseconds:
//!
//! ```
//! use curtail_dist::{Spec, seed};
//!
//! let spec: Spec = "exp:5ms+bimodal:0.003:75ms".parse()?;
//! let service = spec.resolve(1e6)?;
//! assert!((service.mean() - 5.225e6).abs() < 1.0);
//!
//! // The same query draws the same time, whatever was drawn before it.
//! let draw = || service.sample(&mut seed::rng(seed::stream(42, &[b"service", b"/search?q=tail"])));
//! assert_eq!(draw(), draw());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod arrivals;
mod distribution;
mod error;
mod histogram_log;
mod parse;
mod quantity;
mod resolve;
mod sampler;
mod samples;
pub mod seed;
mod spec;
mod text;

pub use distribution::{Distribution, MAX_SAMPLE_NS, MIN_PARAMETER_NS};
pub use error::{ParseError, ResolveError};
pub use histogram_log::{LogInterval, LogReader, LogWriter, MAX_SAMPLES, plausible_counts};
pub use quantity::{Malformed, Time};
pub use samples::{Samples, read_samples};
pub use spec::{Form, Scale, Spec};
pub use text::{MAX_FILE_BYTES, TextError, closest, excerpt, instead, read_text};
