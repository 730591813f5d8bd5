//! Estimates how long a simulation takes, so that nobody starts an endless one by mistake.
//!
//! The constants are from `curtail sim --threads 1 --json`, which reports queries and seconds per
//! policy. On the slower machine, which was busy with other work, a core simulated 11 million
//! queries per second if each had one copy, 6 million if there were second copies, and 4 million if
//! copies were also stopped. The constants are lower than these figures, so most simulations end
//! earlier than estimated.

use curtail_kernel::hedge::AllCopies;
use curtail_sim::Candidate;

use crate::exit::{Stop, bad};

/// Work that takes more than this number of seconds needs `--yes`.
const LONG_S: f64 = 3_600.0;

/// Queries that a core simulates per second, with one copy each.
const SINGLE: f64 = 8e6;

/// Queries that a core simulates per second, with second copies.
pub(crate) const HEDGED: f64 = 4e6;

/// Queries that a core simulates per second, with second copies that are also stopped.
pub(crate) const STOPPED: f64 = 2.5e6;

/// Requests that a core simulates per second if servers are shared by clients.
pub(crate) const SHARED: f64 = 1e5;

/// Factor by which simulating a query takes longer if it goes over a network.
const NETWORK: f64 = 2.0;

/// Queries that `threads` threads simulate per second, averaged over these policies.
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

/// Core seconds per query.
fn seconds(candidate: &Candidate, replicas: f64) -> f64 {
    match candidate.policy().hedge() {
        Some(hedge) if hedge.of.builds.copies == AllCopies::EveryServer => replicas * 1.5 / SINGLE,
        None => 1.0 / SINGLE,
        Some(_) if candidate.policy().needs_cancellation() => 1.0 / STOPPED,
        _ => 1.0 / HEDGED,
    }
}

/// Returns an error if the work would take too long. `speed` is the number of events per second on
/// all threads together, and `less` names what to reduce.
pub(crate) fn check_length(events: f64, speed: f64, less: &str) -> Result<(), Stop> {
    let seconds = events / speed;
    if seconds < LONG_S {
        return Ok(());
    }
    Err(bad!(
        "this simulates {events:.1e} queries and failures, which takes about {}; use fewer {less}, \
         or add --yes",
        rough(seconds)
    ))
}

/// Formats a long time roughly.
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

    /// The message for a number of queries on two threads.
    fn message(policy: &str, replicas: usize, network: bool, queries: f64) -> String {
        let candidate = Candidate::parse(policy, 1).expect("a policy");
        let speed = speed(&[candidate], replicas, network, 2);
        match check_length(queries, speed, "requests") {
            Err(Stop::BadInput(why)) => why,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_time_is_at_most_a_few_times_too_long() {
        // At the measured speeds, these numbers of queries take 18, 31 and 53 minutes.
        assert_eq!(message("psq", 2, false, 2.4e10), "Ok(())");
        assert_eq!(message("laedge", 2, false, 2.4e10), "Ok(())");
        assert!(message("idealized", 2, false, 2.4e10).contains("about 1.3 hours;"));
        for (policy, replicas, network, words) in [
            (
                "psq",
                2,
                false,
                "this simulates 2.4e11 queries and failures, which takes about 4.2 hours",
            ),
            ("o1", 2, true, "about 8.3 hours; use fewer requests, or add --yes"),
            ("clone", 8, false, "about 2.1 days"),
        ] {
            let message = message(policy, replicas, network, 2.4e11);
            assert!(message.contains(words), "{message}");
        }
    }
}
