//! What the figures say: who is compared with whom, by how much, and the sentence that states it.
//! The report and the terminal table share this, so that they cannot disagree.

use curtail_load::SAMPLES_ABOVE_MIN;

use super::report::format::{and, copies, count, policy, utilization, whole_percent};
use super::results::{Cell, Results};

/// Smaller differences of the p99 are told neither as a gain nor as a loss: one run each is not
/// enough to rest them on.
const SAME: f64 = 0.05;

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
}

/// How many good answers it takes until a percentile is told.
pub(crate) fn needed(quantile: f64) -> u64 {
    (SAMPLES_ABOVE_MIN as f64 / (1.0 - quantile)).round() as u64
}

/// Copies per query, if any ran.
pub(crate) fn copies_per_query(cell: &Cell) -> Option<f64> {
    Some(cell.copies_per_query).filter(|copies| copies.is_finite() && *copies > 0.0)
}

/// The subject against the baseline at one load.
#[derive(Clone, Copy)]
struct Comparison {
    load: f64,
    gain: f64,
    copies: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Lower,
    Same,
    Higher,
}

fn verdict(gain: f64) -> Verdict {
    match gain {
        gain if gain >= SAME => Verdict::Lower,
        gain if gain <= -SAME => Verdict::Higher,
        _ => Verdict::Same,
    }
}

/// The finding: a sentence to remember, and what qualifies it.
#[derive(Debug, PartialEq)]
pub(crate) struct Headline {
    pub(crate) finding: String,
    /// Every load that the finding does not cover. May be empty.
    pub(crate) but: String,
}

/// States the finding. It covers the loads from the lowest on for as long as there is a gain; how
/// it goes beyond them is always told as well, so that the range cannot flatter.
pub(crate) fn headline(results: &Results) -> Headline {
    let view = View::of(results);
    let (Some(baseline), Some(subject)) = (view.baseline, view.subject) else {
        let finding = "Nothing to compare: fewer than two policies ran.".to_owned();
        return Headline { finding, but: String::new() };
    };
    let (compared, unknown) = view.comparisons(subject);
    let lacking = view.lacking([subject, baseline], &unknown);
    let (subject, baseline) = (policy(subject).noun, policy(baseline).noun);
    if compared.is_empty() {
        let mut finding = format!(
            "Nothing to compare yet: at no utilization is there a sound 99th percentile of both \
             {subject} and {baseline}."
        );
        let cells = results.policies.values().flatten();
        // More requests mend nothing else.
        if cells.into_iter().any(|cell| cell.p99_ms.is_none()) {
            let needed = count(needed(0.99));
            finding += &format!(" It takes {needed} good answers: give more --requests.");
        }
        return Headline { finding, but: String::new() };
    }
    let gaining = compared.iter().take_while(|at| verdict(at.gain) == Verdict::Lower).count();
    let (covered, rest) = match gaining {
        0 => compared.split_at(compared.len()),
        some => compared.split_at(some),
    };
    let so_far = if results.partial { "So far, " } else { "" };
    let finding = format!("{so_far}{}", finding(&subject, &baseline, covered));
    Headline { finding, but: but(rest, lacking) }
}

/// The main clause, about some of the loads.
fn finding(subject: &str, baseline: &str, covered: &[Comparison]) -> String {
    let gain = mean(covered, |at| at.gain);
    let copies = copies(mean(covered, |at| at.copies));
    let place = place(covered.iter().map(|at| at.load));
    let average = if covered.len() > 1 { " on average" } else { "" };
    let alike = covered.iter().all(|at| verdict(at.gain) == verdict(gain));
    let spread = if alike { String::new() } else { format!(" ({})", spread(covered)) };
    let of = format!("{baseline}’s");
    match verdict(gain) {
        Verdict::Same if alike => format!(
            "{subject} gains nothing: its 99th percentile is within {} of {of} {place}, at \
             {copies} copies per query.",
            whole_percent(SAME)
        ),
        Verdict::Same => format!(
            "{subject} gains nothing on average: its 99th percentile is within {} of {of} \
             {place}{spread}, at {copies} copies per query.",
            whole_percent(SAME)
        ),
        Verdict::Lower | Verdict::Higher => format!(
            "{subject}’s 99th percentile is {} {of}{average} {place}{spread}, at {copies} copies \
             per query.",
            relation(gain)
        ),
    }
}

/// The loads that the main clause leaves out.
fn but(rest: &[Comparison], lacking: Vec<String>) -> String {
    let sentence = |kind: Verdict| {
        let those: Vec<Comparison> =
            rest.iter().copied().filter(|at| verdict(at.gain) == kind).collect();
        let relation = match kind {
            Verdict::Same => format!("within {}", whole_percent(SAME)),
            _ => relation(mean(&those, |at| at.gain)).replace("times", "times as high"),
        };
        let average = if those.len() > 1 && kind != Verdict::Same { " on average" } else { "" };
        let loads = and(those.iter().map(|at| utilization(at.load)));
        (!those.is_empty()).then(|| format!("At {loads} it is {relation}{average}."))
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

/// The extremes behind an average that hides a change of sign.
fn spread(covered: &[Comparison]) -> String {
    let lowest = covered.iter().map(|at| at.gain).fold(f64::INFINITY, f64::min);
    let highest = covered.iter().map(|at| at.gain).fold(f64::NEG_INFINITY, f64::max);
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
mod tests {
    use super::*;
    use crate::demo::report::sample;

    /// The sample with LÆDGE's p99 as multiples of PSQ's.
    fn with(ratios: [f64; 7]) -> Results {
        let mut results = sample::results();
        let baseline: Vec<_> = results.policies["psq"].iter().map(|cell| cell.p99_ms).collect();
        let cells = results.policies.get_mut("laedge").expect("in the sample");
        for ((cell, p99), ratio) in cells.iter_mut().zip(baseline).zip(ratios) {
            cell.p99_ms = p99.map(|p99| p99 * ratio);
            cell.copies_per_query = 1.6;
        }
        results
    }

    fn told(results: &Results) -> (String, String) {
        let Headline { finding, but } = headline(results);
        (finding.replace('\u{a0}', " "), but.replace('\u{a0}', " "))
    }

    #[test]
    fn a_gain_is_told_with_where_it_ends() {
        let (finding, but) = told(&with([0.5, 0.6, 0.7, 0.8, 1.0, 1.02, 1.3]));
        assert_eq!(
            finding,
            "LÆDGE’s 99th percentile is 35 % below per-shard queuing’s on average from 10 % to 40 % \
             utilization, at 1.6 copies per query."
        );
        assert_eq!(but, "At 50 % and 60 % it is within 5 %. At 70 % it is 30 % above.");
    }

    #[test]
    fn a_gain_everywhere_needs_no_but() {
        assert_eq!(told(&with([0.5; 7])).1, "");
    }

    #[test]
    fn a_loss_is_told_as_one() {
        let (finding, but) = told(&with([1.2; 7]));
        assert!(finding.contains("is 20 % above per-shard queuing’s on average"), "{finding}");
        assert_eq!(but, "");
        let (finding, _) = told(&with([4.0; 7]));
        assert!(finding.contains("is 4.0 times per-shard queuing’s on average"), "{finding}");
    }

    #[test]
    fn no_gain_is_told_as_none() {
        let (finding, _) = told(&with([1.01, 0.98, 1.0, 1.0, 1.0, 1.0, 1.03]));
        assert!(finding.starts_with("LÆDGE gains nothing:"), "{finding}");
        assert!(finding.contains("within 5 %"), "{finding}");
    }

    #[test]
    fn an_average_does_not_hide_a_change_of_sign() {
        let (finding, _) = told(&with([1.1, 0.5, 0.6, 0.6, 0.7, 0.8, 0.9]));
        assert!(finding.contains("(from 50 % below to 10 % above)"), "{finding}");
    }

    #[test]
    fn what_is_not_sound_or_not_there_is_not_compared_but_told() {
        let mut results = with([0.5; 7]);
        results.partial = true;
        results.policies.get_mut("laedge").expect("in the sample")[5].valid = false;
        results.policies.get_mut("psq").expect("in the sample").pop();
        let (finding, but) = told(&results);
        assert!(finding.starts_with("So far, LÆDGE’s"), "{finding}");
        assert!(finding.contains("from 10 % to 50 %"), "{finding}");
        assert_eq!(
            but,
            "At 60 % there is no sound measurement of LÆDGE. At 70 % there is no sound measurement \
             of per-shard queuing."
        );
    }

    #[test]
    fn without_data_there_is_no_finding() {
        let mut results = with([0.5; 7]);
        results.policies.clear();
        let (finding, _) = told(&results);
        assert!(finding.starts_with("Nothing to compare yet"));
        assert!(!finding.contains("--requests"), "it was stopped: {finding}");
        results.order.clear();
        assert!(told(&results).0.starts_with("Nothing to compare"));
    }

    #[test]
    fn with_too_few_requests_the_mend_is_told() {
        let mut results = with([0.5; 7]);
        results.policies.values_mut().flatten().for_each(|cell| cell.p99_ms = None);
        let (finding, _) = told(&results);
        assert!(
            finding.ends_with("It takes 1,000 good answers: give more --requests."),
            "{finding}"
        );
    }

    #[test]
    fn the_baseline_is_psq_wherever_it_ran() {
        let mut results = sample::results();
        assert_eq!(View::of(&results).baseline, Some("psq"));
        results.order = vec!["random".into(), "naive".into(), "delayed:15ms".into()];
        assert_eq!(View::of(&results).baseline, Some("random"));
        assert_eq!(View::of(&results).subject, Some("delayed:15ms"));
    }
}
