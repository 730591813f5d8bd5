//! What the figures say: who is compared with whom, by how much, and the sentence that states it.
//! The report and the terminal table share this, so that they cannot disagree.

use curtail_load::SAMPLES_ABOVE_MIN;

use super::gain::{Gain, Verdict};
use super::results::{Cell, Results};
use crate::plot::format::{and, copies, count, policy, utilization, whole_percent};
use crate::plot::palette::{Look, looks};

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

    /// How this policy's p99 compares with the baseline's.
    pub(crate) fn gain(self, policy: &str, load: f64) -> Option<Gain> {
        self.sound_p99(self.baseline?, load)?;
        self.sound_p99(policy, load)?;
        self.cell(policy, load)?.p99_gain
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
            match (self.gain(subject, load), self.cell(subject, load)) {
                (Some(gain), Some(cell)) => {
                    compared.push(Comparison { load, gain, copies: cell.copies_per_query });
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
        let gains = |at: &&Comparison| at.gain.verdict == Verdict::Lower;
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

/// Copies per query, if any ran.
pub(crate) fn copies_per_query(cell: &Cell) -> Option<f64> {
    Some(cell.copies_per_query).filter(|copies| copies.is_finite() && *copies > 0.0)
}

/// The subject against the baseline at one load.
#[derive(Clone, Copy)]
struct Comparison {
    load: f64,
    gain: Gain,
    copies: f64,
}

fn average(of: &[Comparison]) -> Gain {
    Gain::mean(&of.iter().map(|at| at.gain).collect::<Vec<_>>())
}

/// `31 to 39 %`; `undecided` where that is all that can be said.
pub(crate) fn interval(gain: Gain) -> String {
    match gain.verdict {
        Verdict::Undecided => "undecided".to_owned(),
        _ => {
            let low = whole_percent(gain.low);
            format!("{} to {}", low.trim_end_matches(['%', '\u{a0}']), whole_percent(gain.high))
        }
    }
}

/// How sure that is, in a clause.
fn sure(gain: Gain) -> String {
    format!("{} sure: {}", whole_percent(0.95), between(gain.low, gain.high))
}

/// What all of them are, or else their average.
fn verdict(of: &[Comparison]) -> Verdict {
    let average = average(of).verdict;
    let Some(first) = of.first() else { return average };
    if are(of, first.gain.verdict) { first.gain.verdict } else { average }
}

fn are(of: &[Comparison], kind: Verdict) -> bool {
    of.iter().all(|at| at.gain.verdict == kind)
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
    let gain = average(covered);
    let kind = verdict(covered);
    let copies = copies(mean(covered, |at| at.copies));
    let place = place(covered.iter().map(|at| at.load));
    let average = if covered.len() > 1 { " on average" } else { "" };
    let spread = (!are(covered, kind)).then(|| spread(covered));
    let aside: Vec<String> = spread.into_iter().chain([sure(gain)]).collect();
    let rest = format!("{place} ({}), at {copies} copies per query.", aside.join("; "));
    let of = format!("{baseline}’s");
    match kind {
        Verdict::Same => format!("{subject}’s 99th percentile is about the same as {of} {rest}"),
        Verdict::Undecided => {
            format!("{subject}’s 99th percentile against {of} is undecided{average} {rest}")
        }
        Verdict::Lower | Verdict::Higher => {
            let relation = relation(gain.value);
            format!("{subject}’s 99th percentile is {relation} {of}{average} {rest}")
        }
    }
}

/// The loads that the main clause leaves out.
fn but(rest: &[Comparison], lacking: Vec<String>) -> String {
    let sentence = |kind: Verdict| {
        let those: Vec<Comparison> =
            rest.iter().copied().filter(|at| at.gain.verdict == kind).collect();
        let gain = average(&those);
        let relation = match kind {
            Verdict::Same => "about the same".to_owned(),
            Verdict::Undecided => "undecided".to_owned(),
            _ => relation(gain.value).replace("times", "times as high"),
        };
        let average = if those.len() > 1 && kind != Verdict::Same && kind != Verdict::Undecided {
            " on average"
        } else {
            ""
        };
        let loads = and(those.iter().map(|at| utilization(at.load)));
        let sure = sure(gain);
        (!those.is_empty()).then(|| format!("At {loads} it is {relation}{average} ({sure})."))
    };
    let kinds = [Verdict::Lower, Verdict::Same, Verdict::Undecided, Verdict::Higher];
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
    let lowest = covered.iter().map(|at| at.gain.value).fold(f64::INFINITY, f64::min);
    let highest = covered.iter().map(|at| at.gain.value).fold(f64::NEG_INFINITY, f64::max);
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
