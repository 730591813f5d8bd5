//! How far the spans of traces can be trusted: clocks, times that may be another stage's, and what depends on them.

use curtail_probe::profile::{Profile, Skew, Traced, UncertainTime};
use curtail_probe::rank::{Ranking, Stage};

use super::table::Unit;
use crate::plot::format::{and, count, whole_percent};

/// Of a list, how many are shown.
const SHOWN_MAX: usize = 5;
/// A ranking depends on clocks if a share changes by more.
const DEPENDS: f64 = 0.05;

pub(super) fn notes(traces: &Traced, profile: &Profile, ranking: &Ranking) -> Vec<String> {
    let unit = Unit::of(ranking.total.mean_ns);
    let ms = |ns: f64| unit.with(ns);
    let clock = |of: &Skew| {
        let Skew { caller, callee, ahead_ns, within_ns, calls, is_steady } = of;
        let calls = count(*calls);
        if !is_steady {
            return format!(
                "{callee} against {caller}: it changes, so each of {calls} calls was corrected by itself"
            );
        }
        let way = if *ahead_ns < 0 { "behind" } else { "ahead of" };
        let (apart, within) = (ms(ahead_ns.unsigned_abs() as f64), ms(*within_ns as f64));
        format!("{callee} is {apart} {way} {caller} (± {within}, from {calls} calls)")
    };
    let uncertainty = |of: &UncertainTime| {
        let UncertainTime { stage, why, spans, mean_ns, variance_share } = of;
        format!(
            "of {} up to {} per request and {} of the variance ({}, {} spans)",
            profile.stages[*stage],
            ms(*mean_ns),
            whole_percent(variance_share.max(0.0)),
            why.text(),
            count(*spans)
        )
    };
    let listed = [
        ("clocks differ, and were corrected: ", shown(traces.clocks.iter().map(clock))),
        ("self time that may be another's: ", shown(traces.uncertain.iter().map(uncertainty))),
    ];
    let listed = listed.into_iter().filter(|(_, list)| !list.is_empty());
    listed.map(|(what, list)| what.to_owned() + &list).chain(depends(ranking)).collect()
}

fn shown(list: impl Iterator<Item = String>) -> String {
    let mut list: Vec<String> = list.collect();
    let more = list.len().saturating_sub(SHOWN_MAX);
    list.truncate(SHOWN_MAX);
    if more > 0 {
        list.push(format!("{} more", count(more as u64)));
    }
    and(list)
}

/// Which places in the ranking depend on the correction of clocks.
fn depends(ranking: &Ranking) -> Option<String> {
    let share = |of: &Stage| of.uncorrected_share.unwrap_or(of.variance_share);
    let moved = ranking.stages.iter().filter(|of| (share(of) - of.variance_share).abs() > DEPENDS);
    let moved = moved.map(|of| {
        format!(
            "{} ({} without, {} with)",
            of.name,
            whole_percent(share(of)),
            whole_percent(of.variance_share)
        )
    });
    let moved = shown(moved);
    let other = ranking.stages.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
    let other = other.filter(|of| Some(&of.name) != ranking.stages.first().map(|of| &of.name));
    let other = other.map_or(String::new(), |of| format!("; {} would come first without", of.name));
    (!moved.is_empty()).then(|| format!("on that correction depend the shares of {moved}{other}"))
}
