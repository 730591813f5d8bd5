//! How long work will take, so that nobody begins with what never ends.
//!
//! `curtail sim --threads 1 --json` tells queries and seconds of each policy. On the slower machines
//! that this was measured on, busy with other things, a core does eleven million queries per second
//! of one copy, six million where hedges send second ones, and four where copies are stopped. It is
//! told as if it did less: who waits is glad when it ends early.

use curtail_kernel::HedgeSpec;
use curtail_sim::Candidate;

use crate::exit::Stop;

/// Beyond this the work needs a `--yes`, in seconds.
const LONG_S: f64 = 3_600.0;

/// Queries that a core simulates per second, where each has one copy.
const SINGLE: f64 = 8e6;

/// And where there are second copies.
pub(crate) const HEDGED: f64 = 4e6;

/// And where copies are stopped, too.
pub(crate) const STOPPED: f64 = 2.5e6;

/// Requests that a core simulates per second where clients share servers.
pub(crate) const SHARED: f64 = 1e5;

/// How much longer a query takes whose messages are on a network.
const NETWORK: f64 = 2.0;

/// Queries that so many threads simulate per second, over all of these policies.
pub(crate) fn speed(
    candidates: &[Candidate],
    replicas: usize,
    network: bool,
    threads: usize,
) -> f64 {
    let replicas = replicas as f64;
    let seconds = candidates.iter().map(|candidate| seconds(candidate, replicas)).sum::<f64>();
    let slower = if network { NETWORK } else { 1.0 };
    (candidates.len() * threads) as f64 / (seconds * slower)
}

/// What a query takes.
fn seconds(candidate: &Candidate, replicas: f64) -> f64 {
    match candidate.policy().hedge() {
        Some(HedgeSpec::Clone(_)) => replicas * 1.5 / SINGLE,
        None => 1.0 / SINGLE,
        Some(_) if candidate.policy().needs_cancellation() => 1.0 / STOPPED,
        _ => 1.0 / HEDGED,
    }
}

/// Refuses work that takes long, and names what to ask less of. `speed` is of all threads.
pub(crate) fn check_length(events: f64, speed: f64, less: &str) -> Result<(), Stop> {
    let seconds = events / speed;
    if seconds < LONG_S {
        return Ok(());
    }
    Err(Stop::BadInput(format!(
        "this simulates {events:.1e} queries and failures, which takes about {}; ask for fewer \
         {less}, or add --yes",
        rough(seconds)
    )))
}

/// A long time, roughly.
fn rough(seconds: f64) -> String {
    let units = [("years", 31_557_600.0), ("days", 86_400.0)];
    let unit = units.into_iter().find(|(_, length)| seconds >= 2.0 * length);
    let (name, length) = unit.unwrap_or(("hours", 3_600.0));
    let count = seconds / length;
    format!("{count:.*} {name}", usize::from(count < 10.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of so many queries on two threads, of a service on one machine or over a network.
    fn said(policy: &str, replicas: usize, network: bool, queries: f64) -> String {
        let candidate = Candidate::parse(policy, 1).expect("a policy");
        let speed = speed(&[candidate], replicas, network, 2);
        match check_length(queries, speed, "requests") {
            Err(Stop::BadInput(why)) => why,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_time_is_at_most_a_few_times_too_long() {
        // At the speeds that were measured: 18 and 31 minutes, and 53.
        assert_eq!(said("psq", 2, false, 2.4e10), "Ok(())");
        assert_eq!(said("laedge", 2, false, 2.4e10), "Ok(())");
        assert!(said("idealized", 2, false, 2.4e10).contains("about 1.3 hours;"));
        for (policy, replicas, network, words) in [
            (
                "psq",
                2,
                false,
                "this simulates 2.4e11 queries and failures, which takes about 4.2 hours",
            ),
            ("o1", 2, true, "about 8.3 hours; ask for fewer requests, or add --yes"),
            ("clone", 8, false, "about 2.1 days"),
        ] {
            let said = said(policy, replicas, network, 2.4e11);
            assert!(said.contains(words), "{said}");
        }
    }
}
