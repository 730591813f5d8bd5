//! Gives advice on hedging: whether it helps, by how much at most, with which policy, and up to
//! which load.
//!
//! At the given load, [`advise`] simulates LÆDGE and rescue, in the variants that the servers
//! allow, and per-shard queuing, which is the best policy without second copies. Two yardsticks are
//! simulated alongside them: Idealized Hedge, and the bound O1, which no policy with first-come,
//! first-served servers can beat. Delayed hedges that pick the replica with the fewest outstanding
//! copies are simulated as rivals. Then the best variant is simulated over all loads, to find the
//! load above which it gains nothing. The confidence in the gain comes from the replications. If
//! the times are samples, it also covers the dependence of the gain on the samples.
//!
//! The cost is a fixed number of simulated queries, which does not depend on the service. The
//! answer to a question is therefore the same on every machine. The simulation takes a few seconds
//! on two cores.

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

use curtail_kernel::hedge::{DELAYED, LAEDGE, Version};
use curtail_kernel::{Arguments, Policy};
use serde::Serialize;

use crate::candidate::Candidate;
use crate::compare::{PERCENTILES, compare};
use crate::error::{Error, shown, wrong};
use crate::experiment::{Experiment, UNIT_NS, UtilizationOf};
use crate::figures::Figures;
use crate::outcome::Outcome;
use crate::parallel::Plan;
use curtail_stats::student;

pub use curve::Point;
pub use hiccups::Hiccups;
pub use measured::{Measured, SampleSummary};
pub use rival::Rival;
pub use samples::{Found, find_hiccups};
pub use sure::resampled;
pub use times::{FOUND, J, P, Repeated, Times};

/// The p99 is unsettled if half the width of its confidence interval exceeds this share of it. In
/// that case, it depends on events that are too rare for a simulation of this length, or whose
/// effects last too long.
pub const UNSETTLED: f64 = 0.25;

/// A p99 gain below this value justifies neither second copies nor a larger number of them.
pub const WORTH: f64 = 0.05;

/// If the p99s of two policies differ by less than this share, their p99.9s are compared instead.
const ALIKE: f64 = 0.01;

/// The simulation budget at the given load, expressed as a number of queries under per-shard
/// queuing.
const QUERIES: f64 = 40e6;

/// The number of independent replications at the given load.
const REPLICATIONS: u32 = 6;

/// The degrees of freedom of the mean of the replications.
const FREEDOM: usize = REPLICATIONS as usize - 1;

/// Minimum confidence that a verdict would also hold for other samples of the same service.
const SURE: f64 = 0.9;

/// If the mean jitter exceeds this multiple of the mean service time, utilizations include the
/// jitter, because they would all be near 0 without it.
const MOSTLY_JITTER: f64 = 4.0;

/// Upper limit on the confidence of a simulation.
const MOST_CONFIDENT: f64 = 0.999;

/// Requests per replication. The minimum ensures that ten measured requests are above p99.
const REQUESTS: std::ops::RangeInclusive<f64> = 1_200.0..=400_000.0;

/// The number of warm-up queries after which a policy has learned everything, even at high loads,
/// where replicas are seldom idle. The question is about a service that runs for days, not about
/// its first minutes.
const LEARNED: f64 = 100_000.0;

/// A question about a service.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The service at the given load. Its requests and replications are not used.
    pub experiment: &'a Experiment,
    /// Whether its replicas can stop a query.
    pub cancel: bool,
    /// Amount of simulation. With a value of 1, the answer takes about as long as a person is
    /// willing to wait.
    pub effort: f64,
    /// Variants of the experiment whose samples are drawn from its own ([`resampled`],
    /// [`Times::resampled`]). The variants show how much the gain depends on the samples. Empty if
    /// there are no samples.
    pub resampled: &'a [Experiment],
    /// The addresses of the replicas of each shard, for the configuration. Empty if they are
    /// unknown.
    pub replicas_at: &'a [Vec<SocketAddr>],
}

/// One figure per percentile. `None` if the percentile has too few samples or a policy is unstable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ByPercentile<T> {
    /// The figure for the median.
    pub p50: Option<T>,
    /// The figure for the 99th percentile.
    pub p99: Option<T>,
    /// The figure for the 99.9th percentile.
    pub p999: Option<T>,
}

impl<T> ByPercentile<T> {
    fn of(figure: impl Fn(f64) -> Option<T>) -> Self {
        Self { p50: figure(50.0), p99: figure(99.0), p999: figure(99.9) }
    }
}

/// Relative reductions of latency: 0.4 means that latency is 40 % lower. A reduction is negative if
/// latency grows.
pub type Gain = ByPercentile<f64>;

/// 95 % confidence intervals of relative reductions.
pub type GainIntervals = ByPercentile<[f64; 2]>;

/// The latencies of one policy at the given load, in the unit of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The name of the policy.
    pub policy: String,
    /// Whether it reaches a steady state.
    pub stable: bool,
    /// The median latency of requests.
    pub p50: Option<f64>,
    /// The 99th percentile of request latency.
    pub p99: Option<f64>,
    /// The 99.9th percentile of request latency.
    pub p999: Option<f64>,
    /// Half the width of the 95 % confidence interval of p99. If the times are samples, only
    /// per-shard queuing, the best policy and the bound have an interval.
    pub p99_ci95: Option<f64>,
    /// Copies per query.
    pub copies_per_query: Option<f64>,
}

/// The answer to a question.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Whether hedging pays at the given load.
    pub hedge: bool,
    /// The recommended policy.
    pub policy: String,
    /// The best policy that hedges, whether it pays or not.
    pub hedging_policy: String,
    /// Its gain over per-shard queuing.
    pub gain: Gain,
    /// The confidence intervals of the gain. They include the randomness of the simulation and of
    /// the samples.
    pub gain_ci95: GainIntervals,
    /// The gain that no policy can exceed (O1).
    pub bound: Gain,
    /// The gain of Idealized Hedge.
    pub idealized: Gain,
    /// The load above which the hedging policy is no longer faster than per-shard queuing. The p99
    /// curves cross at this load, which is between the last simulated load at which hedging is
    /// significantly faster and the next one. `None` if hedging is never faster. It is the highest
    /// load of the curve if hedging is still faster there.
    pub stop_above_utilization: Option<f64>,
    /// Whether the answer is settled. It is false if other samples of the same service might lead
    /// to a different answer. In that case, the recommended policy is per-shard queuing.
    pub settled: bool,
    /// The probability that the verdict is right, given the randomness of the simulation and of the
    /// samples. It is at most 0.999.
    pub confidence: f64,
    /// The reasons, as text.
    pub because: String,
    /// The best delayed hedge, and whether it is as good as the recommended policy.
    pub rival: Rival,
    /// A configuration for `curtail proxy`, or a part of one if the replicas' addresses are
    /// unknown.
    pub config: String,
    /// The utilization that the question specifies.
    pub utilization: f64,
    /// The work that utilizations include: `total` if the question uses it, or if nearly all of the
    /// time is jitter.
    pub utilization_of: UtilizationOf,
    /// Requests per second at this utilization, if the times have units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The unit of latencies: `ms`, or `1` for the experiment's own unit.
    pub unit: &'static str,
    /// The hiccups in the jitter.
    pub hiccups: Hiccups,
    /// The latencies of all simulated policies at the given load.
    pub latencies: Vec<Latency>,
    /// The p99s as a function of load.
    pub curve: Vec<Point>,
}

/// An answer as a JSON document.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// The answer.
    #[serde(flatten)]
    pub advice: Advice,
    /// The summary of the samples, if the question has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<SampleSummary>,
}

/// Returns the number of requests that [`advise`] counts in [`Plan::progress`]. Each request
/// consists of one query per shard.
pub fn total(question: &Question<'_>) -> u64 {
    // A question with invalid candidates is not answered, so its number of requests does not
    // matter.
    let candidates = candidates(question).unwrap_or_default();
    let here = sized(question.experiment, &candidates, REPLICATIONS, QUERIES * question.effort);
    crate::compare::total(&here, &candidates) + curve::total(question) + sure::total(question)
}

/// Returns the candidates at the given load: per-shard queuing, the policies that hedge, their
/// rivals, and the two yardsticks.
fn candidates(question: &Question<'_>) -> Result<Vec<Candidate>, Error> {
    let psq = Candidate::Policy(Policy::PSQ);
    let yardsticks = [Candidate::Idealized, Candidate::O1];
    let rivals = rival::rivals(question.experiment, question.cancel)?;
    Ok([&[psq], &hedgers(question.cancel)[..], &rivals, &yardsticks].concat())
}

/// Answers a question. Returns `None` if it was stopped.
pub fn advise(question: &Question<'_>, plan: &Plan<'_>) -> Result<Option<Advice>, Error> {
    let experiment = question.experiment;
    let mostly_jitter = is_mostly_jitter(experiment);
    if experiment.utilization_with_jitter() >= 1.0 {
        return Err(overloaded(experiment, mostly_jitter));
    }
    if mostly_jitter && experiment.utilization_of == UtilizationOf::Mean {
        // Ask again with the same request rate, but with utilizations that include the jitter.
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
    let compared =
        sure::Here { experiment: &here, outcomes: [&outcomes[0], best, &outcomes[bound]] };
    let Some(sure) = sure::sure(question, candidates[at], compared, &plan)? else {
        return Ok(None);
    };
    let (pays, by_simulation) = verdict(&outcomes[0], best);
    let confidence = sure.confidence.map_or(by_simulation, |of| of.min(by_simulation));
    // The verdict is also unsettled if hedging is just as likely to increase p99.
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

/// Whether P is negligible compared with J.
fn is_mostly_jitter(experiment: &Experiment) -> bool {
    experiment.mean_jitter() > MOSTLY_JITTER * experiment.service.mean()
}

/// Returns the error for a load above the replicas' capacity.
fn overloaded(experiment: &Experiment, mostly_jitter: bool) -> Error {
    let busy = 100.0 * experiment.utilization_with_jitter();
    let with = if experiment.jitter.is_some() { "with the jitter " } else { "" };
    let fix = match mostly_jitter && experiment.utilization_of == UtilizationOf::Mean {
        true => {
            "; nearly all of the time is jitter, so count it in the utilization (utilization-of \
             total)"
        }
        false => "",
    };
    let allowed = format!("less: {with}replicas would be busy {busy:.0} % of the time{fix}");
    wrong("utilization", shown(experiment.utilization), allowed)
}

/// Returns the deployable policies that hedge.
fn hedgers(cancel: bool) -> Vec<Candidate> {
    let (laedge, rescue): (&[usize], &[Version]) = if cancel {
        (&[0, 1, 2], &[Version::Cleanup, Version::Preempt])
    } else {
        (&[0], &[Version::NoCancel])
    };
    let laedge = laedge.iter().map(|&form| Policy::hedged(LAEDGE.with(Arguments::form(form))));
    let rescue = rescue.iter().map(|&version| Policy::rescue(version));
    laedge.chain(rescue).map(Candidate::Policy).collect()
}

/// Returns the index of the best outcome among policies that hedge. The best outcome has the lowest
/// p99 or, among outcomes with a similar p99 ([`ALIKE`]), the lowest p99.9. A policy whose p99 is
/// only slightly higher ([`WORTH`]) is preferred if it also pays and sends at most half as many
/// second copies. An unstable policy is chosen only if all policies are unstable.
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

/// Returns the approximate cost of simulating a query, relative to per-shard queuing.
fn cost(candidate: &Candidate) -> f64 {
    match candidate.policy().hedge() {
        // Rivals are not included in the cost. Otherwise they would shorten the runs of the other
        // candidates.
        Some(hedge) if hedge.is(&DELAYED) => 0.0,
        Some(hedge) => (hedge.of.builds.simulation_cost)(&hedge.arguments),
        None => 1.0,
    }
}

/// Returns the experiment with as many requests as a budget of `queries` allows.
fn sized(
    experiment: &Experiment,
    candidates: &[Candidate],
    replications: u32,
    queries: f64,
) -> Experiment {
    let cost: f64 = candidates.iter().map(cost).sum();
    let requests = queries / cost / f64::from(replications) / f64::from(experiment.world.shards());
    let requests = requests.clamp(*REQUESTS.start(), *REQUESTS.end());
    let most = (0.5 * requests).min(requests - 0.9 * REQUESTS.start());
    let warm_up = (LEARNED / f64::from(experiment.world.shards())).min(most).max(0.1 * requests);
    Experiment {
        requests: requests as u64,
        warm_up: warm_up as u64,
        replications,
        // Advice assumes that the service and its load do not change.
        world: experiment.world.unchanged(),
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

/// The facts from which the verdict and its reasons are derived.
struct Facts<'a> {
    hiccups: Hiccups,
    /// The means of P and J, in the unit of the experiment.
    means: [f64; 2],
    /// Whether utilizations include the jitter.
    of_total: bool,
    psq: &'a Outcome,
    best: &'a Outcome,
    bound: &'a Outcome,
    stop_above: Option<f64>,
    /// The highest load of the curve.
    highest: f64,
    shards: u32,
    replicas: u32,
    utilization: f64,
    /// Requests per second, if the times have units.
    rate: Option<f64>,
    /// Whether the replicas can stop a query.
    cancel: bool,
    /// The number of copies per query under the policy that sends the most copies. This number
    /// shows how many copies the replicas have time for.
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
        let copies = outcomes[1..=hedgers(question.cancel).len()].iter();
        Self {
            hiccups: Hiccups::of(experiment),
            means: [experiment.service.mean(), experiment.mean_jitter()]
                .map(|ns| ns / UNIT_NS as f64),
            of_total: experiment.utilization_of == UtilizationOf::Total,
            psq: &outcomes[0],
            best,
            bound: &outcomes[outcomes.len() - 1],
            stop_above: curve.stop_above,
            highest: curve.highest(),
            shards: experiment.world.shards(),
            replicas: experiment.world.servers(),
            utilization: experiment.utilization,
            rate: experiment.has_units.then(|| 1e9 / experiment.gap_ns()),
            cancel: question.cancel,
            most_copies: copies.filter_map(|of| of.copies_per_query).fold(1.0, f64::max),
        }
    }

    /// Returns the gain of a policy over per-shard queuing.
    fn gain(&self, of: &Outcome) -> Gain {
        let gain = |percentile| {
            let (ours, psq) = figure(of, percentile).zip(figure(self.psq, percentile))?;
            Some(1.0 - ours / psq)
        };
        Gain::of(gain)
    }
}

/// Returns whether hedging with the best policy pays, and the confidence in this verdict. The
/// confidence depends on the distance of the p99 gain from the threshold [`WORTH`], in standard
/// errors. The standard error is computed from the paired differences. If p99 itself is unsettled,
/// the error is at least the standard error of p99. In that case, p99 depends on events that are
/// too rare for these runs. In each run, either both policies met such events or neither did, so
/// the paired differences understate the error.
fn verdict(psq: &Outcome, best: &Outcome) -> (bool, f64) {
    let versus = best.versus_first.as_ref();
    let half_width = |ci95: Option<&Figures>| ci95.and_then(|ci95| ci95.percentile(99.0));
    let paired = half_width(versus.map(|versus| &versus.ci95));
    let p99 = figure(psq, 99.0).zip(figure(best, 99.0));
    let alone = half_width(psq.ci95.as_ref());
    let unsettled = alone.zip(p99).filter(|(alone, (psq, _))| *alone > UNSETTLED * psq);
    let widest = paired.map(|paired| unsettled.map_or(paired, |(alone, _)| paired.max(alone)));
    let Some(((psq, best), half_width)) = p99.zip(widest) else {
        // A stable policy is certainly better than an unstable one.
        return (best.stable && !psq.stable, MOST_CONFIDENT);
    };
    let margin = psq - best - WORTH * psq;
    // The half width is this quantile times the standard error.
    let error = (half_width / student::quantile(FREEDOM)).max(f64::MIN_POSITIVE);
    let confidence = student::below(FREEDOM, margin.abs() / error);
    (margin > 0.0, confidence.min(MOST_CONFIDENT))
}
