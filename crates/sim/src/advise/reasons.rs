//! The reasons for a verdict, in words.

use super::{Facts, Gain, WORTH, figure};
use crate::outcome::Outcome;

const PREEMPT: &str = "rescue:preempt";

/// The share of requests that p99 leaves out.
const BEYOND_P99: f64 = 0.01;

/// A median that grows by this share or more is mentioned where hedging is advised.
const SLOWER_MEDIAN: f64 = 0.05;

/// From here on jitter that two copies have is more that of the query than that of a copy: the
/// lesser of two is a half for the exponential, two thirds for the uniform.
const ALIKE: f64 = 0.65;

/// From so many copies per query on, it is not for want of time that second copies do not help.
const MOSTLY: f64 = 1.8;

/// From so many on, it is not for want of time alone.
const SOME: f64 = 1.4;

/// Up to so many copies per query, second ones are reported as a share of the queries.
const FEW: f64 = 1.1;

/// Jitter that is longer than a mean service time in a larger share of the copies is no hiccup: a hiccup
/// is rare.
const RARE: f64 = 0.25;

/// Why hedging pays, or why it does not; none where the samples leave that open.
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
            "{hit}; at {} {} p99 from {} to {}, where nothing that serves first come, first served \
             gets below {}{}; {}",
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
        return "all copies of a query take as long (there is no jitter), so a second copy is no \
                faster than the first"
            .to_owned();
    }
    if hiccups.probability == 0.0 && at_most < WORTH {
        return "all copies of a query take about as long (no draw of the jitter is longer than a \
                mean service time), so a second copy is hardly faster than the first"
            .to_owned();
    }
    if facts.replicas == 1 {
        return format!("{hit}, but with one replica there is nobody to send a second copy to");
    }
    if at_most < WORTH && hiccups.requests < BEYOND_P99 {
        return format!("{hit}: too few to show at p99{}", beyond_p99(gain));
    }
    if at_most < WORTH {
        return format!(
            "{hit}, but even in a world where they cost nothing p99 would be only {} lower: \
             queries wait, or take long by themselves",
            share(at_most.max(0.0))
        );
    }
    format!(
        "{hit}, and p99 would be {} lower without {}, but {}: {} {}{}; {}{}",
        share(at_most),
        match hiccups.probability {
            0.0 | RARE.. => "it",
            _ if hiccups.requests < BEYOND_P99 => "them (others wait behind them)",
            _ => "them",
        },
        obstacle(facts),
        facts.best.policy,
        match gain.p99 {
            Some(gain) if gain >= 0.0 => format!("gains {} only", share(gain)),
            Some(loss) => format!("would make p99 {} higher", share(-loss)),
            None => "has no steady state".to_owned(),
        },
        lower_median(gain),
        beyond(facts),
        if facts.cancel { "" } else { "; replicas that can stop a query may gain more" },
    )
}

/// The samples leave it open.
fn open(facts: &Facts<'_>) -> String {
    format!(
        "{}; at {} {} p99 from {} to {}, but other samples of the same service might well lead to another answer: \
         measure for longer",
        hit(facts),
        load(facts),
        means(facts),
        latency(figure(facts.psq, 99.0)),
        latency(figure(facts.best, 99.0)),
    )
}

/// What makes p99 lower.
fn means(facts: &Facts<'_>) -> String {
    match facts.best.copies_per_query {
        Some(copies) if copies <= FEW => {
            format!("second copies of {} of the queries take", share(copies - 1.0))
        }
        _ => "replicas have time for second copies, which takes".to_owned(),
    }
}

/// What the advised policy requires: further sentences of the reasons.
pub(super) fn conditions(advised: &Outcome) -> String {
    let Some(copies) = advised.copies_per_query.filter(|_| advised.policy == PREEMPT) else {
        return String::new();
    };
    format!(
        ". The policy {PREEMPT} must be the only sender to its replicas, sends {copies:.2} copies per query \
         here, and is slower where round trips or stops take long"
    )
}

/// What keeps second copies from saving what the jitter costs.
fn obstacle(facts: &Facts<'_>) -> String {
    let Facts { hiccups, utilization, .. } = *facts;
    let load = load(facts);
    if let Some(lesser) = hiccups.lesser_of_two.filter(|&lesser| lesser >= ALIKE) {
        return format!(
            "the jitter of two copies is much alike (the lesser of two is on average {} of one)",
            share(lesser)
        );
    }
    if facts.most_copies >= MOSTLY {
        return "second copies, though there is room for most of them, are not faster often enough"
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

/// What disturbs how many.
fn hit(facts: &Facts<'_>) -> String {
    let Facts { hiccups, shards, .. } = *facts;
    if hiccups.probability == 0.0 {
        return "no draw of the jitter is longer than a mean service time".to_owned();
    }
    let unit = if facts.best.unit == "ms" { "ms" } else { "time units" };
    if hiccups.probability >= RARE {
        let [p, j] = facts.means;
        return format!(
            "copies of a query differ by {j:.3} {unit} of jitter on average, beside {p:.3} {unit} of its \
             own; {} of them have more jitter than that, so these are no rare hiccups",
            share(hiccups.probability)
        );
    }
    format!(
        "hiccups of {:.3} {} hit {} of the queries, and so {} of the requests over {shards} shard{}",
        hiccups.duration,
        unit,
        share(hiccups.probability),
        share(hiccups.requests),
        if shards == 1 { "" } else { "s" },
    )
}

/// Per-shard queuing has no steady state: there is no latency to compare with.
fn unsteady(facts: &Facts<'_>, hedge: bool) -> String {
    let Facts { utilization, best, psq, .. } = facts;
    let load = load(facts);
    let busy = with_the_jitter(*utilization, psq.utilization.with_jitter);
    if hedge {
        let p99 = latency(figure(best, 99.0));
        format!(
            "at {load}{busy} psq has no steady state, and {} has one, with a \
             p99 of {p99}; {}",
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

/// The load at hand.
fn load(facts: &Facts<'_>) -> String {
    // One that a rate comes to has many digits.
    let rounded = (facts.utilization * 1e4).round() / 1e4;
    let utilization = if rounded > 0.01 { rounded } else { facts.utilization };
    let rate = facts.rate.map(|rate| format!(" ({rate:.1} requests/s)")).unwrap_or_default();
    format!("a utilization of {utilization}{}{rate}", with_jitter(facts.of_total))
}

/// What a utilization counts, where it is more than the queries' own times.
fn with_jitter(of_total: bool) -> &'static str {
    if of_total { " with the jitter" } else { "" }
}

/// How busy replicas really are, where the jitter keeps them notably busier.
fn with_the_jitter(utilization: f64, busy: f64) -> String {
    if busy > 1.05 * utilization {
        format!(", with the jitter busy for {} of the time,", share(busy))
    } else {
        String::new()
    }
}

/// Up to which load hedging is faster.
fn beyond(facts: &Facts<'_>) -> String {
    let crossing = crossing(facts.stop_above, facts.highest, with_jitter(facts.of_total));
    format!("{} {crossing}", facts.best.policy)
}

fn crossing(stop_above: Option<f64>, highest: f64, with: &str) -> String {
    match stop_above {
        Some(stop) if stop >= highest => {
            format!(
                "is the faster one up to {highest:.2}{with}, the highest load that was looked at"
            )
        }
        Some(stop) => format!("is not the faster one above a utilization of {stop:.2}{with}"),
        None => "is not faster than psq at any load".to_owned(),
    }
}

/// What a better tail costs the requests that would have been quick: second copies delay first ones.
fn slower_median(gain: Gain) -> String {
    match gain.p50 {
        Some(gain) if -gain >= SLOWER_MEDIAN => {
            format!("; the median gets {} higher in return", share(-gain))
        }
        _ => String::new(),
    }
}

/// What the median gains, where p99 does not.
fn lower_median(gain: Gain) -> String {
    match gain.p50 {
        Some(gain) if gain >= WORTH => format!(" (and the median {} lower)", share(gain)),
        _ => String::new(),
    }
}

/// What p99.9 gains, where p99 does not.
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
        // Two digits, however small it is.
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
        assert_eq!(
            crossing(Some(0.59), 0.9, ""),
            "is not the faster one above a utilization of 0.59"
        );
        let always = crossing(Some(0.95), 0.95, "");
        assert_eq!(always, "is the faster one up to 0.95, the highest load that was looked at");
        assert_eq!(crossing(None, 0.9, ""), "is not faster than psq at any load");
    }

    /// Per-shard queuing and LÆDGE at a load.
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
        let said = |best, hedge| {
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
        let neither = said(&overloaded[1], false);
        assert!(neither.contains("neither psq nor laedge has a steady state"), "{neither}");
        let only = said(&fine[1], true);
        assert!(
            only.contains("psq has no steady state, and laedge has one, with a p99 of "),
            "{only}"
        );
        assert!(!only.contains("of no steady state"), "{only}");
    }

    #[test]
    fn a_policy_that_must_be_the_only_sender_says_so() {
        let advised =
            |policy: &str| Outcome { policy: policy.to_owned(), ..outcomes(0.3).remove(0) };
        assert_eq!(conditions(&advised("rescue")), "");
        let said = conditions(&advised(&Policy::from(Version::Preempt).to_string()));
        let words =
            ["only sender", "sends 1.00 copies per query", "round trips or stops take long"];
        assert!(said.starts_with(". ") && words.iter().all(|word| said.contains(word)), "{said}");
    }

    #[test]
    fn shares_have_two_digits_however_small() {
        let said = [0.0, 2e-7, 4.9e-5, 0.003, 0.0149, 0.42].map(share);
        assert_eq!(said, ["0 %", "0.000020 %", "0.0049 %", "0.30 %", "1.49 %", "42 %"]);
    }

    #[test]
    fn a_load_that_is_mostly_jitter_is_told() {
        assert_eq!(with_the_jitter(0.2, 0.6), ", with the jitter busy for 60 % of the time,");
        assert_eq!(with_the_jitter(0.6, 0.61), "");
    }

    #[test]
    fn a_notably_slower_median_is_mentioned() {
        let of = |p50| slower_median(Gain { p50, p99: Some(0.4), p999: None });
        assert_eq!(of(Some(-0.12)), "; the median gets 12 % higher in return");
        assert_eq!([of(Some(-0.04)), of(Some(0.3)), of(None)], ["", "", ""]);
        let of = |p50| lower_median(Gain { p50, p99: Some(0.01), p999: None });
        assert_eq!([of(Some(0.29)), of(Some(0.04))], [" (and the median 29 % lower)", ""]);
    }
}
