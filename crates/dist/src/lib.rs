//! Parses distributions of times, draws samples from them, and computes their moments.
//!
//! Service times, hiccups and arrival gaps have the same syntax everywhere, for instance `exp:5ms`,
//! `lognormal:1:0.5` or `exp:1+bimodal:0.001:15`. `docs/distributions.md` lists every form. Times
//! without a unit are multiples of a unit that the experiment chooses. Within a specification,
//! either all times have units or none of them does.
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
pub use histogram_log::{
    LogInterval, LogReader, LogSeries, LogWriter, MAX_SAMPLES, plausible_counts, read_log_series,
};
pub use quantity::{Malformed, Time};
pub use samples::{Samples, read_samples};
pub use spec::{Form, Scale, Spec};
pub use text::{MAX_FILE_BYTES, TextError, read_text};
