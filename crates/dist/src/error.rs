//! What can be wrong with a distribution: its text, or what it refers to.

use std::path::PathBuf;

use crate::spec::FORMS;
use crate::text::{TextError, instead};
use curtail_kernel::duration::UNITS;

/// Why a text is not a distribution. The message names the value and what to write instead.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParseError {
    /// There is nothing to read, or nothing beside a `+`.
    #[error("a distribution is missing in `{0}`; write for instance exp:5ms")]
    Missing(String),
    /// The name before the first colon is unknown.
    #[error("`{0}` is not a distribution; {mend}", mend = instead(.0, &FORMS))]
    UnknownName(String),
    /// The number of values does not fit the distribution.
    #[error("`{term}` has the wrong number of values; write {form}")]
    WrongCount {
        /// The term as written.
        term: String,
        /// The form that it should have.
        form: &'static str,
    },
    /// A value is not a number.
    #[error("`{text}` is not a number for {parameter} of {form}; write a decimal number")]
    NotANumber {
        /// The value as written.
        text: String,
        /// The parameter that it stands for.
        parameter: &'static str,
        /// The form of the distribution.
        form: &'static str,
    },
    /// A time has a unit that is unknown.
    #[error("`{text}` has an unknown unit; use one of {units}", units = UNITS)]
    UnknownUnit {
        /// The value as written.
        text: String,
    },
    /// A probability, shape or coefficient of variation has a unit.
    #[error("`{text}` has a unit, but {parameter} of {form} is a plain number; drop the unit")]
    NeedlessUnit {
        /// The value as written.
        text: String,
        /// The parameter that it stands for.
        parameter: &'static str,
        /// The form of the distribution.
        form: &'static str,
    },
    /// A value is outside what its parameter allows.
    #[error("`{text}` is out of range: {parameter} of {form} must be {allowed}")]
    OutOfRange {
        /// The value as written.
        text: String,
        /// The parameter that it stands for.
        parameter: &'static str,
        /// The form of the distribution.
        form: &'static str,
        /// The values that are allowed, in words.
        allowed: &'static str,
    },
    /// Two bounds are in the wrong order.
    #[error("`{low}` and `{high}` are in the wrong order: {form} needs {rule}")]
    WrongOrder {
        /// The value that should be the lower one.
        low: String,
        /// The value that should be the higher one.
        high: String,
        /// The form of the distribution.
        form: &'static str,
        /// The rule that is broken.
        rule: &'static str,
    },
    /// Some times have a unit and some have none.
    #[error("`{with}` has a unit and `{without}` has none; give a unit to every time or to none")]
    MixedUnits {
        /// A time with a unit.
        with: String,
        /// A time without one.
        without: String,
    },
    /// The sum has more terms than [`Spec::MAX_TERMS`](crate::Spec::MAX_TERMS).
    #[error("the sum has {0} terms; at most {max} are read", max = crate::Spec::MAX_TERMS)]
    TooManyTerms(usize),
}

/// Why a distribution cannot be drawn from. The message names the value and the mend.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The experiment's unit is not a positive, finite number of nanoseconds.
    #[error("the unit of time is {0} ns; it must be a positive number")]
    BadUnit(f64),
    /// A time is longer than a sample may be, or too short to compute with.
    #[error("`{time}` is {ns:e} ns; times are 0, or from {min:e} to {max:e} ns (292 years)",
        min = crate::MIN_PARAMETER_NS, max = crate::MAX_SAMPLE_NS)]
    OutOfRange {
        /// The time as written.
        time: String,
        /// The time in nanoseconds.
        ns: f64,
    },
    /// A parameter, though in range, leaves nothing that can be computed.
    #[error("`{term}` cannot be drawn from: {source}; use less extreme values")]
    Degenerate {
        /// The term as written.
        term: String,
        /// What the sampler says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file of samples cannot be read.
    #[error("{0}")]
    Text(#[from] TextError),
    /// The file holds no sample.
    #[error("{} holds no sample; write one time per line", path.display())]
    NoSamples {
        /// The file.
        path: PathBuf,
    },
    /// The file is a log of histograms, and holds none, or only empty ones.
    #[error("{} is a log that holds no histogram with a sample; record an interval or more",
        path.display())]
    NoHistogram {
        /// The file.
        path: PathBuf,
    },
    /// A line of the file is not a sample.
    #[error("{}:{line}: `{text}` is not a sample: {why}", path.display())]
    BadSample {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The line as written, shortened.
        text: String,
        /// What is wrong with it, and the mend.
        why: String,
    },
    /// The file's samples have units and the other terms have none, or the reverse.
    #[error("the samples in {} {}; give a unit to every time or to none", path.display(),
        if *.file_has_units { "have units and the other times have none" }
        else { "have no units and the other times have some" })]
    MixedUnits {
        /// The file.
        path: PathBuf,
        /// Whether it is the file that has units.
        file_has_units: bool,
    },
}
