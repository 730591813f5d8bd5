//! Real hiccups from outside: a signal stops a leaf, as a long garbage collection or a busy
//! hypervisor would, and another signal resumes it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use curtail_dist::seed;
use curtail_kernel::duration;
use rand_core::Rng as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How often each leaf is stopped, and for how long. `0.2:75ms` stops it for 75 ms every five
/// seconds on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pauses {
    per_second: f64,
    length_ns: u64,
}

impl FromStr for Pauses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FIX: &str = "write RATE:SPAN, such as 0.2:75ms, with 0.001 to 100 pauses per second \
                           of 1ms to 10s";
        let bad = || format!("`{text}`: {FIX}");
        let (often, length) = text.split_once(':').ok_or_else(bad)?;
        let often = often.parse().ok().filter(|often| (0.001..=100.0).contains(often));
        let length_ns = duration::parse(length).map_err(|error| format!("{error}; {FIX}"))?;
        let is_fine = (1_000_000..=10_000_000_000).contains(&length_ns);
        let per_second = often.filter(|_| is_fine).ok_or_else(bad)?;
        Ok(Self { per_second, length_ns })
    }
}

impl fmt::Display for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.per_second, duration::format(self.length_ns))
    }
}

/// Stops these processes at random times. Dropping the set resumes them.
///
/// The times depend on `number`, so each load has its own times, which are the same for all
/// policies.
pub(super) fn start(pauses: Pauses, leaves: &[u32], number: usize, seed: u64) -> JoinSet<()> {
    let mut set = JoinSet::new();
    for (leaf, &process) in leaves.iter().enumerate() {
        let labels = [b"pause".as_slice(), &number.to_le_bytes(), &leaf.to_le_bytes()];
        let mut rng = seed::rng(seed::stream(seed, &labels));
        set.spawn(async move {
            loop {
                // Uniform on (0, 1], so that the logarithm is finite.
                let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                sleep(Duration::from_secs_f64(-uniform.ln() / pauses.per_second)).await;
                let Some(_stopped) = Stopped::stop(process) else { return };
                sleep(Duration::from_nanos(pauses.length_ns)).await;
            }
        });
    }
    set
}

/// A process that is stopped until this value is dropped.
struct Stopped(Pid);

impl Stopped {
    fn stop(process: u32) -> Option<Self> {
        let process = Pid::from_raw(i32::try_from(process).ok()?)?;
        kill_process(process, Signal::STOP).ok()?;
        Some(Self(process))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Fails only if the process has ended.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_read_back_as_printed() {
        for text in ["0.2:75ms", "1:1.5s"] {
            assert_eq!(text.parse::<Pauses>().map(|pauses| pauses.to_string()), Ok(text.into()));
        }
        for bad in
            ["", "75ms", "0:75ms", "-1:75ms", "NaN:5ms", "1000:75ms", "1:75", "1:0ms", "1:1h"]
        {
            let message = bad.parse::<Pauses>().expect_err(bad);
            assert!(
                message.contains("0.2:75ms") && message.contains(bad.rsplit(':').next().unwrap())
            );
        }
    }
}
