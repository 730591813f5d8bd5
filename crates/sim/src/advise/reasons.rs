//! The reasons for a verdict, as text.

use super::{Facts, Gain, WORTH, figure};
use crate::outcome::Outcome;

const PREEMPT: &str = "rescue:preempt";

/// The share of requests that are slower than p99.
const BEYOND_P99: f64 = 0.01;

/// If the advice is to hedge and the median grows by at least this share, the reasons mention it.
const SLOWER_MEDIAN: f64 = 0.05;

/// If `lesser_of_two` is at least this value, the jitters of two copies are similar, so a second
/// copy avoids little of it. `lesser_of_two` is one half for exponential jitter, and two thirds for
/// uniform jitter.
const ALIKE: f64 = 0.65;

/// If there are at least this many copies per query, the replicas have enough time for second
/// copies. If second copies still do not help, lack of time is not the reason.
const MOSTLY: f64 = 1.8;

/// If there are at least this many copies per query, lack of time is not the only reason.
const SOME: f64 = 1.4;

/// If there are at most this many copies per query, second copies are reported as a share of the
/// queries.
const FEW: f64 = 1.1;

/// Hiccups are rare. If more than this share of the copies have a jitter longer than the mean
/// service time, such jitter is not reported as hiccups.
const RARE: f64 = 0.25;

/// Explains why hedging pays or does not pay. `pays` is `None` if the samples do not settle the
/// question.
pub(super) fn because(facts: &Facts<'_>, pays: Option<bool>) -> String {
    let Facts { hiccups, .. } = *facts;
    let hit = hit(facts);
    let Some(pays) = pays else { return open(facts) };
    if !facts.psq.stable {
        return unsteady(facts, pays);
    }
    let (gain, bound) = (facts.gain(facts.best), facts.gain(facts.bound));
    if pays {
        return format!(
            "{hit}; at {} {} p99 from {} to {}, and no first-come, first-served policy gets below \
             {}{}; {}",
            load(facts),
            means(facts),
            latency(figure(facts.psq, 99.0)),
            latency(figure(facts.best, 99.0)),
            latency(figure(facts.bound, 99.0)),
            slower_median(gain),
            beyond(facts),
        );
    }
    let at_most = bound.p99.unwrap_or(0.0);
    if hiccups.lesser_of_two.is_none() {
        return "all copies of a query take equally long (there is no jitter), so a second copy is \
                no faster than the first"
            .to_owned();
    }
    if hiccups.probability == 0.0 && at_most < WORTH {
        return "all copies of a query take about equally long (no draw of the jitter is longer \
                than a mean service time), so a second copy is hardly faster than the first"
            .to_owned();
    }
    if facts.replicas == 1 {
        return format!("{hit}, but with one replica there is no other replica for a second copy");
    }
    if at_most < WORTH && hiccups.requests < BEYOND_P99 {
        return format!("{hit}: too few to show at p99{}", beyond_p99(gain));
    }
    if at_most < WORTH {
        return format!(
            "{hit}, but even if hiccups cost nothing, p99 would be only {} lower, because queries \
             wait or are long themselves",
            share(at_most.max(0.0))
        );
    }
    format!(
        "{hit}, and p99 would be {} lower without {}, but {}: {} {}{}; {}{}",
        share(at_most),
        match hiccups.probability {
            0.0 | RARE.. => "it",
            _ if hiccups.requests < BEYOND_P99 => "them (other queries wait behind them)",
            _ => "them",
        },
        obstacle(facts),
        facts.best.policy,
        match gain.p99 {
            Some(gain) if gain >= 0.0 => format!("gains only {}", share(gain)),
            Some(loss) => format!("would make p99 {} higher", share(-loss)),
            None => "has no steady state".to_owned(),
        },
        lower_median(gain),
        beyond(facts),
        if facts.cancel { "" } else { "; replicas that can stop a query may gain more" },
    )
}

/// Explains that the samples do not settle the verdict.
fn open(facts: &Facts<'_>) -> String {
    format!(
        "{}; at {} {} p99 from {} to {}, but other samples of the same service could lead to a \
         different verdict: measure for longer",
        hit(facts),
        load(facts),
        means(facts),
        latency(figure(facts.psq, 99.0)),
        latency(figure(facts.best, 99.0)),
    )
}

/// Explains why p99 is lower.
fn means(facts: &Facts<'_>) -> String {
    match facts.best.copies_per_query {
        Some(copies) if copies <= FEW => {
            format!("second copies of {} of the queries lower", share(copies - 1.0))
        }
        _ => "replicas have time for second copies, which lower".to_owned(),
    }
}

/// Returns additional sentences about the requirements of the recommended policy.
pub(super) fn conditions(advised: &Outcome) -> String {
    let Some(copies) = advised.copies_per_query.filter(|_| advised.policy == PREEMPT) else {
        return String::new();
    };
    format!(
        ". The policy {PREEMPT} must be the only sender to its replicas, sends {copies:.2} copies per query \
         here, and is slower if round trips or cancellations take long"
    )
}

/// Explains why second copies do not reduce the cost of jitter.
fn obstacle(facts: &Facts<'_>) -> String {
    let Facts { hiccups, utilization, .. } = *facts;
    let load = load(facts);
    if let Some(lesser) = hiccups.lesser_of_two.filter(|&lesser| lesser >= ALIKE) {
        return format!(
            "the jitter of two copies is similar (the smaller of two is on average {} of one)",
            share(lesser)
        );
    }
    if facts.most_copies >= MOSTLY {
        return "there is room for most second copies, but they are not faster often enough"
            .to_owned();
    }
    let busy = with_the_jitter(utilization, facts.psq.utilization.with_jitter);
    if facts.most_copies >= SOME {
        return format!(
            "at {load} replicas{busy} have time for some second copies, which do not save enough"
        );
    }
    format!("at {load} replicas{busy} are too busy for second copies")
}

/// Describes the hiccups and the share of queries that they affect.
fn hit(facts: &Facts<'_>) -> String {
    let Facts { hiccups, shards, .. } = *facts;
    if hiccups.probability == 0.0 {
        return "no draw of the jitter is longer than a mean service time".to_owned();
    }
    let unit = if facts.best.unit == "ms" { "ms" } else { "time units" };
    if hiccups.probability >= RARE {
        let [p, j] = facts.means;
        return format!(
            "the copies of a query have {j:.3} {unit} of jitter on average, besides {p:.3} {unit} \
             that they share; {} of them have more jitter than that, so these are not rare hiccups",
            share(hiccups.probability)
        );
    }
    format!(
        "hiccups of {:.3} {} hit {} of the queries, and thus {} of the requests over {shards} \
         shard{}",
        hiccups.duration,
        unit,
        share(hiccups.probability),
        share(hiccups.requests),
        if shards == 1 { "" } else { "s" },
    )
}

/// Explains the verdict if per-shard queuing has no steady state, and thus no latency to compare
/// with.
fn unsteady(facts: &Facts<'_>, hedge: bool) -> String {
    let Facts { utilization, best, psq, .. } = facts;
    let load = load(facts);
    let busy = with_the_jitter(*utilization, psq.utilization.with_jitter);
    if hedge {
        let p99 = latency(figure(best, 99.0));
        format!(
            "at {load}{busy} psq has no steady state, but {} has one, with a p99 of {p99}; {}",
            best.policy,
            beyond(facts)
        )
    } else {
        format!(
            "at {load}{busy} neither psq nor {} has a steady state, so there \
             is nothing to gain",
            best.policy
        )
    }
}

/// Describes the load in the question.
fn load(facts: &Facts<'_>) -> String {
    // A utilization computed from a rate has many digits.
    let rounded = (facts.utilization * 1e4).round() / 1e4;
    let utilization = if rounded > 0.01 { rounded } else { facts.utilization };
    let rate = facts.rate.map(|rate| format!(" ({rate:.1} requests/s)")).unwrap_or_default();
    format!("a utilization of {utilization}{}{rate}", with_jitter(facts.of_total))
}

/// States that a utilization includes the jitter, if it does.
fn with_jitter(of_total: bool) -> &'static str {
    if of_total { " with the jitter" } else { "" }
}

/// Describes the share of time for which replicas are busy, if jitter makes it notably higher than
/// the utilization.
fn with_the_jitter(utilization: f64, busy: f64) -> String {
    if busy > 1.05 * utilization {
        format!(", with the jitter busy for {} of the time,", share(busy))
    } else {
        String::new()
    }
}

/// Describes the load up to which hedging is faster.
fn beyond(facts: &Facts<'_>) -> String {
    let crossing = crossing(facts.stop_above, facts.highest, with_jitter(facts.of_total));
    format!("{} {crossing}", facts.best.policy)
}

fn crossing(stop_above: Option<f64>, highest: f64, with: &str) -> String {
    match stop_above {
        Some(stop) if stop >= highest => {
            format!("is faster up to {highest:.2}{with}, the highest load that was simulated")
        }
        Some(stop) => format!("is not faster above a utilization of {stop:.2}{with}"),
        None => "is not faster than psq at any load".to_owned(),
    }
}

/// States that the median is slower, if it is. A slower median is the price of a better tail,
/// because second copies delay first copies.
fn slower_median(gain: Gain) -> String {
    match gain.p50 {
        Some(gain) if -gain >= SLOWER_MEDIAN => {
            format!("; in return, the median is {} higher", share(-gain))
        }
        _ => String::new(),
    }
}

/// States that the median is lower, if it is. Used if p99 does not improve.
fn lower_median(gain: Gain) -> String {
    match gain.p50 {
        Some(gain) if gain >= WORTH => format!(" (and the median {} lower)", share(gain)),
        _ => String::new(),
    }
}

/// States that p99.9 is lower, if it is. Used if p99 does not improve.
fn beyond_p99(gain: Gain) -> String {
    match gain.p999 {
        Some(gain) if gain >= WORTH => format!(" (p99.9 would be {} lower)", share(gain)),
        _ => String::new(),
    }
}

fn share(of: f64) -> String {
    let percent = of * 100.0;
    let decimals = match percent {
        0.0 => 0,
        _ if percent >= 10.0 => 0,
        _ if percent >= 0.1 => 2,
        // Small shares have two significant digits.
        _ => (1.0 - percent.log10().floor()).min(12.0) as usize,
    };
    format!("{percent:.decimals$} %")
}

pub(super) fn latency(of: Option<f64>) -> String {
    of.map_or("no steady state".to_owned(), |value| format!("{value:.3}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::*;
    use crate::advise::Hiccups;
    use crate::{Candidate, PERCENTILES, Parameters, Plan, UNIT_NS, compare};
    use curtail_kernel::Policy;
    use curtail_kernel::hedge::Version;

    #[test]
    fn a_policy_that_is_always_faster_is_not_slower_anywhere() {
        assert_eq!(crossing(Some(0.59), 0.9, ""), "is not faster above a utilization of 0.59");
        let always = crossing(Some(0.95), 0.95, "");
        assert_eq!(always, "is faster up to 0.95, the highest load that was simulated");
        assert_eq!(crossing(None, 0.9, ""), "is not faster than psq at any load");
    }

    /// Returns the outcomes of per-shard queuing and LÆDGE at a load.
    fn outcomes(utilization: f64) -> Vec<Outcome> {
        let parameters =
            Parameters { utilization, shards: 2, requests: 1_000, ..Parameters::default() };
        let experiment = parameters.experiment().expect("an experiment");
        let candidates =
            ["psq", "laedge"].map(|name| Candidate::parse(name, UNIT_NS).expect("a policy"));
        let (progress, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let plan = Plan { threads: 1, percentiles: &PERCENTILES, progress: &progress, stop: &stop };
        compare(&experiment, &candidates, &plan).expect("it can run").expect("nothing stops it")
    }

    #[test]
    fn without_a_steady_state_there_is_no_latency_to_compare() {
        let (overloaded, fine) = (outcomes(1.2), outcomes(0.3));
        let text = |best, hedge| {
            let facts = Facts {
                hiccups: Hiccups::default(),
                psq: &overloaded[0],
                best,
                means: [1.0, 0.0],
                of_total: false,
                bound: best,
                stop_above: None,
                highest: 0.9,
                shards: 2,
                replicas: 2,
                utilization: 0.95,
                rate: None,
                cancel: true,
                most_copies: 1.0,
            };
            because(&facts, Some(hedge))
        };
        let neither = text(&overloaded[1], false);
        assert!(neither.contains("neither psq nor laedge has a steady state"), "{neither}");
        let only = text(&fine[1], true);
        assert!(
            only.contains("psq has no steady state, but laedge has one, with a p99 of "),
            "{only}"
        );
        assert!(!only.contains("of no steady state"), "{only}");
    }

    #[test]
    fn the_reasons_name_a_policy_that_must_be_the_only_sender() {
        let advised =
            |policy: &str| Outcome { policy: policy.to_owned(), ..outcomes(0.3).remove(0) };
        assert_eq!(conditions(&advised("rescue")), "");
        let text = conditions(&advised(&Policy::from(Version::Preempt).to_string()));
        let words = [
            "only sender",
            "sends 1.00 copies per query",
            "round trips or cancellations take long",
        ];
        assert!(text.starts_with(". ") && words.iter().all(|word| text.contains(word)), "{text}");
    }

    #[test]
    fn shares_have_two_digits_however_small() {
        let text = [0.0, 2e-7, 4.9e-5, 0.003, 0.0149, 0.42].map(share);
        assert_eq!(text, ["0 %", "0.000020 %", "0.0049 %", "0.30 %", "1.49 %", "42 %"]);
    }

    #[test]
    fn a_load_that_is_mostly_jitter_is_reported() {
        assert_eq!(with_the_jitter(0.2, 0.6), ", with the jitter busy for 60 % of the time,");
        assert_eq!(with_the_jitter(0.6, 0.61), "");
    }

    #[test]
    fn a_notably_slower_median_is_mentioned() {
        let of = |p50| slower_median(Gain { p50, p99: Some(0.4), p999: None });
        assert_eq!(of(Some(-0.12)), "; in return, the median is 12 % higher");
        assert_eq!([of(Some(-0.04)), of(Some(0.3)), of(None)], ["", "", ""]);
        let of = |p50| lower_median(Gain { p50, p99: Some(0.01), p999: None });
        assert_eq!([of(Some(0.29)), of(Some(0.04))], [" (and the median 29 % lower)", ""]);
    }
}
