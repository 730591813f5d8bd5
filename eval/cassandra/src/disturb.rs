//! Disturbances of a node while clients send requests.

use std::path::Path;
use std::str::FromStr;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use curtail_jitter::machine::CpuLimit;
use rustix::process::{Pid, Signal, kill_process};

use crate::nodes;

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

/// A disturbance that lasts until this value is dropped.
pub(crate) struct Running {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(what: Disturbance, dir: &Path) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        // Waits, and returns false if the disturbance is to stop.
        let waits = move |span| stopped.recv_timeout(span) == Err(RecvTimeoutError::Timeout);
        let process = nodes::process(dir, NODE)?;
        let dir = dir.to_owned();
        let thread = match what {
            Disturbance::Nothing => None,
            Disturbance::Throttle { share, span } => {
                let limit = CpuLimit::new(process.as_raw_nonzero().get() as u32)?;
                Some(std::thread::spawn(move || {
                    while limit.set(Some(share)).is_ok()
                        && waits(span)
                        && limit.set(None).is_ok()
                        && waits(span)
                    {}
                }))
            }
            Disturbance::Pause(every) => {
                Some(std::thread::spawn(move || pause(process, every, &waits)))
            }
            Disturbance::Compact => Some(std::thread::spawn(move || {
                while waits(Duration::from_millis(100)) {
                    if nodes::compact(&dir, NODE).and_then(|mut tool| Ok(tool.wait()?)).is_err() {
                        return;
                    }
                }
            })),
        };
        Ok(Self { stop: Some(stop), thread })
    }
}

fn pause(process: Pid, every: Duration, waits: &dyn Fn(Duration) -> bool) {
    let mut go_on = true;
    while go_on && waits(every.saturating_sub(PAUSE)) {
        let _ = kill_process(process, Signal::STOP);
        go_on = waits(PAUSE);
        let _ = kill_process(process, Signal::CONT);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
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
