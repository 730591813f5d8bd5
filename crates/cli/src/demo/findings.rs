//! Derives the findings from the figures: the policies that are compared, the differences between
//! them, and the sentences that describe these differences. The report and the terminal both use
//! these, so that they agree.

use curtail_load::SAMPLES_ABOVE_MIN;

use super::results::{Gain, LoadPoint, Results, Verdict, same_load};
use curtail_report::number::{and, copies, count, utilization, whole_percent};
use curtail_report::policy::{Look, looks, policy};

/// A view of the results as a comparison.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) results: &'a Results,
    /// The policy that the others are compared with, which is `psq` if it ran, and otherwise the
    /// first.
    pub(crate) baseline: Option<&'a str>,
    /// The policy that the demo is about, which is LÆDGE if it ran, otherwise our own rescue, and
    /// otherwise the last policy.
    pub(crate) subject: Option<&'a str>,
}

impl<'a> View<'a> {
    pub(crate) fn of(results: &'a Results) -> View<'a> {
        let baseline = results.baseline();
        let others = || results.policies().filter(|name| Some(*name) != baseline);
        let named = |prefix: &'static str| others().find(|name| name.starts_with(prefix));
        let subject = named("laedge").or_else(|| named("rescue")).or_else(|| others().next_back());
        View { results, baseline, subject }
    }

    /// The style of each policy in the figures.
    pub(crate) fn looks(self) -> Vec<(&'a str, Look)> {
        looks(self.results.policies(), self.baseline, self.subject)
    }

    /// The styles of the policies, with the names that the figures use.
    pub(crate) fn key(self) -> Vec<(String, Look)> {
        self.looks().into_iter().map(|(name, look)| (policy(name).short, look)).collect()
    }

    /// Returns a cell, or `None` if the run did not reach it.
    pub(crate) fn cell(self, policy: &str, load: f64) -> Option<&'a LoadPoint> {
        let cells = self.results.policies.get(policy)?;
        cells.iter().find(|cell| same_load(cell.load, load))
    }

    /// Returns a cell if it is sound. Only sound cells are compared.
    pub(crate) fn sound(self, policy: &str, load: f64) -> Option<&'a LoadPoint> {
        self.cell(policy, load)
            .filter(|cell| cell.sound() && cell.p99_ms.is_some_and(|ms| ms > 0.0))
    }

    /// The policy with the lowest p99 at a load, if at least two are sound.
    pub(crate) fn best(self, load: f64) -> Option<&'a str> {
        let sound = |name: &'a str| Some((name, self.sound(name, load)?.p99_ms?));
        let sound: Vec<_> = self.results.policies().filter_map(sound).collect();
        let best = sound.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        (sound.len() > 1).then_some(best.0)
    }

    /// The finding about rescue, if the main one is about another policy. May be empty.
    fn rescue(self) -> String {
        let main = [self.baseline, self.subject];
        let mut others = self.results.policies().filter(|name| !main.contains(&Some(*name)));
        let rescue = others.find(|name| name.starts_with("rescue"));
        let also = rescue.and_then(|rescue| self.against(rescue));
        also.map_or(String::new(), |(finding, but)| {
            format!("{finding} {but}").trim_end().to_owned()
        })
    }

    /// A sentence with the policy that has the lowest measured p99 at each load. Empty if only two
    /// policies ran, because the finding already states which of them is lower.
    fn lowest(self) -> String {
        let loads = || self.results.loads.iter().copied();
        let of = |name: &'a str| {
            let at: Vec<_> =
                loads().filter(|&load| self.best(load) == Some(name)).map(utilization).collect();
            (!at.is_empty()).then(|| format!("{} at {}", policy(name).short, and(at)))
        };
        let best: Vec<String> = self.results.policies().filter_map(of).collect();
        if best.is_empty() || self.results.order.len() < 3 {
            return String::new();
        }
        format!("Lowest 99th percentile measured: {}.", best.join("; "))
    }

    /// Compares rescue with the learned-delay hedge, in sentences. They list the loads at which
    /// rescue is significantly faster, the loads at which this run cannot distinguish the two, and
    /// the loads at which rescue is significantly slower.
    fn learned(self) -> String {
        let Some((rescue, learned)) = self.results.rivals() else { return String::new() };
        let cells = self.results.policies.get(rescue).into_iter().flatten();
        let compared: Vec<_> =
            cells.filter_map(|cell| Some((cell.p99_gain_over_learned?, cell))).collect();
        let (rescue, learned) = (policy(rescue).noun, policy(learned).noun);
        let of = |kinds: &[Verdict]| {
            let group = compared.iter().copied().filter(|(gain, _)| kinds.contains(&gain.verdict));
            Some(group.collect::<Vec<_>>()).filter(|group| !group.is_empty())
        };
        let apart = |group: &Group<'_>| {
            let (gain, loads, average) = summary(group);
            let relation = relation(gain.value);
            format!(
                "At {loads} {rescue}’s is {relation} that of {learned}{average} ({}).",
                sure(gain)
            )
        };
        let alike = |group: &Group<'_>| {
            let loads = summary(group).1;
            format!(
                "At {loads} {learned} is as good as {rescue}, as far as this run can distinguish."
            )
        };
        let sentences = [
            of(&[Verdict::Lower]).map(|group| apart(&group)),
            of(&[Verdict::Same, Verdict::Undecided]).map(|group| alike(&group)),
            of(&[Verdict::Higher]).map(|group| apart(&group)),
        ];
        sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// A remark on how many cells an incomplete run has measured.
    pub(crate) fn partial(self) -> Option<String> {
        let planned = self.results.loads.len() * self.results.order.len();
        let measured: usize = self.results.policies.values().map(Vec::len).sum();
        let some = self.results.partial || measured < planned;
        some.then(|| format!("Partial: {measured} of {planned} cells."))
    }

    /// Compares a policy with the baseline. Returns the finding and its qualifications, or `None`
    /// if there is no load at which both are sound.
    fn against(self, subject: &str) -> Option<(String, String)> {
        let baseline = self.baseline?;
        let (mut compared, mut unknown) = (Vec::new(), Vec::new());
        for &load in &self.results.loads {
            let both = self.sound(subject, load).zip(self.sound(baseline, load));
            match both.and_then(|(cell, _)| Some((cell.p99_gain?, cell))) {
                Some((gain, cell)) => compared.push((gain, cell)),
                None => unknown.push(utilization(load)),
            }
        }
        let (subject, baseline) = (policy(subject).noun, policy(baseline).noun);
        let kinds = [Verdict::Lower, Verdict::Same, Verdict::Undecided, Verdict::Higher];
        let groups = kinds.map(|kind| {
            let of_kind = compared.iter().copied().filter(|(gain, _)| gain.verdict == kind);
            of_kind.collect::<Vec<_>>()
        });
        let mut groups = groups.iter().filter(|group| !group.is_empty());
        let finding = finding(&subject, &baseline, groups.next()?);
        let mut but: Vec<String> = groups.map(|group| besides(group)).collect();
        if !unknown.is_empty() {
            let at = and(unknown);
            but.push(format!("At {at} there are no sound measurements of both."));
        }
        Some((finding, but.join(" ")))
    }
}

/// The number of good responses that a percentile needs.
pub(crate) fn needed(quantile: f64) -> String {
    count((SAMPLES_ABOVE_MIN as f64 / (1.0 - quantile)).round() as u64)
}

/// The mean number of copies per query, or `None` if no copy ran.
pub(crate) fn copies_per_query(cell: &LoadPoint) -> Option<f64> {
    Some(cell.copies_per_query).filter(|copies| copies.is_finite() && *copies > 0.0)
}

/// Formats an interval as `31 to 39 %`, or as `undecided`.
pub(crate) fn interval(gain: Gain) -> String {
    match gain.verdict {
        Verdict::Undecided => "undecided".to_owned(),
        _ => {
            let low = whole_percent(gain.low);
            format!("{} to {}", low.trim_end_matches(['%', '\u{a0}']), whole_percent(gain.high))
        }
    }
}

/// The findings, in sentences. None of them is empty.
pub(crate) struct Headline {
    /// What should be read first: a warning if the machine was busy, and the finding.
    pub(crate) first: Vec<String>,
    /// The loads that the finding does not cover, the finding about rescue if the main one is about
    /// another policy, the policy with the lowest measured p99 at each load, and the comparison of
    /// rescue with the learned-delay hedge.
    pub(crate) more: Vec<String>,
}

/// States the finding, which covers the loads with the best verdict. The other loads are always
/// listed, so that the average does not hide any of them.
pub(crate) fn headline(results: &Results) -> Headline {
    let view = View::of(results);
    let busy = results.busy_machine.as_ref().map(|busy| busy.text.clone());
    let so_far = if results.partial { "So far, " } else { "" };
    let nothing = |why: &str| (why.to_owned(), String::new());
    let (finding, but) = match view.baseline.zip(view.subject) {
        None => nothing("Nothing to compare: fewer than two policies ran."),
        Some((baseline, subject)) => match view.against(subject) {
            Some((finding, but)) => (format!("{so_far}{finding}"), but),
            None if busy.is_some() => nothing("Nothing can be compared."),
            None => nothing(&format!(
                "Nothing to compare yet: no utilization has a sound 99th percentile of both {} and \
                 {}, which needs {} good responses (--requests).",
                policy(subject).noun,
                policy(baseline).noun,
                needed(0.99)
            )),
        },
    };
    let more = [but, view.rescue(), view.lowest(), view.learned()];
    Headline {
        first: busy.into_iter().chain([finding]).collect(),
        more: more.into_iter().filter(|text| !text.is_empty()).collect(),
    }
}

/// Cells that have the same verdict, at one or more loads.
type Group<'a> = [(Gain, &'a LoadPoint)];

/// The main sentence.
fn finding(subject: &str, baseline: &str, group: &Group<'_>) -> String {
    let (gain, loads, average) = summary(group);
    let mean = group.iter().map(|(_, cell)| cell.copies_per_query).sum::<f64>();
    let copies = copies(mean / group.len() as f64);
    let sure = sure(gain);
    let of = format!("{baseline}’s");
    let is = match gain.verdict {
        Verdict::Same => format!("is about the same as {of}"),
        Verdict::Undecided => format!("against {of} is undecided"),
        Verdict::Lower | Verdict::Higher => format!("is {} {of}{average}", relation(gain.value)),
    };
    format!(
        "{subject}’s 99th percentile {is} at {loads} utilization ({sure}), at {copies} copies per query."
    )
}

/// A sentence about loads that the main sentence leaves out.
fn besides(group: &Group<'_>) -> String {
    let (gain, loads, average) = summary(group);
    let is = match gain.verdict {
        Verdict::Same => "about the same".to_owned(),
        Verdict::Undecided => "undecided".to_owned(),
        _ => relation(gain.value).replace("times", "times as high") + average,
    };
    format!("At {loads} it is {is} ({}).", sure(gain))
}

/// Returns the mean gain of a group, the loads of its cells, and " on average" if there are
/// several. The gain has the verdict that all cells share.
fn summary(group: &Group<'_>) -> (Gain, String, &'static str) {
    let average = Gain::mean(&group.iter().map(|(gain, _)| *gain).collect::<Vec<_>>());
    let gain = Gain { verdict: group[0].0.verdict, ..average };
    let loads = and(group.iter().map(|(_, cell)| utilization(cell.load)));
    (gain, loads, if group.len() > 1 { " on average" } else { "" })
}

/// Formats a gain, for example as `41 % below`, `12 % above` or `3.4 times`.
fn relation(gain: f64) -> String {
    match gain {
        gain if gain >= 0.0 => format!("{} below", whole_percent(gain)),
        // Readers might mistake "240 % above" for 2.4 times.
        gain if gain <= -1.0 => format!("{:.1} times", 1.0 - gain),
        gain => format!("{} above", whole_percent(-gain)),
    }
}

/// Formats the confidence interval, for example as `95 % interval: 31 % to 39 % below`, or as `… 6
/// % below to 4 % above`.
fn sure(Gain { low, high, .. }: Gain) -> String {
    let between = match (low, high) {
        (0.0.., _) => format!("{} to {}", whole_percent(low), relation(high)),
        (-1.0..0.0, ..0.0) => format!("{} to {}", whole_percent(-high), relation(low)),
        _ => format!("{} to {}", relation(high), relation(low)),
    };
    format!("{} interval: {between}", whole_percent(0.95))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::page::sample;
    use curtail_machine::Taken;

    /// The sample results, except that LÆDGE's p99 is PSQ's p99 multiplied by these ratios. Every
    /// gain has an interval of ±3 %.
    fn with(ratios: [f64; 4]) -> Results {
        let mut results = sample::results();
        let baseline = results.policies["psq"].clone();
        let cells = results.policies.get_mut("laedge").expect("in the sample");
        for ((cell, baseline), ratio) in cells.iter_mut().zip(baseline).zip(ratios) {
            cell.p99_ms = baseline.p99_ms.map(|p99| p99 * ratio);
            cell.copies_per_query = 1.6;
        }
        sample::compare(&mut results.policies);
        results
    }

    /// The headline without its last sentences, with ordinary spaces.
    fn stated(results: &Results) -> String {
        let (view, Headline { first, more }) = (View::of(results), headline(results));
        let last = [view.lowest(), view.learned()];
        let more = more.into_iter().filter(|text| !last.contains(text));
        first.into_iter().chain(more).collect::<Vec<_>>().join(" ").replace('\u{a0}', " ")
    }

    #[test]
    fn loads_are_grouped_by_verdict() {
        let lower = "LÆDGE’s 99th percentile is 35 % below per-shard queuing’s on average at 10 % \
                     and 30 % utilization (95 % interval: 33 % to 37 % below), at 1.6 copies per \
                     query.";
        let above = " At 70 % it is 30 % above (95 % interval: 27 % to 33 % above).";
        let same = " At 50 % it is about the same (95 % interval: 3 % below to 3 % above).";
        assert_eq!(stated(&with([0.5, 0.8, 1.0, 1.3])), format!("{lower}{same}{above}"));
        let everywhere = stated(&with([0.5; 4]));
        assert!(everywhere.contains("at 10 %, 30 %, 50 %, and 70 %"), "{everywhere}");
        let mixed = stated(&with([1.1, 0.5, 0.6, 0.7]));
        assert!(mixed.contains("At 10 % it is 10 % above (95 %"), "{mixed}");
        let worse = stated(&with([4.0; 4]));
        assert!(
            worse.contains("percentile is 4.0 times per-shard queuing’s on average"),
            "{worse}"
        );
        let none = stated(&with([1.01, 0.98, 1.0, 1.0]));
        assert!(none.starts_with("LÆDGE’s 99th percentile is about the same as"), "{none}");
    }

    #[test]
    fn rescue_is_reported_in_addition() {
        let mut results = with([0.5; 4]);
        assert_eq!(View::of(&results).rescue(), "");
        let cells = with([0.6, 0.6, 0.6, 1.3]).policies.remove("laedge");
        results.policies.insert("rescue".to_owned(), cells.expect("in the sample"));
        results.order.push("rescue".to_owned());
        let text = stated(&results);
        assert!(text.starts_with("LÆDGE’s 99th percentile is 50 %"), "{text}");
        assert!(text.contains(" Rescue’s 99th percentile is 40 % below"), "{text}");
        assert!(
            text.ends_with("At 70 % it is 30 % above (95 % interval: 27 % to 33 % above)."),
            "{text}"
        );
        // Without LÆDGE, rescue is the subject.
        results.order.retain(|name| name != "laedge");
        assert!(stated(&results).starts_with("Rescue’s"));
        assert_eq!(View::of(&results).rescue(), "");
    }

    #[test]
    fn the_best_policy_is_named_at_each_load_and_so_is_a_learned_delay_as_good_as_rescue() {
        let mut results = with([0.5; 4]);
        let learned = "delayed:p95:cc+least-outstanding";
        let gains = [(0.0, 0.04), (-0.1, 0.2), (0.2, 0.05), (-0.3, 0.05)];
        for (name, ratios) in [(learned, [0.4, 0.45, 0.6, 0.4]), ("rescue", [0.4, 0.4, 0.4, 0.6])] {
            let mut cells = with(ratios).policies.remove("laedge").expect("in the sample");
            for (cell, (value, half)) in cells.iter_mut().zip(gains) {
                cell.p99_gain_over_learned = Some(Gain::new(value, value - half, value + half));
            }
            results.policies.insert(name.to_owned(), cells);
            results.order.push(name.to_owned());
        }
        let said = |results: &Results| {
            let view = View::of(results);
            [view.lowest(), view.learned()].map(|text| text.replace('\u{a0}', " "))
        };
        let [lowest, learned] = said(&results);
        // The first policy wins a tie.
        let named = "Lowest 99th percentile measured: Delayed p95, cancelling, over least \
                     outstanding at 10 % and 70 %; Rescue at 30 % and 50 %.";
        assert_eq!(lowest, named);
        let name = "the learned delay over least outstanding";
        let ahead = format!(
            "At 50 % Rescue’s is 20 % below that of {name} (95 % interval: 15 % to 25 % below)."
        );
        let alike = format!(
            "At 10 % and 30 % {name} is as good as Rescue, as far as this run can distinguish."
        );
        let behind = format!(
            "At 70 % Rescue’s is 30 % above that of {name} (95 % interval: 25 % to 35 % above)."
        );
        assert_eq!(learned, format!("{ahead} {alike} {behind}"));
        results.order.truncate(2);
        assert_eq!(said(&results), ["", ""]);
    }

    #[test]
    fn differences_that_may_be_chance_are_undecided() {
        let mut results = with([1.0; 4]);
        let cells = results.policies.get_mut("laedge").expect("in the sample");
        cells.iter_mut().for_each(|cell| cell.p99_gain = Some(Gain::new(0.2, -0.1, 0.45)));
        let whole = "LÆDGE’s 99th percentile against per-shard queuing’s is undecided at 10 %, ";
        assert!(stated(&results).starts_with(whole), "{}", stated(&results));
        let cells = results.policies.get_mut("laedge").expect("in the sample");
        cells[0].p99_gain = Some(Gain::new(0.4, 0.3, 0.5));
        let text = stated(&results);
        assert!(text.starts_with("LÆDGE’s 99th percentile is 40 % below"), "{text}");
        assert!(
            text.contains("At 30 %, 50 %, and 70 % it is undecided (95 % interval: "),
            "{text}"
        );
    }

    #[test]
    fn unsound_and_missing_cells_are_listed_but_not_compared() {
        let mut results = with([0.5; 4]);
        results.partial = true;
        results.policies.get_mut("laedge").expect("in the sample")[2].valid = false;
        results.policies.get_mut("psq").expect("in the sample").pop();
        let text = stated(&results);
        assert!(
            text.starts_with("So far, LÆDGE’s") && text.contains("at 10 % and 30 % "),
            "{text}"
        );
        assert!(
            text.ends_with("At 50 % and 70 % there are no sound measurements of both."),
            "{text}"
        );
        results.policies.values_mut().flatten().for_each(|cell| cell.p99_ms = None);
        assert!(stated(&results).ends_with("which needs 1,000 good responses (--requests)."));
        results.order.clear();
        assert!(stated(&results).starts_with("Nothing to compare: fewer than two"));
    }

    #[test]
    fn a_busy_machine_comes_first_and_its_cells_are_not_compared() {
        let mut results = with([0.5; 4]);
        let disturb = |cell: &mut LoadPoint| {
            cell.machine = Some(Taken { others: 0.8, stolen: 0.04, stalled: Some(0.5) });
            cell.disturbed = true;
        };
        disturb(&mut results.policies.get_mut("laedge").expect("in the sample")[1]);
        results.watch();
        let text = stated(&results);
        let first = "1 of 12 cells (*) are about this machine, not about the policies: other \
                     processes took 80 % of its processors and the hypervisor 4 %. They are not \
                     compared. LÆDGE’s 99th";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("At 30 % there are no sound measurements of both."), "{text}");
        results.policies.values_mut().flatten().for_each(disturb);
        results.watch();
        results.compare();
        let text = stated(&results);
        assert!(text.starts_with("These figures are about this machine"), "{text}");
        assert!(text.ends_with("while it is idle. Nothing can be compared."), "{text}");
        let json = serde_json::to_value(&results).expect("JSON");
        let busy = &json["busy_machine"];
        assert_eq!((&busy["kind"], &busy["disturbed"]), (&"busy_machine".into(), &12.into()));
        assert_eq!(json["policies"]["psq"][0]["machine"]["stolen"], 0.04);
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
