//! Converts traces with the same root to a profile.
//!
//! Only traces of the same kind of request can be compared, so all other traces are left out and
//! counted. The stages that vary most are kept. All other stages are summed into one stage, which
//! changes neither the total nor the covariances of the kept stages.

use std::collections::BTreeMap;

use super::clocks::Pair;
use super::critical::Path;
use super::{Traces, TracesError, Uncertainty, why};
use crate::profile::{Profile, Skew, Traced, UncertainTime, WHOLE_MAX, Whole};
use crate::rank::over;

/// The minimum number of traces per window, unless that yields fewer than [`WINDOWS_LEAST`]
/// windows.
const WINDOW_TRACES: usize = 8;
/// The minimum number of windows if there are enough traces.
const WINDOWS_LEAST: usize = 8;
/// The maximum number of windows. A larger number would only add noise.
const WINDOWS_MOST: usize = 64;
/// The slowest 1 in N traces are kept.
const SLOW_ONE_IN: usize = 20;
/// If at least 1 in N calls of a client have a server span, a call without one counts as missing
/// its server span.
const CALLEES_ONE_IN: u32 = 20;
/// The maximum number of clock pairs in the profile.
const CLOCKS_MAX: usize = 50;
/// The maximum number of roots that an error lists.
const NAMED_MAX: usize = 8;

/// Counts the traces of each root. The most frequent root comes first.
fn roots(paths: &[Path]) -> Vec<(u32, u64)> {
    let mut counts = BTreeMap::<u32, u64>::new();
    paths.iter().for_each(|path| *counts.entry(path.root).or_default() += 1);
    let mut roots: Vec<_> = counts.into_iter().collect();
    roots.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    roots
}

fn listed(roots: &[(u32, u64)], names: &[String]) -> String {
    let named = roots.iter().take(NAMED_MAX);
    let named = named.map(|&(root, count)| format!("`{}` ({count})", names[root as usize]));
    let more = if roots.len() > NAMED_MAX { ", …" } else { "" };
    named.collect::<Vec<_>>().join(", ") + more
}

/// Returns the profile, along with the reason why traces were left out of it and their number.
pub(super) fn profile(
    of: &Traces,
    root: Option<&str>,
    stages_max: usize,
) -> Result<(Profile, Option<(String, u64)>), TracesError> {
    let (paths, names) = (&of.closed, &of.names.list);
    let mut roots = roots(paths);
    let at = match root {
        None => roots.first().map(|_| 0).ok_or(TracesError::Empty)?,
        Some(root) => {
            let at = roots.iter().position(|&(of, _)| names[of as usize] == root);
            let known = listed(&roots, names);
            at.ok_or_else(|| TracesError::NoSuchRoot { root: root.to_owned(), known })?
        }
    };
    let (root, _) = roots.remove(at);
    let others = roots.iter().map(|&(_, count)| count).sum();
    let left_out = (others > 0)
        .then(|| (format!("traces with other roots: {}", listed(&roots, names)), others));

    let mut paths: Vec<&Path> = paths.iter().filter(|path| path.root == root).collect();
    paths.sort_by_key(|path| path.start_ns);
    let (kept, rest) = stages(&paths, stages_max.max(1));
    let mut named: Vec<String> = kept.iter().map(|&stage| names[stage as usize].clone()).collect();
    if rest > 0 {
        named.push(format!("{rest} others"));
    }
    let target = format!("traces of {}", names[root as usize]);
    let mut profile = Profile { target, stages: named, ..Profile::default() };
    fill(&mut profile, &paths, &kept);
    profile.traces = Some(traced(of, profile.stages.len(), &paths, &kept));
    Ok((profile, left_out))
}

/// Returns the stages that vary most, in the order in which traces pass them on average, and the
/// number of other stages.
fn stages(paths: &[&Path], max: usize) -> (Vec<u32>, usize) {
    #[derive(Default)]
    struct Sums {
        count: f64,
        mean: f64,
        /// Σ (x − mean)², by Welford's update.
        squares: f64,
        first: f64,
    }
    let mut sums = BTreeMap::<u32, Sums>::new();
    for (stage, self_ns, first_ns) in paths.iter().flat_map(|path| path.stages()) {
        let sums = sums.entry(stage).or_default();
        sums.count += 1.0;
        let delta = self_ns as f64 - sums.mean;
        sums.mean += delta / sums.count;
        sums.squares += delta * (self_ns as f64 - sums.mean);
        sums.first += first_ns as f64;
    }
    let all = paths.len() as f64;
    // The value is 0 in a trace without the stage.
    let varies = |of: &Sums| of.squares + of.mean * of.mean * of.count * (all - of.count) / all;
    let mut order: Vec<(f64, f64, u32)> =
        sums.iter().map(|(&stage, of)| (varies(of), of.first / of.count, stage)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let rest = order.len().saturating_sub(max);
    order.truncate(max);
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    (order.into_iter().map(|(.., stage)| stage).collect(), rest)
}

/// Adds windows and whole requests, in order of time.
fn fill(profile: &mut Profile, paths: &[&Path], kept: &[u32]) {
    let begin = paths.first().map_or(0, |path| path.start_ns);
    let wholes: Vec<Whole> =
        paths.iter().map(|path| whole(path, kept, profile.stages.len(), begin)).collect();
    let total = |whole: &Whole| whole.stages_ns.iter().sum::<u64>();
    let windows = (wholes.len() / WINDOW_TRACES).clamp(WINDOWS_LEAST, WINDOWS_MOST);
    let ends =
        wholes.iter().map(|whole| whole.start_ns.saturating_add(total(whole))).max().unwrap_or(0);
    for at in 0..windows {
        let place = |at: usize| wholes.len() * at / windows;
        let block = &wholes[place(at)..place(at + 1)];
        let Some(first) = block.first() else { continue };
        let next = wholes.get(place(at + 1)).map_or(ends, |next| next.start_ns);
        let mut window = profile.window(first.start_ns, next - first.start_ns);
        for whole in block {
            let of_stages = whole.stages_ns.iter().copied();
            let values: Vec<u64> = of_stages.chain([total(whole)]).collect();
            window.moments.record(&values.iter().map(|&ns| ns as f64).collect::<Vec<_>>());
            let each = window.histograms.iter_mut().zip(&values);
            each.for_each(|(histogram, &ns)| histogram.record(ns));
        }
        profile.push(window);
    }
    let mut slow: Vec<&Whole> = wholes.iter().collect();
    slow.sort_by_key(|whole| std::cmp::Reverse(total(whole)));
    slow.truncate(wholes.len().div_ceil(SLOW_ONE_IN).min(WHOLE_MAX));
    slow.sort_by_key(|whole| whole.start_ns);
    profile.slow = slow.into_iter().cloned().collect();
    // Every n-th trace of a sequence is as good a sample as a random choice.
    let step = wholes.len().div_ceil(WHOLE_MAX).max(1);
    profile.sampled = wholes.into_iter().step_by(step).collect();
}

/// Returns the values of one trace. They are the values of the kept stages, followed by the sum of
/// the others if these form a stage.
fn whole(path: &Path, kept: &[u32], stages: usize, begin: u64) -> Whole {
    let mut stages_ns = vec![0; stages];
    for part in &path.parts {
        stages_ns[place(kept, stages, part.stage)] += part.self_ns;
    }
    Whole { start_ns: path.start_ns - begin, stages_ns, evidence: Vec::new() }
}

/// Returns the index of a stage in the profile. The sum of the other stages comes last. If there is
/// no such sum, every stage is kept.
fn place(kept: &[u32], stages: usize, stage: u32) -> usize {
    kept.iter().position(|&of| of == stage).unwrap_or(stages - 1)
}

/// Collects the results that exist only for traces.
fn traced(of: &Traces, stages: usize, paths: &[&Path], kept: &[u32]) -> Traced {
    let reasons = |(place, &stage)| why::reasons(paths, place, stage, &of.sets, &of.names.list);
    let reasons: Vec<_> = kept.iter().enumerate().flat_map(reasons).collect();
    let total = |path: &Path| path.parts.iter().map(|part| part.self_ns as f64).sum::<f64>();
    let mean = paths.iter().map(|path| total(path)).sum::<f64>() / paths.len() as f64;
    let apart: Vec<f64> = paths.iter().map(|path| total(path) - mean).collect();
    let paths: Vec<(&Path, f64)> = paths.iter().copied().zip(apart.iter().copied()).collect();
    let variance = apart.iter().map(|apart| apart * apart).sum();
    let place = |stage| place(kept, stages, stage);
    let mut uncorrected =
        vec![0.0; if paths.iter().any(|of| of.0.is_shifted) { stages } else { 0 }];
    for (path, apart) in &paths {
        for &(of, ns) in &path.unshifted {
            // The list is empty if no clock was corrected.
            uncorrected.get_mut(place(of)).into_iter().for_each(|sum| *sum += ns as f64 * apart);
        }
    }
    uncorrected.iter_mut().for_each(|share| *share = over(*share, variance));
    let uncertain = uncertain(&paths, variance, place);
    Traced { reasons, uncertain, clocks: clocks(of), uncorrected }
}

/// Collects self times that may belong to another stage, the longest first. Each path in `paths`
/// comes with the difference between its total and the mean total.
fn uncertain(
    paths: &[(&Path, f64)],
    variance: f64,
    place: impl Fn(u32) -> usize,
) -> Vec<UncertainTime> {
    let mut calls = BTreeMap::<u32, (u32, u32)>::new();
    for &(stage, with, without) in paths.iter().flat_map(|(path, _)| &path.calls) {
        let sum = calls.entry(stage).or_default();
        *sum = (sum.0 + with, sum.1 + without);
    }
    // If the server that a client calls hardly ever has a span, nothing counts as missing, because
    // only the client's time can be measured.
    let is_usual =
        |stage| calls.get(&stage).is_some_and(|&(with, without)| with > without / CALLEES_ONE_IN);
    let mut sums = BTreeMap::<(usize, Uncertainty), (u64, f64, f64)>::new();
    for (path, apart) in paths {
        for &(stage, why, ns) in &path.uncertain {
            if why != Uncertainty::MissingCallee || is_usual(stage) {
                let (spans, all_ns, together) = sums.entry((place(stage), why)).or_default();
                *spans += 1;
                *all_ns += ns as f64;
                *together += ns as f64 * apart;
            }
        }
    }
    let time = |((stage, why), (spans, ns, together)): (_, (u64, f64, f64))| {
        let (mean_ns, variance_share) = (ns / paths.len() as f64, over(together, variance));
        UncertainTime { stage, why, spans, mean_ns, variance_share }
    };
    let mut uncertain: Vec<UncertainTime> = sums.into_iter().map(time).collect();
    uncertain.sort_by(|a, b| b.mean_ns.total_cmp(&a.mean_ns));
    uncertain
}

/// Lists the differences between clocks, the largest one first.
fn clocks(of: &Traces) -> Vec<Skew> {
    let skew = |names: &[String], key: &(u32, u32), pair: &Pair| {
        let [caller, callee] = [key.0, key.1].map(|at| names[at as usize].clone());
        let &Pair { ahead_ns, within_ns, calls, is_steady, .. } = pair;
        Skew { caller, callee, ahead_ns, within_ns, calls, is_steady }
    };
    let services = of.clocks.services.iter().filter(|(_, pair)| pair.is_steady);
    let services = services.map(|(key, pair)| skew(&of.services.list, key, pair));
    let hosts = of.clocks.hosts.iter().filter(|(_, pair)| of.clocks.together(pair).is_none());
    let hosts = hosts.map(|(key, pair)| skew(&of.hosts.list, key, pair));
    let apart = services.chain(hosts).filter(|skew| skew.ahead_ns != 0 || !skew.is_steady);
    let mut skews: Vec<Skew> = apart.collect();
    skews.sort_by_key(|of| std::cmp::Reverse(of.ahead_ns.unsigned_abs()));
    skews.truncate(CLOCKS_MAX);
    skews
}
