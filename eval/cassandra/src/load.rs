//! Sends requests, either on a schedule, regardless of responses (open loop), or each one as soon
//! as the previous one has its response (closed loop).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::join_all;
use tokio::runtime::Runtime;

use crate::client::Client;
use crate::figures;
use crate::workload::{Mix, Operation};

/// The maximum number of outstanding requests. Further requests are left out and counted.
const UNDER_WAY_MAX: usize = 4096;
/// How long to wait for responses after the last request was sent.
const REST: Duration = Duration::from_secs(15);

/// The results of requests sent on a schedule. Latencies are those of reads, from the time at which
/// they were due.
pub(crate) struct Seen {
    pub(crate) offered: u64,
    pub(crate) answered: u64,
    pub(crate) errors: u64,
    /// Requests that were not sent because too many were outstanding.
    pub(crate) left_out: u64,
    /// The generator's own delay: how late it sent requests, at p99, in ms.
    pub(crate) late_ms: f64,
    /// The time at which each read was due, in s, and its latency in ms.
    pub(crate) reads: Vec<(f64, f64)>,
}

/// Returns the requests of a Poisson process with a given rate per second, in the order in which
/// they are due between `from` and `to`.
pub(crate) fn schedule(
    mix: &mut Mix,
    rate: f64,
    from: Duration,
    to: Duration,
) -> Vec<(Duration, Operation)> {
    let mut all = Vec::new();
    if rate == 0.0 {
        return all;
    }
    let mut due = from + mix.gap(rate);
    while due < to {
        all.push((due, mix.draw()));
        due += mix.gap(rate);
    }
    all
}

/// Sends requests when they are due. Clients take turns.
pub(crate) fn open(
    runtime: &Runtime,
    clients: &[Client],
    requests: Vec<(Duration, Operation)>,
) -> Seen {
    let under_way = Arc::new(AtomicUsize::new(0));
    let errors = Arc::new(AtomicU64::new(0));
    let reads = Arc::new(Mutex::new(Vec::with_capacity(requests.len())));
    let mut late = Vec::with_capacity(requests.len());
    let offered = requests.len() as u64;
    let (mut sent, start) = (0, Instant::now());
    for (at, (due, operation)) in requests.into_iter().enumerate() {
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        late.push((start.elapsed() - due).as_secs_f64() * 1e3);
        if under_way.load(Ordering::Relaxed) >= UNDER_WAY_MAX {
            continue;
        }
        sent += 1;
        under_way.fetch_add(1, Ordering::Relaxed);
        let client = clients[at % clients.len()].clone();
        let (under_way, errors, reads) = (under_way.clone(), errors.clone(), reads.clone());
        runtime.spawn(async move {
            let is_read = matches!(operation, Operation::Read(_));
            match client.ask(operation).await {
                Err(_) => {
                    errors.fetch_add(1, Ordering::Relaxed);
                }
                Ok(()) if is_read => {
                    let ms = (start.elapsed() - due).as_secs_f64() * 1e3;
                    let mut reads = reads.lock().unwrap_or_else(PoisonError::into_inner);
                    reads.push((due.as_secs_f64(), ms));
                }
                Ok(()) => {}
            }
            under_way.fetch_sub(1, Ordering::Relaxed);
        });
    }
    let end = Instant::now();
    while under_way.load(Ordering::Relaxed) > 0 && end.elapsed() < REST {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Requests that are still outstanding count as failed.
    let errors = errors.load(Ordering::Relaxed) + under_way.load(Ordering::Relaxed) as u64;
    let mut reads = std::mem::take(&mut *reads.lock().unwrap_or_else(PoisonError::into_inner));
    reads.sort_by(|a, b| a.0.total_cmp(&b.0));
    Seen {
        offered,
        answered: sent - errors,
        errors,
        left_out: offered - sent,
        late_ms: figures::percentile(&figures::sorted(late), 0.99),
        reads,
    }
}

/// Runs one generator per mix. Each sends a request as soon as it has the response to the previous
/// one. Returns the number of responses per second.
pub(crate) fn closed(
    runtime: &Runtime,
    clients: &[Client],
    mixes: Vec<Mix>,
    span: Duration,
) -> Result<f64> {
    let start = Instant::now();
    let generator = |(at, mut mix): (usize, Mix)| {
        let client = clients[at % clients.len()].clone();
        runtime.spawn(async move {
            let mut done = 0_u64;
            while start.elapsed() < span {
                done += u64::from(client.ask(mix.draw()).await.is_ok());
            }
            done
        })
    };
    let all: Vec<_> = mixes.into_iter().enumerate().map(generator).collect();
    let done = runtime.block_on(join_all(all));
    let done: u64 = done.into_iter().collect::<Result<Vec<u64>, _>>()?.into_iter().sum();
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_its_rate_and_span() {
        let mut mix = Mix::new(10, 1.0, 1, 7).unwrap();
        let span = |seconds| Duration::from_secs(seconds);
        let all = schedule(&mut mix, 100.0, span(50), span(150));
        assert!((all.len() as f64 - 10_000.0).abs() < 400.0, "{}", all.len());
        assert!(all[0].0 > span(50) && all.iter().all(|(due, _)| *due < span(150)));
        assert!(all.is_sorted_by_key(|(due, _)| *due));
        assert_eq!(schedule(&mut mix, 0.0, span(0), span(10)), []);
    }
}
