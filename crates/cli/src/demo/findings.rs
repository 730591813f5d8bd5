//! What the figures say: who is compared with whom, by how much, and the sentence that states it.
//! The report and the terminal table share this, so that they cannot disagree.

use curtail_load::SAMPLES_ABOVE_MIN;

use super::results::{Cell, Results};
use crate::plot::format::{and, copies, count, policy, utilization, whole_percent};
use crate::plot::palette::{Look, looks};

/// Smaller differences of the p99 are told neither as a gain nor as a loss, however sure: nobody
/// would act on them.
const SAME: f64 = 0.05;

/// The same where there are too few requests to say how sure a difference is.
const SAME_UNSURE: f64 = 0.15;

/// Standard deviations to either side of which 95 % lie.
const Z: f64 = 1.96;

/// Loads are given in fractions and copied around, never computed with.
const LOAD_EPSILON: f64 = 1e-6;

pub(super) fn same_load(a: f64, b: f64) -> bool {
    (a - b).abs() < LOAD_EPSILON
}

/// The results, seen as a comparison.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) results: &'a Results,
    /// What the others are compared with: `psq` if it ran, or else what ran first.
    pub(crate) baseline: Option<&'a str>,
    /// What the demo is about: LÆDGE, our own rescue, or else what ran last.
    pub(crate) subject: Option<&'a str>,
}

impl<'a> View<'a> {
    pub(crate) fn of(results: &'a Results) -> View<'a> {
        let order = || results.order.iter().map(String::as_str);
        let baseline = order().find(|name| *name == "psq").or_else(|| order().next());
        let others = || order().filter(|name| Some(*name) != baseline);
        let named = |prefix: &'static str| others().find(|name| name.starts_with(prefix));
        let subject = named("laedge").or_else(|| named("rescue")).or_else(|| others().next_back());
        View { results, baseline, subject }
    }

    /// The policies, in the order in which they are shown.
    pub(crate) fn policies(self) -> impl Iterator<Item = &'a str> {
        self.results.order.iter().map(String::as_str)
    }

    /// How each of them is drawn.
    pub(crate) fn looks(self) -> Vec<(&'a str, Look)> {
        looks(self.policies(), self.baseline, self.subject)
    }

    /// What was measured, or `None` if the run did not get there.
    pub(crate) fn cell(self, policy: &str, load: f64) -> Option<&'a Cell> {
        let cells = self.results.policies.get(policy)?;
        cells.iter().find(|cell| same_load(cell.load, load))
    }

    /// The p99 of a sound measurement: the only ones that are compared.
    pub(crate) fn sound_p99(self, policy: &str, load: f64) -> Option<f64> {
        let cell = self.cell(policy, load).filter(|cell| cell.valid)?;
        cell.p99_ms.filter(|p99| *p99 > 0.0)
    }

    /// By which part of the baseline's p99 this one is lower; negative if it is higher.
    pub(crate) fn gain(self, policy: &str, load: f64) -> Option<f64> {
        let baseline = self.sound_p99(self.baseline?, load)?;
        Some(1.0 - self.sound_p99(policy, load)? / baseline)
    }

    /// The same, and how sure it is.
    fn difference(self, policy: &str, load: f64) -> Option<Difference> {
        self.gain(policy, load)?;
        Difference::between(self.cell(policy, load)?, self.cell(self.baseline?, load)?)
    }

    /// The policy with the lowest p99 at a load, if there is anything to compare.
    pub(crate) fn best(self, load: f64) -> Option<&'a str> {
        let sound = |name: &'a str| self.sound_p99(name, load).map(|p99| (name, p99));
        let mut sound = self.policies().filter_map(sound);
        let first = sound.next()?;
        let mut rest = sound.peekable();
        rest.peek()?;
        Some(rest.fold(first, |best, next| if next.1 < best.1 { next } else { best }).0)
    }

    /// How many cells there should be, and how many there are.
    pub(crate) fn cells(self) -> (usize, usize) {
        let planned = self.results.loads.len() * self.results.order.len();
        let loads = &self.results.loads;
        let of = |name| loads.iter().filter(|load| self.cell(name, **load).is_some()).count();
        (planned, self.policies().map(of).sum())
    }

    /// Where the subject stands against the baseline, by load, and where it cannot be said.
    fn comparisons(self, subject: &str) -> (Vec<Comparison>, Vec<f64>) {
        let (mut compared, mut unknown) = (Vec::new(), Vec::new());
        for &load in &self.results.loads {
            match (self.difference(subject, load), self.cell(subject, load)) {
                (Some(difference), Some(cell)) => {
                    compared.push(Comparison { load, difference, copies: cell.copies_per_query });
                }
                _ => unknown.push(load),
            }
        }
        (compared, unknown)
    }

    /// Says of which of the two there is nothing sound at some loads.
    fn lacking(self, names: [&str; 2], loads: &[f64]) -> Vec<String> {
        let has = |load: f64| names.map(|name| self.sound_p99(name, load).is_some());
        let [first, second] = names.map(|name| policy(name).noun);
        let groups = [
            ([false, true], first.clone()),
            ([true, false], second.clone()),
            ([false, false], format!("{first} or {second}")),
        ];
        let tell = |(pattern, who): ([bool; 2], String)| {
            let those = loads.iter().filter(|load| has(**load) == pattern);
            let at = and(those.map(|load| utilization(*load)));
            (!at.is_empty()).then(|| format!("At {at} there is no sound measurement of {who}."))
        };
        groups.into_iter().filter_map(tell).collect()
    }

    /// What is found, and what qualifies it, of a policy against another. None if there is no load
    /// at which both are sound.
    fn against(self, subject: &str, baseline: &str) -> Option<(String, String)> {
        let (compared, unknown) = self.comparisons(subject);
        let lacking = self.lacking([subject, baseline], &unknown);
        let (subject, baseline) = (policy(subject).noun, policy(baseline).noun);
        let gains = |at: &&Comparison| at.difference.verdict() == Verdict::Lower;
        let gaining = compared.iter().take_while(gains).count();
        let (covered, rest) = match gaining {
            0 => compared.split_at(compared.len()),
            some => compared.split_at(some),
        };
        (!compared.is_empty()).then(|| (finding(&subject, &baseline, covered), but(rest, lacking)))
    }
}

/// How many good answers it takes until a percentile is told.
pub(crate) fn needed(quantile: f64) -> u64 {
    (SAMPLES_ABOVE_MIN as f64 / (1.0 - quantile)).round() as u64
}

/// The good answers of a cell.
pub(crate) fn answered(cell: &Cell) -> u64 {
    cell.requests.saturating_sub(cell.errors)
}

/// True if there is no p99.9 although there are enough answers: the load generator was late too
/// often for it.
pub(crate) fn is_withheld(cell: &Cell) -> bool {
    cell.p999_ms.is_none() && answered(cell) >= needed(0.999)
}

/// Between which latencies the true p99 is, with 95 % confidence: the order statistics that so many
/// samples leave open. It takes requests for independent of one another; that waiting makes
/// neighbors alike is not in it. None if the upper one is among the last 10 samples.
fn p99_bounds(cell: &Cell) -> Option<(f64, f64)> {
    let above = 0.01;
    let off = Z * (above * (1.0 - above) / answered(cell) as f64).sqrt();
    let p99 = cell.p99_ms?;
    let (low, high) = (slower_than(cell, above + off)?, slower_than(cell, above - off)?);
    Some((low.min(p99), high.max(p99)))
}

/// The latency that such a share of the requests exceeds, if the distribution goes so far.
fn slower_than(cell: &Cell, share: f64) -> Option<f64> {
    let mut pairs = cell.ccdf.windows(2).map(|pair| (pair[0], pair[1]));
    let (from, to) = pairs.find(|(from, to)| (to.1..=from.1).contains(&share))?;
    let width = (from.1 / to.1).ln();
    let part = if width > 0.0 { (from.1 / share).ln() / width } else { 0.0 };
    Some(from.0 + part * (to.0 - from.0)).filter(|ms| ms.is_finite() && *ms > 0.0)
}

/// Copies per query, if any ran.
pub(crate) fn copies_per_query(cell: &Cell) -> Option<f64> {
    Some(cell.copies_per_query).filter(|copies| copies.is_finite() && *copies > 0.0)
}

/// The subject against the baseline at one load.
#[derive(Clone, Copy)]
struct Comparison {
    load: f64,
    difference: Difference,
    copies: f64,
}

/// By which part a p99 is lower than another; negative if it is higher.
#[derive(Clone, Copy)]
struct Difference {
    gain: f64,
    /// The least and the largest that 95 % confidence allows. None with too few requests.
    bounds: Option<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Lower,
    Same,
    Higher,
}

impl Difference {
    /// Between two sound cells. The bounds of the two are combined as those of independent
    /// estimates (MOVER, on a log scale). Both runs ask the same, so that they are rather too wide.
    fn between(cell: &Cell, baseline: &Cell) -> Option<Difference> {
        let (ours, theirs) = (cell.p99_ms?, baseline.p99_ms?);
        let bounds = || {
            let ((our_low, our_high), (low, high)) = (p99_bounds(cell)?, p99_bounds(baseline)?);
            let ratio = (ours / theirs).ln();
            let least = ratio - (ours / our_low).ln().hypot((high / theirs).ln());
            let most = ratio + (our_high / ours).ln().hypot((theirs / low).ln());
            Some((1.0 - most.exp(), 1.0 - least.exp()))
        };
        Some(Difference { gain: 1.0 - ours / theirs, bounds: bounds() })
    }

    /// The average, with the bounds of an average of independent estimates.
    fn mean(of: &[Comparison]) -> Difference {
        let count = of.len() as f64;
        let gain = mean(of, |at| at.difference.gain);
        let mut squares = Some((0.0, 0.0));
        for Comparison { difference, .. } in of {
            squares = squares.zip(difference.bounds).map(|((below, above), (low, high))| {
                let of = |bound: f64| (difference.gain - bound).powi(2);
                (below + of(low), above + of(high))
            });
        }
        let bounds = squares.map(|(below, above): (f64, f64)| {
            (gain - below.sqrt() / count, gain + above.sqrt() / count)
        });
        Difference { gain, bounds }
    }

    fn verdict(self) -> Verdict {
        let (low, high) = self.bounds.unwrap_or((self.gain, self.gain));
        let least = if self.bounds.is_some() { SAME } else { SAME_UNSURE };
        match self.gain {
            gain if gain >= least && low > 0.0 => Verdict::Lower,
            gain if gain <= -least && high < 0.0 => Verdict::Higher,
            _ => Verdict::Same,
        }
    }

    /// How sure that is, in a clause.
    fn sure(self) -> String {
        match (self.bounds, self.verdict()) {
            (Some((low, high)), _) => {
                format!("{} sure: {}", whole_percent(0.95), between(low, high))
            }
            (None, Verdict::Same) => {
                let chance = whole_percent(SAME_UNSURE);
                format!("with so few requests less than {chance} may be chance")
            }
            (None, _) => "too few requests to say how sure".to_owned(),
        }
    }
}

/// What all of them are, or else their average.
fn verdict(of: &[Comparison]) -> Verdict {
    let average = Difference::mean(of).verdict();
    let Some(first) = of.first() else { return average };
    if are(of, first.difference.verdict()) { first.difference.verdict() } else { average }
}

fn are(of: &[Comparison], kind: Verdict) -> bool {
    of.iter().all(|at| at.difference.verdict() == kind)
}

/// The finding: a sentence to remember, and what qualifies it.
#[derive(Debug, PartialEq)]
pub(crate) struct Headline {
    pub(crate) finding: String,
    /// Every load that the finding does not cover. May be empty.
    pub(crate) but: String,
    /// The same of our own rescue, where the finding is about another policy. May be empty.
    pub(crate) also: String,
}

/// States the finding. It covers the loads from the lowest on for as long as there is a gain; how
/// it goes beyond them is always told as well, so that the range cannot flatter.
pub(crate) fn headline(results: &Results) -> Headline {
    let view = View::of(results);
    let (Some(baseline), Some(subject)) = (view.baseline, view.subject) else {
        let finding = "Nothing to compare: fewer than two policies ran.".to_owned();
        return Headline { finding, but: String::new(), also: String::new() };
    };
    let told = view.against(subject, baseline);
    let mut others = view.policies().filter(|name| ![baseline, subject].contains(name));
    let rescue = others.find(|name| name.starts_with("rescue"));
    let also = rescue.and_then(|rescue| view.against(rescue, baseline));
    let also = also.map_or(String::new(), |(finding, but)| format!("{finding} {but}"));
    let also = also.trim_end().to_owned();
    let Some((finding, but)) = told else {
        let finding = nothing(results, subject, baseline);
        return Headline { finding, but: String::new(), also };
    };
    let so_far = if results.partial { "So far, " } else { "" };
    Headline { finding: format!("{so_far}{finding}"), but, also }
}

/// Why there is nothing to compare.
fn nothing(results: &Results, subject: &str, baseline: &str) -> String {
    let mut finding = format!(
        "Nothing to compare yet: at no utilization is there a sound 99th percentile of both {} and {}.",
        policy(subject).noun,
        policy(baseline).noun
    );
    let cells = results.policies.values().flatten();
    // More requests mend nothing else.
    if cells.into_iter().any(|cell| cell.p99_ms.is_none()) {
        let needed = count(needed(0.99));
        finding += &format!(" It takes {needed} good answers: give more --requests.");
    }
    finding
}

/// The main clause, about some of the loads.
fn finding(subject: &str, baseline: &str, covered: &[Comparison]) -> String {
    let difference = Difference::mean(covered);
    let kind = verdict(covered);
    let copies = copies(mean(covered, |at| at.copies));
    let place = place(covered.iter().map(|at| at.load));
    let average = if covered.len() > 1 { " on average" } else { "" };
    let spread = (!are(covered, kind)).then(|| spread(covered));
    let aside: Vec<String> = spread.into_iter().chain([difference.sure()]).collect();
    let rest = format!("{place} ({}), at {copies} copies per query.", aside.join("; "));
    let of = format!("{baseline}’s");
    match kind {
        Verdict::Same => {
            let average = if are(covered, kind) { "" } else { average };
            format!(
                "{subject} shows no gain{average}: its 99th percentile is about the same as {of} \
                 {rest}"
            )
        }
        Verdict::Lower | Verdict::Higher => {
            let relation = relation(difference.gain);
            format!("{subject}’s 99th percentile is {relation} {of}{average} {rest}")
        }
    }
}

/// The loads that the main clause leaves out.
fn but(rest: &[Comparison], lacking: Vec<String>) -> String {
    let sentence = |kind: Verdict| {
        let those: Vec<Comparison> =
            rest.iter().copied().filter(|at| at.difference.verdict() == kind).collect();
        let difference = Difference::mean(&those);
        let relation = match kind {
            Verdict::Same => "about the same".to_owned(),
            _ => relation(difference.gain).replace("times", "times as high"),
        };
        let average = if those.len() > 1 && kind != Verdict::Same { " on average" } else { "" };
        let loads = and(those.iter().map(|at| utilization(at.load)));
        let sure = difference.sure();
        (!those.is_empty()).then(|| format!("At {loads} it is {relation}{average} ({sure})."))
    };
    let kinds = [Verdict::Lower, Verdict::Same, Verdict::Higher];
    let sentences = kinds.into_iter().filter_map(sentence).chain(lacking);
    sentences.collect::<Vec<_>>().join(" ")
}

/// `41 % below`, `12 % above`, `3.4 times`.
fn relation(gain: f64) -> String {
    match gain {
        gain if gain >= 0.0 => format!("{} below", whole_percent(gain)),
        // "240 % above" makes people add or subtract one.
        gain if gain <= -1.0 => format!("{:.1} times", 1.0 - gain),
        gain => format!("{} above", whole_percent(-gain)),
    }
}

/// `31 % to 39 % below`, `4 % below to 6 % above`.
fn between(low: f64, high: f64) -> String {
    let (first, last) = if low >= 0.0 { (low, high) } else { (high, low) };
    let (first, last) = (relation(first), relation(last));
    if first == last {
        return first;
    }
    let shared = |text: &str| text.rsplit_once(' ').map(|(_, word)| word.to_owned());
    let word = shared(&last).filter(|word| shared(&first).as_ref() == Some(word));
    let first = word
        .and_then(|word| first.strip_suffix(&format!(" {word}")).map(str::to_owned))
        .unwrap_or(first);
    format!("{first} to {last}")
}

/// The extremes behind an average that hides a change of sign.
fn spread(covered: &[Comparison]) -> String {
    let lowest = covered.iter().map(|at| at.difference.gain).fold(f64::INFINITY, f64::min);
    let highest = covered.iter().map(|at| at.difference.gain).fold(f64::NEG_INFINITY, f64::max);
    format!("from {} to {}", relation(highest), relation(lowest))
}

fn place(loads: impl Iterator<Item = f64>) -> String {
    let loads: Vec<f64> = loads.collect();
    match loads[..] {
        [] => String::new(),
        [only] => format!("at {} utilization", utilization(only)),
        [first, .., last] => {
            format!("from {} to {} utilization", utilization(first), utilization(last))
        }
    }
}

fn mean(of: &[Comparison], what: impl Fn(&Comparison) -> f64) -> f64 {
    of.iter().map(what).sum::<f64>() / of.len() as f64
}

#[cfg(test)]
mod tests;
