//! The rate over time.
//!
//! | form | rate |
//! |---|---|
//! | `500` | constant |
//! | `100..2000` | linear from the first rate to the second, over the measured time |
//! | `100:10s,200:10s,400:1min` | steps, each with its duration; together they are the measured time |
//!
//! An arrival process counts requests, not seconds: its *u*th request is sent when, according to
//! the profile, *u* requests are due. So the gaps of Poisson arrivals are exponential in profile
//! time for every profile, and the arrival test applies to all of them. The first rate applies
//! during the warm-up.

use std::fmt;
use std::str::FromStr;

use curtail_kernel::duration;
use serde::{Deserialize, Serialize};

use crate::plan::error::{PlanError, refuse};

/// The highest rate, per second. A faster schedule has gaps of less than a microsecond, which no
/// machine can maintain.
pub const RATE_MAX: f64 = 1e6;

/// Maximum number of steps in a profile.
pub const STEPS_MAX: usize = 1000;

/// The rate over time. Rates are per second, above 0 and at most [`RATE_MAX`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Profile {
    /// A constant rate.
    Steady(f64),
    /// A rate that changes linearly over the measured time.
    Ramp {
        /// The rate at the start, and during the warm-up.
        from: f64,
        /// The rate at the end.
        to: f64,
    },
    /// A sequence of constant rates.
    Steps(Vec<Step>),
}

/// A rate and its duration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Requests per second.
    pub rate: f64,
    /// The duration in nanoseconds, above 0.
    pub ns: u64,
}

impl Profile {
    /// Returns the first rate, which is also the rate of the warm-up.
    pub fn first(&self) -> f64 {
        match self {
            Profile::Steady(rate) | Profile::Ramp { from: rate, .. } => *rate,
            Profile::Steps(steps) => steps.first().map_or(0.0, |step| step.rate),
        }
    }

    /// Returns the profile's own duration in nanoseconds, which is the sum of the durations of its
    /// steps. Returns `None` for other profiles.
    pub fn own_ns(&self) -> Option<u64> {
        match self {
            Profile::Steps(steps) => {
                Some(steps.iter().fold(0, |sum, step| sum.saturating_add(step.ns)))
            }
            _ => None,
        }
    }

    /// Returns the mean rate over the first `ns` nanoseconds.
    pub fn mean(&self, ns: u64) -> f64 {
        match self {
            Profile::Steady(rate) => *rate,
            Profile::Ramp { from, to } => f64::midpoint(*from, *to),
            Profile::Steps(steps) => {
                let requests: f64 = steps.iter().map(|step| step.rate * step.ns as f64).sum();
                requests / ns.max(1) as f64
            }
        }
    }

    pub(crate) fn scaled(&self, times: f64) -> Profile {
        match self {
            Profile::Steady(rate) => Profile::Steady(rate * times),
            Profile::Ramp { from, to } => Profile::Ramp { from: from * times, to: to * times },
            Profile::Steps(steps) => Profile::Steps(
                steps.iter().map(|step| Step { rate: step.rate * times, ..*step }).collect(),
            ),
        }
    }

    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let rates = match self {
            Profile::Steady(rate) => vec![*rate],
            Profile::Ramp { from, to } => vec![*from, *to],
            Profile::Steps(steps) => steps.iter().map(|step| step.rate).collect(),
        };
        if let Profile::Steps(steps) = self
            && (steps.len() > STEPS_MAX
                || steps.is_empty()
                || steps.iter().any(|step| step.ns == 0))
        {
            let count = steps.len();
            return refuse(format!(
                "{count} steps of the rate; write 1 to {STEPS_MAX}, each with a time above zero"
            ));
        }
        match rates.into_iter().find(|rate| !(*rate > 0.0 && *rate <= RATE_MAX)) {
            // `Debug` formats very large and very small rates with an exponent.
            Some(rate) => refuse(format!(
                "rate {} must be above 0 and at most 1000000 requests per second",
                format!("{rate:?}").trim_end_matches(".0")
            )),
            None => Ok(()),
        }
    }

    /// Returns the time at which `requests` requests are due, in nanoseconds from the start of the
    /// measured time. The measured time lasts `ns`. After the end of that time, the last rate
    /// continues.
    pub(crate) fn due_ns(&self, requests: f64, ns: u64) -> f64 {
        match self {
            Profile::Steady(rate) => requests / rate * 1e9,
            Profile::Ramp { from, to } => {
                let seconds = ns as f64 / 1e9;
                let all = f64::midpoint(*from, *to) * seconds;
                if requests >= all {
                    return ns as f64 + (requests - all) / to * 1e9;
                }
                // The root of from·t + (to − from)·t²/2T = requests, in the form that avoids
                // cancellation.
                let slope = 2.0 * (to - from) * requests / seconds;
                2.0 * requests / (from + (from * from + slope).max(0.0).sqrt()) * 1e9
            }
            Profile::Steps(steps) => {
                let (mut left, mut at_ns, mut rate) = (requests, 0.0, self.first());
                for step in steps {
                    rate = step.rate;
                    let of_step = step.rate * step.ns as f64 / 1e9;
                    if left < of_step {
                        break;
                    }
                    left -= of_step;
                    at_ns += step.ns as f64;
                }
                at_ns + left / rate * 1e9
            }
        }
    }

    /// Returns the number of requests due by `at_ns` if the measured time lasts `ns`.
    pub fn requests(&self, at_ns: f64, ns: u64) -> f64 {
        match self {
            Profile::Steady(rate) => at_ns / 1e9 * rate,
            Profile::Ramp { from, to } => {
                let (t, whole) = (at_ns / 1e9, ns as f64 / 1e9);
                let inside = t.min(whole);
                let ramp = from * inside + (to - from) * inside * inside / (2.0 * whole);
                ramp + (t - inside) * to
            }
            Profile::Steps(steps) => {
                let (mut left, mut requests, mut rate) = (at_ns, 0.0, self.first());
                for step in steps {
                    rate = step.rate;
                    if left < step.ns as f64 {
                        break;
                    }
                    left -= step.ns as f64;
                    requests += rate * step.ns as f64 / 1e9;
                }
                requests + left / 1e9 * rate
            }
        }
    }
}

impl FromStr for Profile {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Profile, PlanError> {
        let bad = |why: &str| PlanError::Value(format!("rate `{text}`: {why}"));
        let rate = |text: &str| {
            let rate: f64 = text.trim().parse().map_err(|_| {
                bad("write a number such as 500, a ramp such as 100..2000, or steps such as \
                     100:10s,200:10s")
            })?;
            Ok::<f64, PlanError>(rate)
        };
        let profile = if let Some((from, to)) = text.split_once("..") {
            Profile::Ramp { from: rate(from)?, to: rate(to)? }
        } else if text.contains(':') {
            let step = |step: &str| {
                let (of, lasts) =
                    step.split_once(':').ok_or_else(|| bad("write every step as RATE:TIME"))?;
                let ns = duration::parse(lasts.trim())
                    .map_err(|why| bad(&format!("`{}`: {why}", lasts.trim())))?;
                Ok(Step { rate: rate(of)?, ns })
            };
            Profile::Steps(text.split(',').map(step).collect::<Result<_, PlanError>>()?)
        } else {
            Profile::Steady(rate(text)?)
        };
        profile.check()?;
        Ok(profile)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Profile::Steady(rate) => write!(f, "{rate}"),
            Profile::Ramp { from, to } => write!(f, "{from}..{to}"),
            Profile::Steps(steps) => {
                let texts =
                    steps.iter().map(|step| format!("{}:{}", step.rate, duration::format(step.ns)));
                f.write_str(&texts.collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn forms_read_back_as_printed() {
        for text in ["500", "0.5", "100..2000", "2000..1", "100:10s,200:500ms"] {
            assert_eq!(text.parse::<Profile>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn errors_contain_the_fix() {
        for (text, fix) in [
            ("", "write a number"),
            ("fast", "write a number"),
            ("0", "above 0"),
            ("-5", "above 0"),
            ("1e7", "1000000"),
            ("NaN", "above 0"),
            ("10..", "write a number"),
            ("0..10", "above 0"),
            ("10:5s,20", "RATE:TIME"),
            ("10:5 parsecs", "parsecs"),
            ("10:0s", "steps"),
        ] {
            let error = text.parse::<Profile>().unwrap_err().to_string();
            assert!(error.contains(fix), "{text}: {error}");
        }
    }

    #[test]
    fn due_times_and_counts_are_inverse() {
        for text in ["500", "100..900", "900..100", "300..300", "100:1s,400:3s"] {
            let profile: Profile = text.parse().unwrap();
            let mut before = -1.0;
            for requests in 0..3_000 {
                let due = profile.due_ns(f64::from(requests), 4 * SECOND);
                assert!(due > before, "{text} {requests}");
                before = due;
                let back = profile.requests(due, 4 * SECOND);
                assert!((back - f64::from(requests)).abs() < 1e-6, "{text} {requests} {back}");
            }
        }
    }

    #[test]
    fn ramps_and_steps_have_the_planned_rates() {
        let ramp: Profile = "100..900".parse().unwrap();
        assert!((ramp.requests(4e9, 4 * SECOND) - 2_000.0).abs() < 1e-9);
        assert!((ramp.requests(2e9, 4 * SECOND) - 600.0).abs() < 1e-9);
        assert!((ramp.mean(4 * SECOND) - 500.0).abs() < 1e-9);
        let steps: Profile = "100:1s,400:3s".parse().unwrap();
        assert_eq!((steps.own_ns(), steps.first()), (Some(4 * SECOND), 100.0));
        assert!((steps.requests(2e9, 4 * SECOND) - 500.0).abs() < 1e-9);
        assert!((steps.mean(4 * SECOND) - 325.0).abs() < 1e-9);
        assert!((steps.requests(5e9, 4 * SECOND) - 1_700.0).abs() < 1e-9, "last rate continues");
    }
}
