//! Would hedging help, how much at most, with which policy, and up to which load?
//!
//! LÆDGE and rescue, in the variants that the servers allow, are simulated at the load at hand beside
//! per-shard queuing, which is the best that can be done without second copies, and two yardsticks:
//! Idealized Hedge, and the bound O1, which no policy can beat whose servers work first come, first
//! served. Delayed hedges over least outstanding run beside them, as rivals. The best variant is then followed over all loads, to find the one beyond which it gains
//! nothing. How sure the gain is follows from the replications, and where times are samples from how
//! much it depends on them.
//!
//! Cost: a fixed number of simulated queries, whatever the service, so that the same question has
//! the same answer on every machine: a few seconds on two cores.

mod config;
mod curve;
mod hiccups;
mod measured;
mod reasons;
mod rival;
mod samples;
mod sure;
mod times;

use std::net::SocketAddr;

use curtail_dist::Distribution;
use curtail_kernel::hedge::{Cancellation, Version};
use curtail_kernel::{HedgeSpec, Policy};
use serde::Serialize;

use crate::candidate::Candidate;
use crate::compare::{PERCENTILES, compare};
use crate::error::{Error, shown};
use crate::experiment::{Experiment, UNIT_NS, UtilizationOf};
use crate::figures::Figures;
use crate::outcome::Outcome;
use crate::parallel::Plan;
use crate::student;

pub use curve::Point;
pub use hiccups::Hiccups;
pub use measured::{Measured, SampleSummary};
pub use rival::Rival;
pub use samples::{Found, find_hiccups};
pub use sure::resampled;
pub use times::{FOUND, J, P, Repeated, Times};

/// Half of the confidence interval of p99 that is a larger share of it says that p99 depends on what is
/// too rare for this much simulation, or is remembered for too long.
pub const UNSETTLED: f64 = 0.25;

/// A gain of p99 below this is not worth second copies, or more of them.
pub const WORTH: f64 = 0.05;

/// Policies whose p99 differs by less are compared by p99.9.
const ALIKE: f64 = 0.01;

/// Simulated queries for the load at hand, in those of per-shard queuing.
const QUERIES: f64 = 40e6;

/// Independent replications there.
const REPLICATIONS: u32 = 6;

/// Degrees of freedom of their mean.
const FREEDOM: usize = REPLICATIONS as usize - 1;

/// A verdict that other samples of the same service would overturn more often than that is none.
const SURE: f64 = 0.9;

/// With more jitter than this many times the service, utilizations count the jitter: those without it
/// would all be near 0.
const MOSTLY_JITTER: f64 = 4.0;

/// No simulation is surer than that.
const MOST_CONFIDENT: f64 = 0.999;

/// Requests of a replication: at the least so many that ten of those that count are above p99.
const REQUESTS: std::ops::RangeInclusive<f64> = 1_200.0..=400_000.0;

/// Queries by which a policy has learned what there is to know, also at high loads, where replicas are
/// seldom idle: a service that runs for days is asked about, and not its first minutes.
const LEARNED: f64 = 100_000.0;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The service at the load at hand. Its requests and replications are not used.
    pub experiment: &'a Experiment,
    /// Can its replicas stop a query?
    pub cancel: bool,
    /// How much to simulate; 1 is what a person waits for.
    pub effort: f64,
    /// The same of samples that were drawn from its samples ([`resampled`], [`Times::resampled`]): how
    /// much the gain depends on them. Empty where nothing was sampled.
    pub resampled: &'a [Experiment],
    /// Where the replicas of each shard are, for the configuration; empty where they are not known.
    pub replicas_at: &'a [Vec<SocketAddr>],
}

/// A figure of each percentile; none where that percentile is not known, or a policy is unstable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ByPercentile<T> {
    /// Of the median.
    pub p50: Option<T>,
    /// Of the 99th percentile.
    pub p99: Option<T>,
    /// Of the 99.9th.
    pub p999: Option<T>,
}

impl<T> ByPercentile<T> {
    fn of(figure: impl Fn(f64) -> Option<T>) -> Self {
        Self { p50: figure(50.0), p99: figure(99.0), p999: figure(99.9) }
    }
}

/// Relative reductions of latency: 0.4 is 40 % less. Negative where latency grows.
pub type Gain = ByPercentile<f64>;

/// 95 % confidence intervals of relative reductions.
pub type GainIntervals = ByPercentile<[f64; 2]>;

/// What one policy comes to at the load at hand, in the unit of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Its name.
    pub policy: String,
    /// Does it reach a steady state?
    pub stable: bool,
    /// The median of requests.
    pub p50: Option<f64>,
    /// Their 99th percentile.
    pub p99: Option<f64>,
    /// Their 99.9th.
    pub p999: Option<f64>,
    /// Half of the 95 % confidence interval of p99. With samples it is known of per-shard queuing, the
    /// best policy and the bound alone.
    pub p99_ci95: Option<f64>,
    /// Copies per query.
    pub copies_per_query: Option<f64>,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Does hedging pay here?
    pub hedge: bool,
    /// What to run.
    pub policy: String,
    /// The best policy that hedges, whether it pays or not.
    pub hedging_policy: String,
    /// What it gains over per-shard queuing.
    pub gain: Gain,
    /// How sure that is, as far as it depends on chance, in the simulation and in the samples.
    pub gain_ci95: GainIntervals,
    /// What no policy can exceed (O1).
    pub bound: Gain,
    /// What Idealized Hedge gains.
    pub idealized: Gain,
    /// The load from which on the hedging policy is no longer faster than per-shard queuing: where
    /// the figures cross, between the last load at which it is faster beyond chance and the next one.
    /// None where it never is, the highest one of the curve where it still is there.
    pub stop_above_utilization: Option<f64>,
    /// False where other samples of the same service might well lead to another answer. Then what to run is
    /// per-shard queuing, because nothing speaks for more.
    pub settled: bool,
    /// The probability that the verdict is right, as far as it depends on chance, in the simulation and in
    /// the samples; up to 0.999.
    pub confidence: f64,
    /// Why, in words.
    pub because: String,
    /// The best delayed hedge, and whether it is as good as what is advised.
    pub rival: Rival,
    /// A configuration of `curtail proxy`; a part of one where the replicas are not known.
    pub config: String,
    /// The utilization that was asked about.
    pub utilization: f64,
    /// What utilizations count: `total` where that was asked, or where nearly all of the time is jitter.
    pub utilization_of: UtilizationOf,
    /// The requests per second that it comes to, where times have units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// What latencies are in: `ms`, or `1` for the experiment's own unit.
    pub unit: &'static str,
    /// The hiccups that the jitter holds.
    pub hiccups: Hiccups,
    /// What was simulated at the load at hand.
    pub latencies: Vec<Latency>,
    /// p99 over the load.
    pub curve: Vec<Point>,
}

/// An answer as a document.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// The answer.
    #[serde(flatten)]
    pub advice: Advice,
    /// What the samples hold, where the question came with some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<SampleSummary>,
}

/// How many requests [`advise`] will count in [`Plan::progress`]: each is a query to every shard.
pub fn total(question: &Question<'_>) -> u64 {
    // Without its candidates a question has no answer either.
    let candidates = candidates(question).unwrap_or_default();
    let here = sized(question.experiment, &candidates, REPLICATIONS, QUERIES * question.effort);
    crate::compare::total(&here, &candidates) + curve::total(question) + sure::total(question)
}

/// What is simulated at the load at hand: per-shard queuing, the policies that hedge, their rivals, and
/// the two yardsticks.
fn candidates(question: &Question<'_>) -> Result<Vec<Candidate>, Error> {
    let psq = Candidate::Policy(Policy::PSQ);
    let yardsticks = [Candidate::Idealized, Candidate::O1];
    let rivals = rival::rivals(question.experiment, question.cancel)?;
    Ok([&[psq], &hedgers(question.cancel)[..], &rivals, &yardsticks].concat())
}

/// Answers; `None` where it was stopped.
pub fn advise(question: &Question<'_>, plan: &Plan<'_>) -> Result<Option<Advice>, Error> {
    let experiment = question.experiment;
    let mostly_jitter = is_mostly_jitter(experiment);
    if experiment.utilization_with_jitter() >= 1.0 {
        return Err(overloaded(experiment, mostly_jitter));
    }
    if mostly_jitter && experiment.utilization_of == UtilizationOf::Mean {
        // The same rate of requests.
        let utilization = experiment.utilization_with_jitter();
        let of_total =
            Experiment { utilization, utilization_of: UtilizationOf::Total, ..experiment.clone() };
        return advise(&Question { experiment: &of_total, ..*question }, plan);
    }
    let hedgers = hedgers(question.cancel);
    let candidates = candidates(question)?;
    let here = sized(experiment, &candidates, REPLICATIONS, QUERIES * question.effort);
    let plan = Plan { percentiles: &PERCENTILES, ..*plan };
    let Some(outcomes) = compare(&here, &candidates, &plan)? else { return Ok(None) };
    let at = 1 + best(&outcomes[0], &outcomes[1..=hedgers.len()]);
    let best = &outcomes[at];
    let bound = candidates.len() - 1;
    let compared = (&here, [&outcomes[0], best, &outcomes[bound]]);
    let Some(sure) = sure::sure(question, candidates[at], compared, &plan)? else {
        return Ok(None);
    };
    let (pays, by_simulation) = verdict(&outcomes[0], best);
    let confidence = sure.confidence.map_or(by_simulation, |of| of.min(by_simulation));
    // A yes that may as well cost something is none either.
    let may_lose = sure.gain_ci95.p99.is_some_and(|[low, _]| pays && low < 0.0);
    let settled = sure.confidence.is_none_or(|by_samples| by_samples >= SURE && !may_lose);
    let hedge = pays && settled;
    let curve = curve::curve(question, candidates[at], pays, &plan)?;
    let Some(curve) = curve else { return Ok(None) };
    let facts = Facts::new(question, &outcomes, best, &curve);
    let mut latencies: Vec<Latency> = outcomes.iter().map(latency).collect();
    if sure.confidence.is_some() {
        latencies.iter_mut().for_each(|row| row.p99_ci95 = None);
        for (place, half) in [0, at, bound].into_iter().zip(sure.p99_half) {
            latencies[place].p99_ci95 = half;
        }
    }
    let advised = if hedge { best } else { facts.psq };
    let beside = &latencies[if pays { at } else { 0 }];
    let rival = rival::rival(&latencies[1 + hedgers.len()..candidates.len() - 2], beside, pays);
    let second_copies = advised.copies_per_query.unwrap_or(1.0) - 1.0;
    let p999_ms = figure(facts.psq, 99.9).filter(|_| best.unit == "ms");
    Ok(Some(Advice {
        hedge,
        config: config::config(question, &advised.policy, second_copies, p999_ms),
        utilization: experiment.utilization,
        utilization_of: experiment.utilization_of,
        rate: facts.rate,
        policy: advised.policy.clone(),
        hedging_policy: best.policy.clone(),
        gain: facts.gain(best),
        gain_ci95: sure.gain_ci95,
        bound: facts.gain(facts.bound),
        idealized: facts.gain(&outcomes[candidates.len() - 2]),
        stop_above_utilization: curve.stop_above,
        settled,
        confidence,
        because: reasons::because(&facts, settled.then_some(pays)) + &reasons::conditions(advised),
        rival,
        unit: best.unit,
        hiccups: facts.hiccups,
        latencies,
        curve: curve.points,
    }))
}

/// Is P next to nothing beside J?
fn is_mostly_jitter(experiment: &Experiment) -> bool {
    let jitter = experiment.jitter.as_ref().map_or(0.0, Distribution::mean);
    jitter > MOSTLY_JITTER * experiment.service.mean()
}

/// The load is more than the replicas can carry.
fn overloaded(experiment: &Experiment, mostly_jitter: bool) -> Error {
    let busy = 100.0 * experiment.utilization_with_jitter();
    let with = if experiment.jitter.is_some() { "with the jitter " } else { "" };
    let fix = match mostly_jitter && experiment.utilization_of == UtilizationOf::Mean {
        true => {
            "; nearly all of the time is jitter, so give the utilization with it (utilization-of total)"
        }
        false => "",
    };
    Error::OutOfRange {
        name: "utilization",
        value: shown(experiment.utilization),
        allowed: format!("less: {with}replicas would have to be busy {busy:.0} % of the time{fix}"),
    }
}

/// The policies with second copies that can be deployed.
fn hedgers(cancel: bool) -> Vec<Candidate> {
    use Cancellation::{Cleanup, Plain, Preemptive};
    let (laedge, rescue): (&[Cancellation], &[Version]) = if cancel {
        (&[Plain, Cleanup, Preemptive], &[Version::Cleanup, Version::Preempt])
    } else {
        (&[Plain], &[Version::NoCancel])
    };
    let laedge = laedge.iter().map(|&cancellation| Policy::from(cancellation));
    let rescue = rescue.iter().map(|&version| Policy::from(version));
    laedge.chain(rescue).map(Candidate::Policy).collect()
}

/// The one with the lowest p99, of those that are alike there ([`ALIKE`]) the lowest p99.9; or one that
/// comes as close to it as makes no difference ([`WORTH`]) with at most half of the second copies, if it
/// pays by itself. An unstable one is the last choice. Its place among `outcomes`, those that hedge.
fn best(psq: &Outcome, outcomes: &[Outcome]) -> usize {
    let p99 = |outcome: &Outcome| figure(outcome, 99.0).unwrap_or(f64::INFINITY);
    let p999 = |outcome: &Outcome| figure(outcome, 99.9).unwrap_or(f64::INFINITY);
    let second = |outcome: &Outcome| outcome.copies_per_query.unwrap_or(f64::INFINITY) - 1.0;
    let all = || outcomes.iter().enumerate();
    let least = outcomes.iter().map(p99).fold(f64::INFINITY, f64::min);
    let alike = all().filter(|(_, outcome)| p99(outcome) <= (1.0 + ALIKE) * least);
    let lowest = alike.min_by(|(_, a), (_, b)| p999(a).total_cmp(&p999(b)));
    let lowest = lowest.expect("there is a policy that hedges");
    let close = |outcome: &Outcome| p99(outcome) <= (1.0 + WORTH) * p99(lowest.1);
    let pays = |outcome: &Outcome| p99(outcome) < (1.0 - WORTH) * p99(psq);
    let few = |outcome: &Outcome| second(outcome) <= 0.5 * second(lowest.1);
    let cheap = all().filter(|(_, outcome)| close(outcome) && pays(outcome) && few(outcome));
    cheap.min_by(|(_, a), (_, b)| second(a).total_cmp(&second(b))).unwrap_or(lowest).0
}

/// What a query costs to simulate, in those of per-shard queuing; roughly.
fn cost(candidate: &Candidate) -> f64 {
    match candidate {
        Candidate::Idealized => 4.5,
        candidate => match candidate.policy().hedge() {
            Some(HedgeSpec::Laedge(Cancellation::Preemptive) | HedgeSpec::Rescue(_)) => 3.5,
            Some(HedgeSpec::Laedge(_)) => 2.5,
            // Rivals come on top: they shorten no run of the others.
            Some(HedgeSpec::LearnedDelay(_) | HedgeSpec::Delayed(_)) => 0.0,
            _ => 1.0,
        },
    }
}

/// The experiment with as many requests as `queries` allow.
fn sized(
    experiment: &Experiment,
    candidates: &[Candidate],
    replications: u32,
    queries: f64,
) -> Experiment {
    let cost: f64 = candidates.iter().map(cost).sum();
    let requests = queries / cost / f64::from(replications) / f64::from(experiment.shards);
    let requests = requests.clamp(*REQUESTS.start(), *REQUESTS.end());
    let most = (0.5 * requests).min(requests - 0.9 * REQUESTS.start());
    let warm_up = (LEARNED / f64::from(experiment.shards)).min(most).max(0.1 * requests);
    Experiment {
        requests: requests as u64,
        warm_up: warm_up as u64,
        replications,
        // Advice is about one world.
        change: None,
        windows: None,
        ..experiment.clone()
    }
}

fn figure(outcome: &Outcome, percentile: f64) -> Option<f64> {
    outcome.request.as_ref().and_then(|figures| figures.percentile(percentile))
}

fn latency(outcome: &Outcome) -> Latency {
    let of = |percentile| figure(outcome, percentile);
    let ci95 = outcome.ci95.as_ref().and_then(|widths: &Figures| widths.percentile(99.0));
    Latency {
        policy: outcome.policy.clone(),
        stable: outcome.stable,
        p50: of(50.0),
        p99: of(99.0),
        p999: of(99.9),
        p99_ci95: ci95,
        copies_per_query: outcome.copies_per_query,
    }
}

/// What the verdict and its reasons are made of.
struct Facts<'a> {
    hiccups: Hiccups,
    /// The means of P and J, in the unit of the experiment.
    means: [f64; 2],
    /// Utilizations count the jitter.
    of_total: bool,
    psq: &'a Outcome,
    best: &'a Outcome,
    bound: &'a Outcome,
    stop_above: Option<f64>,
    /// The highest load of the curve.
    highest: f64,
    shards: u32,
    replicas: usize,
    utilization: f64,
    /// Requests per second, where times have units.
    rate: Option<f64>,
    /// Can the replicas stop a query?
    cancel: bool,
    /// Copies per query of the policy that sends most: what there is room for.
    most_copies: f64,
}

impl<'a> Facts<'a> {
    fn new(
        question: &Question<'_>,
        outcomes: &'a [Outcome],
        best: &'a Outcome,
        curve: &curve::Curve,
    ) -> Self {
        let experiment = question.experiment;
        let jitter = experiment.jitter.as_ref().map_or(0.0, Distribution::mean);
        let copies = outcomes[1..=hedgers(question.cancel).len()].iter();
        Self {
            hiccups: Hiccups::of(experiment),
            means: [experiment.service.mean(), jitter].map(|ns| ns / UNIT_NS as f64),
            of_total: experiment.utilization_of == UtilizationOf::Total,
            psq: &outcomes[0],
            best,
            bound: &outcomes[outcomes.len() - 1],
            stop_above: curve.stop_above,
            highest: curve.highest(),
            shards: experiment.shards,
            replicas: experiment.servers.len(),
            utilization: experiment.utilization,
            rate: experiment.has_units.then(|| 1e9 / experiment.gap_ns()),
            cancel: question.cancel,
            most_copies: copies.filter_map(|of| of.copies_per_query).fold(1.0, f64::max),
        }
    }

    /// What a policy gains over per-shard queuing.
    fn gain(&self, of: &Outcome) -> Gain {
        let gain = |percentile| {
            let (ours, psq) = figure(of, percentile).zip(figure(self.psq, percentile))?;
            Some(1.0 - ours / psq)
        };
        Gain::of(gain)
    }
}

/// Does the best policy that hedges pay, and how sure is that? By how many standard errors the gain at
/// p99, as reported, is from what would just be worth it. The error is that of the paired
/// differences, and where p99 itself is unsettled at least that of it: what it depends on is too rare
/// for these runs, it happened to both policies or to neither, and the next runs would say otherwise.
fn verdict(psq: &Outcome, best: &Outcome) -> (bool, f64) {
    let versus = best.versus_first.as_ref();
    let half_width = |ci95: Option<&Figures>| ci95.and_then(|ci95| ci95.percentile(99.0));
    let paired = half_width(versus.map(|versus| &versus.ci95));
    let p99 = figure(psq, 99.0).zip(figure(best, 99.0));
    let alone = half_width(psq.ci95.as_ref());
    let unsettled = alone.zip(p99).filter(|(alone, (psq, _))| *alone > UNSETTLED * psq);
    let widest = paired.map(|paired| unsettled.map_or(paired, |(alone, _)| paired.max(alone)));
    let Some(((psq, best), half_width)) = p99.zip(widest) else {
        // An unstable policy is worse than one that is not; there is nothing to doubt.
        return (best.stable && !psq.stable, MOST_CONFIDENT);
    };
    let margin = psq - best - WORTH * psq;
    // The half width is that quantile times the standard error.
    let error = (half_width / student::quantile(FREEDOM)).max(f64::MIN_POSITIVE);
    let confidence = student::below(FREEDOM, margin.abs() / error);
    (margin > 0.0, confidence.min(MOST_CONFIDENT))
}
