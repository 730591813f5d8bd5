//! Notes on how far trace spans can be trusted: clock offsets, times that may belong to another
//! stage, and figures that depend on them.

use curtail_probe::profile::{Skew, Traced, UncertainTime};
use curtail_probe::rank::{Ranking, Stage};

use crate::plot::format::{and, count, whole_percent};

/// Maximum number of list items that are shown.
const SHOWN_MAX: usize = 5;
/// A ranking depends on clock corrections if they change a share by more than this.
const DEPENDS: f64 = 0.05;

/// Returns the notes. `time` formats nanoseconds.
pub(super) fn notes(of: &Traced, ranking: &Ranking, time: impl Fn(f64) -> String) -> Vec<String> {
    let clock = |of: &Skew| {
        let Skew { caller, callee, ahead_ns, within_ns, calls, is_steady } = of;
        let (apart, within) = (time(ahead_ns.unsigned_abs() as f64), time(*within_ns as f64));
        let way = if *ahead_ns < 0 { "behind" } else { "ahead of" };
        match is_steady {
            true => {
                format!("{callee} is {apart} {way} {caller} (± {within}, {} calls)", count(*calls))
            }
            false => {
                format!(
                    "the offset of {callee} from {caller} changes, so each call was corrected \
                     separately"
                )
            }
        }
    };
    let uncertain = |of: &UncertainTime| {
        let UncertainTime { stage, why, spans, mean_ns, variance_share } = of;
        let name = ranking.stages.iter().find(|of| of.at == *stage).map_or("", |of| &of.name);
        let (mean, share) = (time(*mean_ns), whole_percent(variance_share.max(0.0)));
        let (why, spans) = (why.text(), count(*spans));
        format!(
            "{name}: up to {mean} per request and {share} of the variance ({why}, {spans} spans)"
        )
    };
    let share = |of: &Stage| of.uncorrected_share.unwrap_or(of.variance_share);
    let depends = |of: &&Stage| (share(of) - of.variance_share).abs() > DEPENDS;
    let moved = |of: &Stage| {
        let (without, with) = (whole_percent(share(of)), whole_percent(of.variance_share));
        format!("{} ({without} without, {with} with)", of.name)
    };
    let listed = [
        ("clocks differ, and were corrected: ", shown(of.clocks.iter().map(clock))),
        (
            "the correction changes the variance of ",
            shown(ranking.stages.iter().filter(depends).map(moved)),
        ),
        ("self time that may belong to another stage: ", shown(of.uncertain.iter().map(uncertain))),
    ];
    let listed = listed.into_iter().filter(|(_, list)| !list.is_empty());
    listed.map(|(what, list)| what.to_owned() + &list).collect()
}

fn shown(list: impl Iterator<Item = String>) -> String {
    let mut list: Vec<String> = list.collect();
    let more = list.len().saturating_sub(SHOWN_MAX);
    list.truncate(SHOWN_MAX);
    list.extend((more > 0).then(|| format!("{} more", count(more as u64))));
    and(list)
}
