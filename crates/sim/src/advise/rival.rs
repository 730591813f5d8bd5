//! Delayed hedges as rivals of the recommended policy.
//!
//! The delay of the second copy is either the 95th percentile of recent ages, which the service
//! learns (Dean and Barroso, "The Tail at Scale", 2013), or a fixed multiple of the mean service
//! time. According to document 000 (§4.6), a multiple of 5 was best. All of these hedges pick the
//! replica with the fewest outstanding copies, and stop the slower copy if the replicas support
//! that.

use curtail_kernel::Policy;
use serde::Serialize;

use super::reasons::latency;
use super::{Latency, WORTH, is_mostly_jitter};
use crate::candidate::Candidate;
use crate::error::Error;
use crate::experiment::Experiment;

/// Fixed delays, as multiples of the mean service time.
const DELAYS: [f64; 2] = [3.0, 5.0];

/// The best delayed hedge, compared with the recommended policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rival {
    /// The name of the hedge.
    pub policy: String,
    /// The 99th percentile of request latency, in the unit of the experiment. `None` if there is no
    /// steady state.
    pub p99: Option<f64>,
    /// Copies per query.
    pub copies_per_query: Option<f64>,
    /// Whether the hedge is as good as the recommended policy. If hedging pays, this requires two
    /// things. Its p99 is lower than the recommended policy's or within that policy's 95 %
    /// confidence interval, and it sends at most 5 more copies per 100 queries. If hedging does not
    /// pay according to the advice, this requires that the hedge nevertheless lowers p99 by more
    /// than 5 %.
    pub as_good: bool,
    /// The comparison as text.
    pub text: String,
}

/// Returns the delayed hedges that the replicas support.
pub(super) fn rivals(experiment: &Experiment, cancel: bool) -> Result<Vec<Candidate>, Error> {
    let cleanup = if cancel { ":cc" } else { "" };
    let jitter = if is_mostly_jitter(experiment) { experiment.mean_jitter() } else { 0.0 };
    let mean_ns = experiment.service.mean() + jitter;
    let fixed = DELAYS.map(|times| format!("{}ns", two_digits(times * mean_ns)));
    let delays = ["p95".to_owned()].into_iter().chain(fixed);
    let named = delays.map(|delay| {
        let name = format!("delayed:{delay}{cleanup}+least-outstanding");
        let parsed = Policy::parse(&name, None).map_err(|error| Error::Policy(error.to_string()));
        parsed.map(Candidate::Policy)
    });
    named.collect()
}

/// Rounds a delay to two significant digits for readability. The result is at least 1.
fn two_digits(ns: f64) -> u64 {
    let step = 10f64.powf((ns.max(1.0).log10().floor() - 1.0).max(0.0));
    ((ns / step).round() * step).max(1.0) as u64
}

/// Compares the best of these delayed hedges with the recommended policy. If hedging pays, the
/// recommended policy is the best policy that hedges. Otherwise, it is per-shard queuing.
pub(super) fn rival(of: &[Latency], with: &Latency, pays: bool) -> Rival {
    let copies = |row: &Latency| row.copies_per_query.unwrap_or(f64::INFINITY);
    let p99 = |row: &Latency| row.p99.unwrap_or(f64::INFINITY);
    let half = with.p99_ci95.unwrap_or(0.0);
    let as_good = |row: &&Latency| match pays {
        true => p99(row) <= p99(with) + half && copies(row) <= copies(with) + WORTH,
        false => p99(row) < (1.0 - WORTH) * p99(with),
    };
    let least = |a: &&Latency, b: &&Latency| p99(a).total_cmp(&p99(b));
    let found = of.iter().filter(as_good).min_by(least);
    let best = found.or_else(|| of.iter().min_by(least)).expect("there is a delayed hedge");
    let figures = |row: &Latency| match row.copies_per_query {
        Some(copies) => format!("p99 {}, {copies:.2} copies per query", latency(row.p99)),
        None => latency(row.p99),
    };
    let verdict = match (pays, found.is_some()) {
        _ if best.p99.is_none() => "no delayed hedge has a steady state here",
        (true, true) if p99(best) < p99(with) - half => "a delayed hedge is better here",
        (true, true) => "a delayed hedge is as good here",
        (true, false) if p99(best) <= p99(with) + half => {
            "a delayed hedge reaches the same p99 with more copies"
        }
        (true, false) => "no delayed hedge is as good here",
        (false, true) => "a delayed hedge pays nevertheless",
        (false, false) => "a delayed hedge does not pay either",
    };
    let [theirs, ours] = [best, with].map(|row| format!("{} ({})", row.policy, figures(row)));
    let text = format!("{verdict}: {theirs}, {ours}");
    let Latency { p99, copies_per_query, .. } = *best;
    Rival { policy: best.policy.clone(), p99, copies_per_query, as_good: found.is_some(), text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameters;

    fn row(policy: &str, p99: Option<f64>, copies: f64) -> Latency {
        Latency {
            policy: policy.to_owned(),
            stable: p99.is_some(),
            p50: None,
            p99,
            p999: None,
            p99_ci95: Some(0.5),
            copies_per_query: p99.map(|_| copies),
        }
    }

    #[test]
    fn delays_follow_the_service_and_losers_are_stopped_if_possible() {
        let names = |service: &str, jitter: Option<&str>, cancel| {
            let (service, jitter) = (service.to_owned(), jitter.map(str::to_owned));
            let parameters = Parameters { service, jitter, ..Parameters::default() };
            let experiment = parameters.experiment().expect("an experiment");
            let all = rivals(&experiment, cancel).expect("they are policies");
            all.iter()
                .map(|one| one.to_string().replace("+least-outstanding", ""))
                .collect::<Vec<_>>()
        };
        let stopped = names("exp:5ms", Some("bimodal:0.003:75ms"), true);
        assert_eq!(stopped, ["delayed:p95:cc", "delayed:15ms:cc", "delayed:25ms:cc"]);
        let going_on = names("exp:1234us", None, false);
        assert_eq!(going_on, ["delayed:p95", "delayed:3.7ms", "delayed:6.2ms"]);
        assert_eq!(names("det:1us", Some("exp:1ms"), false)[1], "delayed:3ms");
    }

    #[test]
    fn a_hedge_is_as_good_within_the_interval_at_no_more_copies() {
        let ours = row("rescue", Some(10.0), 1.01);
        let compared = |rows: &[Latency]| rival(rows, &ours, true);
        let alike = compared(&[row("a", Some(10.4), 1.05), row("b", Some(12.0), 1.01)]);
        assert_eq!((&*alike.policy, alike.as_good), ("a", true));
        let words = "a delayed hedge is as good here: a (p99 10.400, 1.05 copies per query), rescue (p99 10.000, 1.01";
        assert!(alike.text.starts_with(words), "{}", alike.text);
        let better = compared(&[row("a", Some(9.0), 1.0), row("b", Some(9.4), 1.01)]);
        assert!(better.as_good && better.text.contains("is better here: a ("), "{}", better.text);
        // The hedge with the lowest p99 sends too many copies, but the next one is as good as the
        // recommended policy.
        let frugal = compared(&[row("a", Some(9.0), 1.6), row("b", Some(10.3), 1.02)]);
        assert_eq!((&*frugal.policy, frugal.as_good), ("b", true));
        let dear = compared(&[row("a", Some(9.0), 1.6)]);
        assert!(!dear.as_good && dear.text.contains("reaches the same p99 with more copies: a ("));
        let worse = compared(&[row("a", Some(11.0), 1.0), row("b", None, 1.0)]);
        assert!(!worse.as_good && worse.text.starts_with("no delayed hedge is as good here: a ("));
        let none = compared(&[row("a", None, 1.0)]);
        assert!(!none.as_good && none.p99.is_none() && none.text.contains("steady state"));
    }

    #[test]
    fn where_hedging_does_not_pay_a_delayed_hedge_has_to_gain_something() {
        let psq = row("psq", Some(10.0), 1.0);
        let near = rival(&[row("a", Some(9.8), 1.05)], &psq, false);
        assert!(!near.as_good && near.text.starts_with("a delayed hedge does not pay either: a ("));
        let pays = rival(&[row("a", Some(9.0), 1.05)], &psq, false);
        assert!(pays.as_good && pays.text.contains("pays nevertheless: a ("), "{}", pays.text);
    }
}
