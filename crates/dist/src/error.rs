//! Errors in the text of a distribution or in the files that it refers to.

use std::path::PathBuf;

use curtail_config::instead;
use curtail_kernel::duration::UNITS;

use crate::spec::FORMS;
use crate::text::TextError;

/// The reason why a text is not a distribution. The message names the value and the fix.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParseError {
    #[error("a distribution is missing in `{0}`; write, for example, exp:5ms")]
    Missing(String),
    #[error("`{0}` is not a distribution; {fix}", fix = instead(.0, &FORMS.map(|(_, form, _)| form)))]
    UnknownName(String),
    #[error("`{term}` has the wrong number of values; write {form}")]
    WrongCount { term: String, form: &'static str },
    #[error("`{text}` is not a number for {parameter} of {form}; write a decimal number")]
    NotANumber { text: String, parameter: &'static str, form: &'static str },
    #[error("`{text}` has an unknown unit; use one of {units}", units = UNITS)]
    UnknownUnit { text: String },
    #[error("`{text}` has a unit, but {parameter} of {form} is a plain number; drop the unit")]
    NeedlessUnit { text: String, parameter: &'static str, form: &'static str },
    #[error("`{text}` is out of range: {parameter} of {form} must be {allowed}")]
    OutOfRange { text: String, parameter: &'static str, form: &'static str, allowed: &'static str },
    #[error("`{low}` and `{high}` are in the wrong order: {form} needs {rule}")]
    WrongOrder { low: String, high: String, form: &'static str, rule: &'static str },
    #[error("`{with}` has a unit and `{without}` has none; give a unit to every time or to none")]
    MixedUnits { with: String, without: String },
    #[error("the sum has {0} terms; at most {max} are allowed", max = crate::Spec::MAX_TERMS)]
    TooManyTerms(usize),
}

/// The reason why a distribution cannot be drawn from. The message names the value and the fix.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("the unit of time is {0} ns; it must be a positive number")]
    BadUnit(f64),
    #[error("`{time}` is {ns:e} ns; times must be 0, or from {min:e} to {max:e} ns (292 years)",
        min = crate::MIN_PARAMETER_NS, max = crate::MAX_SAMPLE_NS)]
    OutOfRange { time: String, ns: f64 },
    #[error("`{term}` cannot be drawn from: {source}; use less extreme values")]
    Degenerate { term: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{0}")]
    Text(#[from] TextError),
    #[error("{} contains no sample; write one time per line", path.display())]
    NoSamples { path: PathBuf },
    #[error("{} is a log that contains no histogram with a sample; record at least one interval",
        path.display())]
    NoHistogram { path: PathBuf },
    #[error("{} has several series ({}) and none without a tag; keep the lines of one, for \
             example with grep '^Tag={},'", path.display(), tags.join(", "),
        tags.first().map_or("", |tag| tag))]
    SeveralSeries { path: PathBuf, tags: Vec<String> },
    #[error("{} is a folder; name the file with the times{}", path.display(),
        if files.is_empty() { String::new() } else { format!(": {}", files.join(", ")) })]
    Folder { path: PathBuf, files: Vec<String> },
    #[error("{}:{line}: `{text}` is not a sample: {why}", path.display())]
    BadSample { path: PathBuf, line: usize, text: String, why: String },
    #[error("the samples in {} {}; give a unit to every time or to none", path.display(),
        if *.file_has_units { "have units and the other times have none" }
        else { "have no units and the other times have some" })]
    MixedUnits { path: PathBuf, file_has_units: bool },
}
