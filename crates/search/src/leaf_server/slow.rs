//! A leaf that alternates between its own speed and a fraction of it.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use curtail_kernel::duration;
use tokio::time::Instant;

/// Maximum factor by which a leaf can be slowed down.
const FACTOR_MAX: f64 = 1000.0;

/// Alternating speeds. `3:10s` means 10 s at the leaf's own speed, then 10 s at a third of it, and
/// so on. The first period begins when the first query begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowdown {
    /// The factor by which the leaf is slowed down, 1 to 1000.
    pub factor: f64,
    /// The duration of each period, in nanoseconds, at least 1.
    pub period_ns: u64,
}

/// The reason why a text is not a valid slowdown.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlowdownError {
    #[error("slowdown {0:?}: write FACTOR:PERIOD, for instance 3:10s")]
    Form(String),
    #[error("slowdown factor {0:?}: write a number from 1 to {FACTOR_MAX}")]
    Factor(String),
    #[error("slowdown period {0:?}: write a time above 0, for instance 10s")]
    Zero(String),
    #[error("slowdown period: {0}")]
    Period(#[from] duration::ParseError),
}

impl FromStr for Slowdown {
    type Err = SlowdownError;

    fn from_str(text: &str) -> Result<Self, SlowdownError> {
        let (factor, period) =
            text.split_once(':').ok_or_else(|| SlowdownError::Form(text.to_owned()))?;
        let parsed = factor.parse().ok().filter(|factor| (1.0..=FACTOR_MAX).contains(factor));
        let factor = parsed.ok_or_else(|| SlowdownError::Factor(factor.to_owned()))?;
        match duration::parse(period)? {
            0 => Err(SlowdownError::Zero(period.to_owned())),
            period_ns => Ok(Self { factor, period_ns }),
        }
    }
}

impl fmt::Display for Slowdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.factor, duration::format(self.period_ns))
    }
}

/// The speed of a leaf over time.
#[derive(Debug, Default)]
pub(super) struct Speed {
    slowdown: Option<Slowdown>,
    /// The start of the first query. Periods are counted from it, so that measurements do not
    /// depend on how long the leaf has been up.
    first: OnceLock<Instant>,
}

impl Speed {
    pub(super) fn new(slowdown: Option<Slowdown>) -> Self {
        Self { slowdown, first: OnceLock::new() }
    }

    /// Returns how long a query takes if it begins now. At the leaf's own speed, it would take
    /// `time`.
    pub(super) fn stretch(&self, time: Duration, now: Instant) -> Duration {
        let Some(Slowdown { factor, period_ns }) = self.slowdown else { return time };
        let first = *self.first.get_or_init(|| now);
        let turns = now.saturating_duration_since(first).as_nanos() / u128::from(period_ns);
        match turns % 2 {
            0 => time,
            _ => Duration::try_from_secs_f64(time.as_secs_f64() * factor).unwrap_or(Duration::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn slowdowns_are_parsed() {
        let slowdown = Slowdown { factor: 3.0, period_ns: 10_000_000_000 };
        assert_eq!("3:10s".parse(), Ok(slowdown));
        assert_eq!(slowdown.to_string(), "3:10s");
        for (bad, part) in [
            ("3", "\"3\": write FACTOR:PERIOD, for instance 3:10s"),
            ("0.5:10s", "factor \"0.5\": write a number from 1 to 1000"),
            ("inf:10s", "factor \"inf\": write"),
            ("NaN:10s", "factor \"NaN\": write"),
            ("x:10s", "factor \"x\": write"),
            ("3:0s", "period \"0s\": write a time above 0"),
            ("3:10", "period: "),
            ("3:", "period: "),
        ] {
            let error = bad.parse::<Slowdown>().expect_err(bad).to_string();
            assert!(error.starts_with("slowdown ") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn speeds_alternate_from_the_first_query_on() {
        let speed = Speed::new(Some("3:10s".parse().expect("a slowdown")));
        let first = Instant::now() + Duration::from_secs(7);
        let at = |ms| speed.stretch(20 * MS, first + Duration::from_millis(ms)).as_millis() / 20;
        let took = [0, 5_000, 9_999, 10_000, 19_999, 20_000, 29_999, 30_000].map(at);
        assert_eq!(took, [1, 1, 1, 3, 3, 1, 1, 3]);
        let slow = first + Duration::from_secs(10);
        assert_eq!(speed.stretch(Duration::MAX, slow), Duration::MAX, "no overflow");
        assert_eq!(Speed::new(None).stretch(MS, first), MS);
    }
}
