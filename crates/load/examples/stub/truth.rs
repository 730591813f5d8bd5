//! Draws the delay of each request, and logs how long each response took.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use curtail_dist::{Distribution, Spec, seed};
use hdrhistogram::Histogram;
use rand_pcg::Pcg64Mcg;

use crate::Failure;

pub(crate) struct Truth {
    delay: Distribution,
    rng: Mutex<Pcg64Mcg>,
    start: Instant,
    /// The time from the start of one stall to the start of the next, and the length of a stall.
    stall: Option<(Duration, Duration)>,
    took: Mutex<Histogram<u64>>,
}

impl Truth {
    pub(crate) fn new(delay: &str, stall: Option<&str>) -> Result<Truth, Failure> {
        let delay = delay.parse::<Spec>()?.resolve(1e6)?;
        let span = |text: &str| {
            Ok::<_, Failure>(Duration::from_nanos(curtail_kernel::duration::parse(text)?))
        };
        let stall = match stall {
            Some(text) => {
                let (every, lasts) = text.split_once('/').ok_or("write a stall as EVERY/LASTS")?;
                Some((span(every)?, span(lasts)?))
            }
            None => None,
        };
        let took = Histogram::new_with_max(60_000_000_000, 3)?;
        let rng = Mutex::new(seed::rng(42));
        Ok(Truth { delay, rng, start: Instant::now(), stall, took: Mutex::new(took) })
    }

    /// Delays the response to a request that was read at `read`.
    pub(crate) async fn delay(&self, read: Instant) {
        let drawn = {
            let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
            Duration::from_nanos(self.delay.sample(&mut *rng) as u64)
        };
        let until = self.stalled_until(read).unwrap_or(read).max(read + drawn);
        if until > Instant::now() {
            tokio::time::sleep_until(until.into()).await;
        }
    }

    /// Returns when the current stall ends, if the server is stalled at `moment`.
    fn stalled_until(&self, moment: Instant) -> Option<Instant> {
        let (every, lasts) = self.stall?;
        let since = moment.duration_since(self.start).as_nanos();
        let within = since % every.as_nanos();
        // The server stalls during the last part of each period.
        let begins = every.saturating_sub(lasts).as_nanos();
        let left = every.as_nanos() - within;
        (within >= begins).then(|| moment + Duration::from_nanos(left as u64))
    }

    /// Logs how long a response took, after it has been written.
    pub(crate) fn answered(&self, read: Instant) {
        let took = read.elapsed().as_nanos() as u64;
        self.took.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(took);
    }

    /// Returns the log as JSON.
    pub(crate) fn document(&self) -> String {
        let took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |quantile| took.value_at_quantile(quantile);
        let (p50, p90, p95, p99) = (at(0.5), at(0.9), at(0.95), at(0.99));
        let requests = took.len();
        format!(
            r#"{{"requests":{requests},"truth_ns":{{"p50":{p50},"p90":{p90},"p95":{p95},"p99":{p99}}}}}"#
        )
    }
}
