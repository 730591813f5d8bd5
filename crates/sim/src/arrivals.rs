//! When client requests arrive.
//!
//! | form | process |
//! |---|---|
//! | `poisson` | independent exponential gaps |
//! | `deterministic` | equal gaps |
//! | `mmpp:FACTOR:SHARE:LENGTH` | a Markov-modulated Poisson process: bursts that cover SHARE of the time and last LENGTH on average have FACTOR times the rate of the rest |
//! | `on-off:SHARE:LENGTH` | Poisson arrivals while on, none while off; on for SHARE of the time, for LENGTH on average |
//! | `trace:PATH` | recorded arrival times, one per line, over and over |
//!
//! The mean rate is the experiment's, whatever the process: a trace is stretched to it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use curtail_dist::{Spec, seed};
use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

use crate::error::Error;

/// An arrival process, but for its rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// `poisson`
    Poisson,
    /// `deterministic`
    Deterministic,
    /// `mmpp:FACTOR:SHARE:LENGTH` and `on-off:SHARE:LENGTH`
    Modulated {
        /// The rate inside of bursts over the rate outside, at least 1; none where nothing arrives
        /// outside.
        factor: Option<f64>,
        /// The share of the time that bursts cover, above 0 and below 1.
        share: f64,
        /// The mean length of a burst, in ns.
        length_ns: f64,
        /// The text of the length, to print.
        written: String,
    },
    /// `trace:PATH`
    Trace {
        /// The file.
        path: PathBuf,
        /// The gaps between arrivals; their mean is 1.
        gaps: Arc<[f64]>,
    },
}

/// The forms, for help and error texts.
pub const FORMS: &str =
    "poisson, deterministic, mmpp:FACTOR:SHARE:LENGTH, on-off:SHARE:LENGTH, trace:PATH";

impl Arrivals {
    /// Parses a process; a trace is read. Lengths without a unit are multiples of `unit_ns`.
    ///
    /// # Errors
    /// Names the value that is wrong and what to write instead; for a trace file and line.
    pub fn parse(text: &str, unit_ns: f64) -> Result<Self, Error> {
        let bad = |why: String| Error::Arrivals { text: text.to_owned(), why };
        let fields: Vec<&str> = text.split(':').collect();
        match fields[..] {
            ["poisson"] => Ok(Self::Poisson),
            ["deterministic"] => Ok(Self::Deterministic),
            ["mmpp", factor, share, length] => {
                let factor = number(factor, "FACTOR", |f| f >= 1.0, "1 or more").map_err(bad)?;
                Self::modulated(Some(factor), share, length, unit_ns).map_err(bad)
            }
            ["on-off", share, length] => Self::modulated(None, share, length, unit_ns).map_err(bad),
            ["trace", ..] => {
                let path = Path::new(&text["trace:".len()..]);
                Ok(Self::Trace { path: path.to_owned(), gaps: read(path)?.into() })
            }
            _ => Err(bad(format!("use one of {FORMS}"))),
        }
    }

    fn modulated(
        factor: Option<f64>,
        share: &str,
        length: &str,
        unit_ns: f64,
    ) -> Result<Self, String> {
        let inside = |s: f64| s > 0.0 && s < 1.0;
        let share = number(share, "SHARE", inside, "above 0 and below 1")?;
        let spec: Spec = format!("det:{length}")
            .parse()
            .map_err(|_| format!("LENGTH is {length:?}; write a time, as 50 or 20ms"))?;
        let length_ns = spec.resolve(unit_ns).map_err(|error| error.to_string())?.mean();
        if length_ns < 1.0 {
            return Err(format!("LENGTH is {length:?}; give it more than zero"));
        }
        Ok(Self::Modulated { factor, share, length_ns, written: length.to_owned() })
    }

    /// Whether its lengths were written with units; none where it has none.
    #[must_use]
    pub fn has_units(&self) -> Option<bool> {
        let Self::Modulated { written, .. } = self else { return None };
        Some(written.ends_with(|c: char| c.is_alphabetic()))
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisson => f.write_str("poisson"),
            Self::Deterministic => f.write_str("deterministic"),
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
    value.ok_or_else(|| format!("{name} is {text:?}; give it a number {range}"))
}

/// The gaps of a trace, with a mean of 1. The gap before the first arrival, when the trace begins
/// anew, is the mean of the others.
fn read(path: &Path) -> Result<Vec<f64>, Error> {
    let bad = |line: usize, why: String| Error::Trace { path: path.to_owned(), line, why };
    let text = std::fs::read_to_string(path).map_err(|error| bad(0, error.to_string()))?;
    let mut times: Vec<f64> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let time: f64 =
            line.parse().ok().filter(|time: &f64| time.is_finite()).ok_or_else(|| {
                bad(at + 1, format!("{line:?} is no time; write one decimal number per line"))
            })?;
        if let Some(before) = times.last().filter(|before| **before > time) {
            return Err(bad(at + 1, format!("{time} comes after {before}; sort the arrivals")));
        }
        times.push(time);
    }
    let span = times.last().zip(times.first()).map_or(0.0, |(last, first)| last - first);
    if times.len() < 2 || span <= 0.0 {
        return Err(bad(0, "it needs two arrivals or more, at different times".to_owned()));
    }
    let mean = span / (times.len() - 1) as f64;
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]) / mean);
    Ok(std::iter::once(1.0).chain(gaps).collect())
}

/// Arrival times of a process at a rate.
#[derive(Debug)]
pub(crate) struct Clock {
    process: Arrivals,
    rng: Pcg64Mcg,
    /// The mean gap, in ns.
    gap_ns: f64,
    now_ns: f64,
    /// Of a modulated process: are we in a burst, and when does this end? Of a trace: the next gap.
    burst: bool,
    until_ns: f64,
    at: usize,
}

impl Clock {
    /// With `gap_ns` between arrivals on average.
    pub(crate) fn new(process: &Arrivals, gap_ns: f64, seed: u64) -> Self {
        let mut rng = seed::rng(seed);
        // A modulated process is stationary from its start.
        let burst = matches!(process, Arrivals::Modulated { share, .. } if unit(&mut rng) < *share);
        let mut clock = Self {
            process: process.clone(),
            rng,
            gap_ns,
            now_ns: 0.0,
            burst,
            until_ns: 0.0,
            at: 0,
        };
        clock.until_ns = clock.stay();
        clock
    }

    /// Fills `times` with the next arrivals, in ns.
    pub(crate) fn fill(&mut self, times: &mut [u64]) {
        for time in times {
            self.now_ns += match self.process {
                Arrivals::Poisson => self.gap_ns * exponential(&mut self.rng),
                Arrivals::Deterministic => self.gap_ns,
                Arrivals::Modulated { factor, share, .. } => self.modulated(factor, share),
                Arrivals::Trace { ref gaps, .. } => {
                    let gap = self.gap_ns * gaps[self.at];
                    self.at = (self.at + 1) % gaps.len();
                    gap
                }
            };
            *time = self.now_ns as u64;
        }
    }

    /// The gap to the next arrival of a modulated process.
    fn modulated(&mut self, factor: Option<f64>, share: f64) -> f64 {
        // Rates inside and outside of bursts, whose mean over time is 1.
        let (inside, outside) = match factor {
            Some(factor) => {
                let outside = 1.0 / (share * factor + 1.0 - share);
                (factor * outside, outside)
            }
            None => (1.0 / share, 0.0),
        };
        let mut work = exponential(&mut self.rng);
        let mut at = self.now_ns;
        loop {
            let rate = if self.burst { inside } else { outside } / self.gap_ns;
            let room = (self.until_ns - at) * rate;
            if work < room {
                return at + work / rate - self.now_ns;
            }
            work -= room;
            at = self.until_ns;
            self.burst = !self.burst;
            self.until_ns = at + self.stay();
        }
    }

    /// How long the current state lasts.
    fn stay(&mut self) -> f64 {
        let Arrivals::Modulated { share, length_ns, .. } = self.process else { return 0.0 };
        let mean = if self.burst { length_ns } else { length_ns * (1.0 - share) / share };
        mean * exponential(&mut self.rng)
    }
}

fn unit(rng: &mut Pcg64Mcg) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// An exponential number with mean 1.
fn exponential(rng: &mut Pcg64Mcg) -> f64 {
    rand_distr::Distribution::<f64>::sample(&rand_distr::Exp1, rng)
}
