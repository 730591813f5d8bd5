//! Controls by name: `[fq+]DISCIPLINE[+rc]`, `timeouts`, or a control from the literature
//! ([`super::guard`]).
//!
//! `fq` is fair queuing between workflows, and `rc` is end-to-end rate control with the drop rule.
//! `timeouts` is the baseline of document 002 §5.3.1, in which there is a single first-come,
//! first-served queue and clients give up.

use std::fmt;
use std::str::FromStr;

use curtail_kernel::flow::Config;
use curtail_kernel::schedule::Discipline;

use super::guard::{Guard, Kind};

/// How the processes of a graph handle overload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    pub(super) is_fair: bool,
    pub(super) discipline: Discipline,
    pub(super) rates: bool,
    pub(super) guard: Option<Kind>,
}

impl Control {
    /// Whether processes have no overload control at all.
    #[must_use]
    pub fn is_bare(self) -> bool {
        !self.is_fair && !self.rates && self.discipline == Discipline::Fifo && self.guard.is_none()
    }

    /// Returns the guard for one of `processes` processes, if this control replaces flow control.
    #[must_use]
    pub fn guard(self, processes: usize, seed: u64) -> Option<Box<dyn Guard>> {
        self.guard.map(|kind| kind.build(processes, seed))
    }

    /// Returns the parameters of a process.
    #[must_use]
    pub fn config(self, flow: Config) -> Config {
        Config {
            rate_control: self.rates,
            drops_late: self.rates,
            discipline: self.discipline,
            is_fair: self.is_fair,
            ..flow
        }
    }
}

impl FromStr for Control {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut control = Self {
            is_fair: false,
            discipline: Discipline::Fifo,
            rates: false,
            guard: Kind::named(text),
        };
        if text == "timeouts" || control.guard.is_some() {
            return Ok(control);
        }
        let mut disciplines = 0;
        for part in text.split('+') {
            match (part, Discipline::named(part)) {
                ("fq", _) => control.is_fair = true,
                ("rc", _) => control.rates = true,
                (_, Some(discipline)) if disciplines == 0 => {
                    disciplines += 1;
                    control.discipline = discipline;
                }
                (_, Some(_)) => {
                    return Err(format!("control {text:?}: two disciplines; write one"));
                }
                _ => {
                    return Err(format!(
                        "control {text:?}: {part:?} is not one of fq, rc, fifo, edf, lstf, srtf, \
                         lasf, sjf and strict; write timeouts, fifo+rc, fq+fifo+rc or lstf+rc, or \
                         another control: google, gradient2, dagor or prices, like dagor:40ms"
                    ));
                }
            }
        }
        Ok(control)
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_fair, discipline, rates, guard } = *self;
        if let Some(guard) = guard {
            return guard.fmt(f);
        }
        if self.is_bare() {
            return f.write_str("timeouts");
        }
        write!(
            f,
            "{}{discipline}{}",
            if is_fair { "fq+" } else { "" },
            if rates { "+rc" } else { "" }
        )
    }
}
