//! Traces with the same root, as a profile.
//!
//! Only traces of the same request can be compared, so the others are left out, and counted. The stages that vary most are
//! kept, and the others are one stage in sum, which changes neither the total nor the covariances of those kept.

use std::collections::BTreeMap;

use super::TracesError;
use super::critical::Path;
use crate::profile::{Profile, WHOLE_MAX, Whole};

/// Windows are blocks of at least so many traces, unless that were fewer than [`WINDOWS_LEAST`].
const WINDOW_TRACES: usize = 8;
/// If there are as many traces.
const WINDOWS_LEAST: usize = 8;
/// More would only be noisier.
const WINDOWS_MOST: usize = 64;
/// Of so many traces, the slowest is kept.
const SLOW_ONE_IN: usize = 20;
/// Of an error, how many roots it names.
const NAMED_MAX: usize = 8;

/// The roots and how many traces have them, most frequent first.
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

/// The profile, and what was left out of it.
pub(super) fn profile(
    paths: &[Path],
    names: &[String],
    root: Option<&str>,
    stages_max: usize,
) -> Result<(Profile, Option<(String, u64)>), TracesError> {
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
    Ok((profile, left_out))
}

/// The stages that vary most, in the order in which traces pass them on average, and how many others there are.
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
    for part in paths.iter().flat_map(|path| &path.parts) {
        let sums = sums.entry(part.stage).or_default();
        sums.count += 1.0;
        let delta = part.self_ns as f64 - sums.mean;
        sums.mean += delta / sums.count;
        sums.squares += delta * (part.self_ns as f64 - sums.mean);
        sums.first += part.first_ns as f64;
    }
    let all = paths.len() as f64;
    // Where a trace does not have the stage, its value is 0.
    let varies = |of: &Sums| of.squares + of.mean * of.mean * of.count * (all - of.count) / all;
    let mut order: Vec<(f64, f64, u32)> =
        sums.iter().map(|(&stage, of)| (varies(of), of.first / of.count, stage)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let rest = order.len().saturating_sub(max);
    order.truncate(max);
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    (order.into_iter().map(|(.., stage)| stage).collect(), rest)
}

/// Windows and whole requests of traces in order of time.
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
    // Of a sequence, every so many are as good as random ones.
    let step = wholes.len().div_ceil(WHOLE_MAX).max(1);
    profile.sampled = wholes.into_iter().step_by(step).collect();
}

/// A trace's values of the stages that are kept, and of the others in sum where they are a stage.
fn whole(path: &Path, kept: &[u32], stages: usize, begin: u64) -> Whole {
    let mut stages_ns = vec![0; stages];
    for part in &path.parts {
        // The others are last; without any, every stage is kept.
        let at = kept.iter().position(|&stage| stage == part.stage).unwrap_or(stages - 1);
        stages_ns[at] += part.self_ns;
    }
    Whole { start_ns: path.start_ns - begin, stages_ns, evidence: Vec::new() }
}
