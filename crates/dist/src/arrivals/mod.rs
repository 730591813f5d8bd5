//! Arrival processes of client requests.
//!
//! The experiment sets the mean rate of every process. If the process is a trace, its times are
//! scaled to that rate.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use curtail_config::closest;

use crate::spec::Spec;
use crate::text::TextError;

mod clock;
mod trace;

pub use clock::Clock;

/// An arrival process without its rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// `poisson`
    Poisson,
    /// `constant`
    Constant,
    /// `mmpp:FACTOR:SHARE:LENGTH` and `on-off:SHARE:LENGTH`
    Modulated {
        /// The rate inside bursts divided by the rate outside, at least 1; `None` if nothing
        /// arrives outside.
        factor: Option<f64>,
        /// The fraction of time in bursts, from 1e-6 to below 1.
        share: f64,
        /// The mean length of a burst, in ns.
        length_ns: f64,
        /// The length as the user wrote it, for `Display`.
        written: String,
    },
    /// `trace:PATH`
    Trace {
        /// The file.
        path: PathBuf,
        /// The gaps between arrivals, with a mean of 1.
        gaps: Arc<[f64]>,
        /// The recorded mean gap, in ns, or `None` if the times have no units.
        mean_ns: Option<f64>,
    },
}

/// Minimum fraction of time in bursts. Bursts with a smaller share would hardly occur even in the
/// longest run. With a much smaller share, the time between bursts would overflow.
const SMALLEST_SHARE: f64 = 1e-6;

/// The accepted forms, for help and error messages.
pub const FORMS: &str =
    "poisson, constant, mmpp:FACTOR:SHARE:LENGTH, on-off:SHARE:LENGTH, trace:PATH";

/// Returns the fix to suggest for a text that is not a valid process.
fn instead(text: &str) -> String {
    let forms: Vec<&str> = FORMS.split(", ").collect();
    let name = |form: &str| form.split(':').next().map(str::to_owned);
    match closest(text, &forms).filter(|form| name(form) != name(text)) {
        Some(close) => format!("did you mean {close}?"),
        None => format!("use one of {FORMS}"),
    }
}

impl Arrivals {
    /// Parses a process. If the process is a trace, this also reads its file. Lengths without a
    /// unit are multiples of `unit_ns`.
    pub fn parse(text: &str, unit_ns: f64) -> Result<Self, ArrivalsError> {
        let bad = |why: String| ArrivalsError::Malformed { text: text.to_owned(), why };
        let fields: Vec<&str> = text.split(':').collect();
        match fields[..] {
            ["poisson"] => Ok(Self::Poisson),
            ["constant" | "deterministic"] => Ok(Self::Constant),
            ["mmpp", factor, share, length] => {
                let factor = number(factor, "FACTOR", |f| f >= 1.0, "1 or more").map_err(bad)?;
                Self::modulated(Some(factor), share, length, unit_ns).map_err(bad)
            }
            ["on-off", share, length] => Self::modulated(None, share, length, unit_ns).map_err(bad),
            // A path may contain colons.
            ["trace", first, ..] if !first.is_empty() => {
                let path = PathBuf::from(&text["trace:".len()..]);
                let trace::Recorded { gaps, mean_ns } = trace::read(&path)?;
                Ok(Self::Trace { gaps: gaps.into(), mean_ns, path })
            }
            _ => Err(bad(instead(text))),
        }
    }

    fn modulated(
        factor: Option<f64>,
        share: &str,
        length: &str,
        unit_ns: f64,
    ) -> Result<Self, String> {
        let inside = |s: f64| (SMALLEST_SHARE..1.0).contains(&s);
        let share = number(share, "SHARE", inside, "from 1e-6 to below 1")?;
        let spec: Spec = format!("det:{length}")
            .parse()
            .map_err(|_| format!("LENGTH is {length:?}; write a time, such as 50 or 20ms"))?;
        let length_ns = spec.resolve(unit_ns).map_err(|error| error.to_string())?.mean();
        if length_ns < 1.0 {
            return Err(format!("LENGTH is {length:?}; it must be more than zero"));
        }
        Ok(Self::Modulated { factor, share, length_ns, written: length.trim().to_owned() })
    }

    /// Whether its lengths were written with units; `None` if it has no lengths.
    pub fn has_units(&self) -> Option<bool> {
        let Self::Modulated { written, .. } = self else { return None };
        Some(written.ends_with(|c: char| c.is_alphabetic()))
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisson => f.write_str("poisson"),
            Self::Constant => f.write_str("constant"),
            Self::Modulated { factor: Some(factor), share, written, .. } => {
                write!(f, "mmpp:{factor}:{share}:{written}")
            }
            Self::Modulated { factor: None, share, written, .. } => {
                write!(f, "on-off:{share}:{written}")
            }
            Self::Trace { path, .. } => write!(f, "trace:{}", path.display()),
        }
    }
}

fn number(text: &str, name: &str, fits: impl Fn(f64) -> bool, range: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|&value: &f64| value.is_finite() && fits(value));
    value.ok_or_else(|| format!("{name} is {text:?}; it must be a number {range}"))
}

/// The reason why a text is not an arrival process. The message names the value and the fix.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, thiserror::Error)]
pub enum ArrivalsError {
    #[error("arrivals {text:?}: {why}")]
    Malformed { text: String, why: String },
    #[error("arrivals: {0}")]
    Text(TextError),
    #[error("arrivals: {}{}: {why}", .path.display(), line_suffix(*.line))]
    Trace { path: PathBuf, line: usize, why: String },
}

fn line_suffix(line: usize) -> String {
    if line == 0 { String::new() } else { format!(":{line}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Arrivals, String> {
        Arrivals::parse(text, 1e6).map_err(|error| error.to_string())
    }

    #[test]
    fn equal_gaps_have_two_names() {
        assert_eq!(parse("constant"), parse("deterministic"));
    }

    #[test]
    fn processes_read_back_as_printed() {
        for text in ["poisson", "constant", "mmpp:5:0.1:50", "on-off:0.25:20ms"] {
            assert_eq!(parse(text).expect(text).to_string(), text);
        }
    }

    #[test]
    fn bad_processes_name_the_fix() {
        for (bad, fix) in [
            ("", "use one of poisson"),
            ("Poisson", "did you mean poisson?"),
            ("trace", "use one of poisson"),
            ("trace:", "use one of poisson"),
            ("mmpp:5:0.1", "use one of poisson"),
            ("mmpp:0.5:0.1:50", "FACTOR is \"0.5\"; it must be a number"),
            ("mmpp:inf:0.1:50", "FACTOR is \"inf\"; it must be a number"),
            ("mmpp:5:0:50", "SHARE is \"0\"; it must be a number"),
            ("mmpp:5:1:50", "SHARE is \"1\"; it must be a number"),
            ("on-off:NaN:50", "SHARE is \"NaN\"; it must be a number"),
            ("on-off:1e-300:50", "SHARE is \"1e-300\"; it must be a number"),
            ("on-off:0.5:0", "LENGTH is \"0\"; it must be more than zero"),
            ("on-off:0.5:-3", "LENGTH is \"-3\"; write a time"),
            ("on-off:0.5:1e300", "1e300"),
        ] {
            let message = parse(bad).expect_err(bad);
            assert!(message.contains("arrivals"), "{bad}: {message}");
            assert!(message.contains(fix), "{bad}: {message}");
        }
    }

    #[test]
    fn trailing_spaces_do_not_hide_units() {
        let has = |text: &str| parse(text).expect(text).has_units();
        assert_eq!(has("poisson"), None);
        assert_eq!(has("on-off:0.5:20"), Some(false));
        assert_eq!(has("on-off:0.5:20ms"), Some(true));
        assert_eq!(has("on-off:0.5:20ms "), Some(true), "the space is not part of the time");
    }
}
