//! The report as text: the ranking, the stage to start with, likely causes with their knobs, and
//! notes on the cost of measuring and on how far trace spans can be trusted.

use curtail_probe::causes::{Cause, Pressure};
use curtail_probe::knobs::Knob;
use curtail_probe::profile::{Profile, Skew, Traced, UncertainTime};
use curtail_probe::rank::{Guide, Ranking, SHARE_MIN, Spread, Stage};
use curtail_report::number::{and, count, or_none, three_or_none, whole_percent};
use curtail_report::table::Table;

use crate::say;

/// The unit of times in a report, chosen by the mean of the total.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) ns: f64,
}

impl Unit {
    pub(super) fn of(mean_ns: f64) -> Unit {
        match mean_ns >= 1e6 {
            true => Unit { name: "ms", ns: 1e6 },
            false => Unit { name: "µs", ns: 1e3 },
        }
    }

    /// Formats a time without its unit.
    pub(super) fn bare(self, ns: impl Into<Option<f64>>) -> String {
        three_or_none(ns.into().map(|ns| ns / self.ns))
    }

    /// Formats a time with its unit.
    pub(super) fn with(self, ns: impl Into<Option<f64>>) -> String {
        format!("{} {}", self.bare(ns), self.name)
    }
}

pub(super) fn text(profile: &Profile, ranking: &Ranking) -> String {
    let (color, width) = (say::colored(&std::io::stdout()), say::width().clamp(40, 100));
    let fill = |text: &str, indent: &str, first: &str| {
        let options = textwrap::Options::new(width).subsequent_indent(indent);
        textwrap::fill(&format!("{first}{text}"), options) + "\n"
    };
    let plain = |text: &str| fill(text, "", "");
    let mut text =
        format!("{}\n{}\n", plain(&summary(profile, ranking)), table(ranking).text(color));
    text += &say::verdict(&plain(&guide(ranking)), None);
    let mut seen = Vec::new();
    for (heading, causes) in causes(ranking) {
        text += &format!("\n{}", plain(&heading));
        for (cause, knobs) in causes {
            text += &fill(&cause, "    ", "  - ");
            for knob in knobs {
                let Knob { name, how, expect, test } = knob;
                if seen.contains(name) {
                    text += &format!("    * {name}, as above\n");
                    continue;
                }
                seen.push(name);
                text += &fill(&format!("{name}: {how}"), "      ", "    * ");
                text += &fill(expect, "        ", "      expect: ");
                text += &fill(test, "        ", "      compare: ");
            }
        }
    }
    let notes = notes(profile, ranking).into_iter().map(|note| plain(&note));
    text += &format!("\n{}\n{}", plain(&next(ranking)), notes.collect::<String>());
    text.trim_end().replace('\u{a0}', " ")
}

/// A sentence with the target, the number of requests, and their mean and p99.
pub(super) fn summary(profile: &Profile, ranking: &Ranking) -> String {
    let unit = Unit::of(ranking.total.mean_ns);
    let Spread { mean_ns, p99_ns, .. } = ranking.total;
    format!(
        "{}: {} requests, {} on average, 99 % within {}",
        profile.target,
        count(ranking.requests),
        unit.with(mean_ns),
        unit.with(p99_ns)
    )
}

/// A row per stage, and one for the total.
pub(super) fn table(ranking: &Ranking) -> Table {
    let unit = Unit::of(ranking.total.mean_ns);
    let ns = |ns: f64| unit.bare(ns);
    let interval =
        |of: &Stage| or_none(of.variance_share_ci95, |ends| ends.map(whole_percent).join(" to "));
    let row = |of: &Stage| {
        let Spread { mean_ns, sd_ns, cv, p50_ns, p99_ns } = of.spread;
        [
            of.name.clone(),
            whole_percent(of.variance_share),
            interval(of),
            whole_percent(of.own_share),
            or_none(of.excess_share, whole_percent),
            whole_percent(of.mean_share),
            ns(mean_ns),
            ns(sd_ns),
            three_or_none(Some(cv)),
            unit.bare(p50_ns),
            unit.bare(p99_ns),
        ]
    };
    let head = [
        ("stage", ""),
        ("variance", "share"),
        ("95 % interval", ""),
        ("alone", "share"),
        ("slowest", "share"),
        ("mean", "share"),
        ("mean", unit.name),
        ("sd", unit.name),
        ("cv", ""),
        ("p50", unit.name),
        ("p99", unit.name),
    ];
    let mut table = Table::with_units(head);
    ranking.stages.iter().for_each(|of| table.row(row(of)));
    let Spread { mean_ns, sd_ns, cv, p50_ns, p99_ns } = ranking.total;
    let mean: f64 = ranking.stages.iter().map(|of| of.mean_share).sum();
    let whole = whole_percent(1.0 - ranking.unattributed_share);
    let [total, none] = ["total".to_owned(), String::new()];
    let shares = [total, whole, none.clone(), none.clone(), none, whole_percent(mean)];
    let times =
        [ns(mean_ns), ns(sd_ns), three_or_none(Some(cv)), unit.bare(p50_ns), unit.bare(p99_ns)];
    table.row(shares.into_iter().chain(times));
    table
}

/// A sentence on the stages to which the mean and the variance point.
pub(super) fn guide(ranking: &Ranking) -> String {
    let percent = |name: &str, of: fn(&Stage) -> f64| {
        let stage = ranking.stages.iter().find(|stage| stage.name == name);
        or_none(stage, |stage| whole_percent(of(stage)))
    };
    let mean = |name: &str| percent(name, |of| of.mean_share);
    let variance = |name: &str| percent(name, |of| of.variance_share);
    let mut text = match &ranking.guide {
        Guide::Steady => return "All requests took the same time: nothing varies.".to_owned(),
        Guide::Agree { stage } => format!(
            "Mean and variance both point at {stage}: {} of the mean, {} of the variance.",
            mean(stage),
            variance(stage)
        ),
        Guide::Disagree { by_mean, by_variance } => format!(
            "The mean points at {by_mean} ({} of it), the variance at {by_variance} ({} of it): \
             start with {by_variance}.",
            mean(by_mean),
            variance(by_variance)
        ),
        Guide::CannotTell { by_variance, uncertain_share } => {
            return format!(
                "It is unclear where to start: the variance points at {by_variance} ({} of it), \
                 but spans that are missing or misplaced may account for up to {}; see the end of \
                 the report.",
                variance(by_variance),
                whole_percent(*uncertain_share)
            );
        }
    };
    let first = ranking.stages.first().and_then(|stage| stage.causes.first());
    if let Some(Cause { explains, text: cause, .. }) = first.filter(|cause| cause.of.is_some()) {
        text += &format!(" Likely {}: {cause}.", whole_percent(*explains));
    }
    match ranking.first_in {
        Some(first) if first < 0.95 => {
            text += &format!(
                " The first place may be chance: this stage is first in {} of the resamples; \
                 profile for longer.",
                whole_percent(first)
            );
        }
        Some(_) => {}
        None => {
            text += " There are too few windows of time to compute how certain this is: profile \
                     for longer.";
        }
    }
    text
}

/// The description of a cause, and its knobs.
type Likely = (String, &'static [Knob]);

/// Causes with their knobs, under a heading per stage and one for the machine.
pub(super) fn causes(ranking: &Ranking) -> Vec<(String, Vec<Likely>)> {
    let mut all = Vec::new();
    for stage in ranking.stages.iter().filter(|stage| stage.variance_share >= SHARE_MIN) {
        let causes = stage.causes.iter().map(|cause| {
            let part = whole_percent(cause.explains);
            (format!("{part} of its variance: {}", cause.text), cause.knobs)
        });
        let causes: Vec<_> = causes.collect();
        let heading = match causes.is_empty() {
            true => format!("{}: no likely cause was found", stage.name),
            false => format!("{}, likely causes:", stage.name),
        };
        all.push((heading, causes));
    }
    let machine = |of: &Pressure| (of.text.clone(), of.knobs);
    if !ranking.machine.is_empty() {
        all.push(("the machine:".to_owned(), ranking.machine.iter().map(machine).collect()));
    }
    all
}

/// The next step.
pub(super) fn next(ranking: &Ranking) -> String {
    let knobs = causes(ranking).into_iter().any(|(_, of)| of.iter().any(|of| !of.1.is_empty()));
    let turn = if knobs { "turn one knob" } else { "change one thing" };
    format!(
        "A correlation need not be a cause: profile with --out before, {turn}, profile with --out \
         after, then run curtail profile --compare before after."
    )
}

/// Notes on the cost of measuring, on requests that were not seen, and on how far spans can be
/// trusted.
pub(super) fn notes(profile: &Profile, ranking: &Ranking) -> Vec<String> {
    let unit = Unit::of(ranking.total.mean_ns);
    let notes = |of| trust(of, ranking, |ns| unit.with(ns));
    let of_spans = profile.traces.iter().flat_map(notes);
    cost(profile).into_iter().chain(lost(profile)).chain(of_spans).collect()
}

/// The cost that measuring imposes on the target.
fn cost(profile: &Profile) -> Option<String> {
    let of = profile.cost?;
    let slices = match of.one_in {
        0 | 1 => "every request was stamped".to_owned(),
        k => format!("1 slice of time in {k} was stamped"),
    };
    Some(format!(
        "stamping cost {:.0} ns per stamped request, {:.1} % of the median time over all ({slices})",
        of.ns_per_request,
        of.share * 100.0
    ))
}

/// The number of lost requests and events.
pub(super) fn lost_count(profile: &Profile) -> u64 {
    profile.lost.iter().fold(0, |sum, of| sum.saturating_add(of.count))
}

/// A note on lost requests and events.
fn lost(profile: &Profile) -> Option<String> {
    let lost = profile.lost.iter().filter(|of| of.count > 0);
    let lost = and(lost.map(|of| format!("{} ({})", count(of.count), of.reason)));
    (!lost.is_empty()).then(|| format!("not seen: {lost}"))
}

/// Maximum number of list items that are shown.
const SHOWN_MAX: usize = 5;
/// A ranking depends on clock corrections if they change a share by more than this.
const DEPENDS: f64 = 0.05;

/// Returns notes on how far spans can be trusted: clock offsets, times that may belong to another
/// stage, and figures that depend on them. `time` formats nanoseconds.
fn trust(of: &Traced, ranking: &Ranking, time: impl Fn(f64) -> String) -> Vec<String> {
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
