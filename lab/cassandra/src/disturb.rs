//! Disturbances of a node while clients send requests.

use std::path::Path;
use std::str::FromStr;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use curtail_machine::CpuLimit;
use rustix::process::{Pid, Signal, kill_process};
use xtask::cargo::output;

use crate::nodes;
use crate::workload::KEYSPACE;

/// The disturbed node.
pub(crate) const NODE: usize = 2;

/// The kinds of disturbances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Disturbance {
    Nothing,
    /// Limits the node to a share of a core for this time, removes the limit for the same time, and
    /// repeats this.
    Throttle {
        share: f64,
        span: Duration,
    },
    /// Stops the node for 200 ms, once per period.
    Pause(Duration),
    /// Makes the node rewrite its data repeatedly.
    Compact,
}

const PAUSE: Duration = Duration::from_millis(200);

impl FromStr for Disturbance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let forms =
            || format!("{text}: use none, throttle:SHARE:SECONDS, pause:SECONDS or compact");
        let number = |text: &str| {
            text.parse::<f64>().ok().filter(|value| *value > 0.0 && *value <= 1e4).ok_or_else(forms)
        };
        let seconds = |text: &str| number(text).map(Duration::from_secs_f64);
        match text.split(':').collect::<Vec<_>>()[..] {
            ["none"] => Ok(Self::Nothing),
            ["compact"] => Ok(Self::Compact),
            ["pause", every] => seconds(every).map(Self::Pause),
            ["throttle", share, span] => {
                Ok(Self::Throttle { share: number(share)?, span: seconds(span)? })
            }
            _ => Err(forms()),
        }
    }
}

/// A disturbance. Call `finish` in any case, because a node may be paused until then.
pub(crate) struct Running {
    stop: Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Running {
    pub(crate) fn start(what: Disturbance, dir: &Path) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let (process, dir) = (nodes::process(dir, NODE)?, dir.to_owned());
        // Waits, and returns false if the disturbance is to stop.
        let waits = move |span| stopped.recv_timeout(span) == Err(RecvTimeoutError::Timeout);
        let thread = std::thread::spawn(move || disturb(what, process, &dir, &waits));
        Ok(Self { stop, thread })
    }

    /// Ends the disturbance. Fails if it did.
    pub(crate) fn finish(self) -> Result<()> {
        drop(self.stop);
        self.thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    }
}

fn disturb(
    what: Disturbance,
    process: Pid,
    dir: &Path,
    waits: &dyn Fn(Duration) -> bool,
) -> Result<()> {
    match what {
        Disturbance::Nothing => {}
        Disturbance::Throttle { share, span } => {
            let limit = CpuLimit::new(process.as_raw_nonzero().get() as u32)?;
            let mut is_limited = false;
            loop {
                is_limited = !is_limited;
                limit.set(is_limited.then_some(share))?;
                if !waits(span) {
                    break;
                }
            }
        }
        Disturbance::Pause(every) => {
            while waits(every.saturating_sub(PAUSE)) {
                kill_process(process, Signal::STOP)?;
                waits(PAUSE);
                kill_process(process, Signal::CONT)?;
            }
        }
        Disturbance::Compact => {
            while waits(Duration::from_millis(100)) {
                output(nodes::tool(dir, NODE).args(["compact", KEYSPACE]))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbances_are_parsed_and_errors_list_the_forms() {
        let throttle = Disturbance::Throttle { share: 0.1, span: Duration::from_secs(5) };
        assert_eq!("throttle:0.1:5".parse(), Ok(throttle));
        assert_eq!("pause:2".parse(), Ok(Disturbance::Pause(Duration::from_secs(2))));
        for bad in ["pause:-1", "throttle:x:5", "pause", ""] {
            let error = bad.parse::<Disturbance>().unwrap_err();
            assert!(error.contains("use none, throttle:SHARE:SECONDS"), "{error}");
        }
    }
}
