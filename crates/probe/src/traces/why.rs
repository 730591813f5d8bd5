//! Finds reasons why a stage of traces varies: its number of calls, and attributes of its spans.
//!
//! Each reason predicts the self time of the stage in a trace. The number of calls predicts that
//! the self time is this number, multiplied by the mean over all calls. An attribute predicts the
//! self time as a sum over the calls, in which each call contributes the mean of all calls with the
//! same attribute value. The share of the variance that a prediction explains is the square of its
//! correlation with the self time, adjusted for the number of values. An attribute must explain
//! more than the number of calls does. If several keys explain the same share, as the keys of pods
//! and of their hosts may, the key with the fewest values is reported.
//!
//! Cost: one pass over the calls of a stage for each attribute key.

use std::collections::BTreeMap;

use super::attributes::{Attribute, Class, Sets};
use super::critical::{Part, Path};
use crate::causes::EXPLAINS_MIN;
use crate::moments::Moments;
use crate::profile::{Evidence, Reason};
use crate::rank::over;

/// Attribute values with fewer calls than this share one mean.
const CALLS_MIN: f64 = 5.0;
/// The minimum number of traces from which a reason is computed.
const TRACES_MIN: usize = 20;
/// An attribute must explain at least this much more than the number of calls does.
const BEYOND_CALLS: f64 = 0.15;
/// Shares that differ by less than this count as equal.
const SAME: f64 = 0.03;

/// The calls of a stage, grouped by trace.
struct StageCalls<'a> {
    /// The index of the stage in the profile.
    place: usize,
    calls: Vec<&'a [Part]>,
    sets: &'a Sets,
}

/// Returns the reasons why a stage varies, in descending order of the share that they explain.
pub(super) fn reasons(
    paths: &[&Path],
    place: usize,
    stage: u32,
    sets: &Sets,
    names: &[String],
) -> Vec<Reason> {
    if paths.len() < TRACES_MIN {
        return Vec::new();
    }
    let calls = paths.iter().map(|path| {
        let begin = path.parts.partition_point(|part| part.stage < stage);
        let count = path.parts[begin..].partition_point(|part| part.stage == stage);
        &path.parts[begin..begin + count]
    });
    let stage = StageCalls { place, calls: calls.collect(), sets };
    let by_calls = stage.explained(2, |part| f64::from(part.calls));
    let mut found: Vec<Reason> = stage.many(by_calls, names).into_iter().collect();
    for keys in stage.keys().chunk_by(|a, b| a.class == b.class) {
        let reasons = keys.iter().filter_map(|key| match key.class {
            Class::Queue => Some((1, stage.queued(key))),
            _ => stage.by_value(key),
        });
        let reasons: Vec<(usize, Reason)> = reasons.collect();
        let best = reasons.iter().map(|of| of.1.explains).fold(0.0, f64::max);
        let same = reasons.into_iter().filter(|of| of.1.explains >= best - SAME);
        let first = same.min_by_key(|of| of.0).map(|of| of.1);
        found.extend(first.filter(|of| of.explains >= by_calls + BEYOND_CALLS));
    }
    found.retain(|of| of.explains >= EXPLAINS_MIN);
    found.sort_by(|a, b| b.explains.total_cmp(&a.explains));
    found
}

impl StageCalls<'_> {
    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.calls.iter().copied().flatten()
    }

    /// Returns the keys of the stage's attributes, sorted by class and rank.
    fn keys(&self) -> Vec<&Attribute> {
        let mut sets: Vec<u32> = self.parts().map(|part| part.attributes).collect();
        sets.sort_unstable();
        sets.dedup();
        let mut keys: Vec<&Attribute> = sets.iter().flat_map(|&set| self.sets.get(set)).collect();
        keys.sort_unstable();
        keys.dedup_by_key(|of| &of.key);
        keys
    }

    fn value(&self, part: &Part, key: &str) -> &str {
        let found = self.sets.get(part.attributes).iter().find(|of| of.key == key);
        found.map_or("", |of| &of.value)
    }

    /// Returns the share of the variance of the self times that is explained by a prediction with
    /// this number of parameters.
    fn explained(&self, parameters: usize, prediction: impl Fn(&Part) -> f64) -> f64 {
        let mut moments = Moments::new(2);
        for parts in &self.calls {
            let own = parts.iter().map(|part| part.self_ns as f64).sum();
            moments.record(&[own, parts.iter().map(&prediction).sum()]);
        }
        let (n, together) = (self.calls.len() as f64, moments.covariance(0, 1));
        let explains = together / moments.variance(0) * (together / moments.variance(1));
        let left = n - parameters as f64;
        match together > 0.0 && left > 0.0 {
            true => 1.0 - (1.0 - explains).max(0.0) * (n - 1.0) / left,
            false => 0.0,
        }
    }

    fn reason(&self, kind: Evidence, explains: f64, of: String, text: String) -> Reason {
        Reason { stage: self.place, kind, explains: explains.clamp(0.0, 1.0), of, text }
    }

    /// Returns the varying number of calls as a reason. `None` if no trace calls the stage more
    /// than once, because parallel spans determine whether a single call is on the path.
    fn many(&self, explains: f64, names: &[String]) -> Option<Reason> {
        let counts =
            self.calls.iter().map(|parts| parts.iter().map(|part| part.calls).sum::<u32>());
        let (least, most) = (counts.clone().min()?, counts.clone().max().filter(|most| *most > 1)?);
        let further: u32 = counts.map(|count| count.saturating_sub(1)).sum();
        let again = |part: &&Part| self.sets.get(part.attributes).iter().any(Attribute::is_retry);
        let again: u32 = self.parts().filter(again).map(|part| part.calls).sum();
        let are_retries = again > 0 && again * 2 >= further;
        let noun = if are_retries { "attempts, most of them retries" } else { "calls" };
        let mut callers = BTreeMap::<u32, u32>::new();
        self.parts().for_each(|part| *callers.entry(part.caller).or_default() += part.calls);
        let caller = callers.into_iter().max_by_key(|of| of.1)?.0;
        let caller = names.get(caller as usize)?.clone();
        let each = ms(self.parts().fold(Sum::default(), Sum::with).mean_ns());
        let text = format!(
            "{caller} makes {least} to {most} {noun} per request, one after another, of {each} \
             each: their number varies, not their duration"
        );
        Some(self.reason(Evidence::Calls, explains, caller, text))
    }

    /// Returns an attribute as a reason, along with its number of values. The attribute is a reason
    /// if calls with one of its values take longer than others.
    fn by_value(&self, key: &Attribute) -> Option<(usize, Reason)> {
        let mut values = BTreeMap::<&str, Sum>::new();
        for part in self.parts() {
            let sum = values.entry(self.value(part, &key.key)).or_default();
            *sum = sum.with(part);
        }
        let all = self.parts().fold(Sum::default(), Sum::with);
        let of_rare =
            self.parts().filter(|part| values[self.value(part, &key.key)].calls < CALLS_MIN);
        let rare = of_rare.fold(Sum::default(), Sum::with);
        let mean = |value: &str| match values[value] {
            sum if sum.calls >= CALLS_MIN => sum.mean_ns(),
            _ => rare.mean_ns(),
        };
        let count = values.values().filter(|of| of.calls >= CALLS_MIN).count();
        let predicted = |part: &Part| mean(self.value(part, &key.key)) * f64::from(part.calls);
        let explains = self.explained(count + 1, predicted);
        let beyond = |of: &Sum| of.mean_ns() - all.mean_ns();
        let slow = values
            .iter()
            .filter(|(value, of)| !value.is_empty() && of.calls >= CALLS_MIN && beyond(of) > 0.0);
        let weight = |of: &Sum| of.calls * beyond(of).powi(2);
        let (value, sum) = slow.max_by(|a, b| weight(a.1).total_cmp(&weight(b.1)))?;
        let (calls, others) = (sum.calls, over(all.ns - sum.ns, all.calls - sum.calls));
        let (mean, others) = (ms(sum.mean_ns()), ms(others));
        let of = format!("{} = {value}", key.key);
        let text = format!("{calls} calls with {of} take {mean} on average, others {others}");
        Some((count, self.reason(Evidence::Attribute, explains, of, text)))
    }

    /// Returns the queueing time as a reason, which applies if calls that queued for longer take
    /// longer.
    fn queued(&self, key: &Attribute) -> Reason {
        let explains = self.explained(2, |part| f64::from(part.queued));
        let text = format!("it takes longer the larger its {} is: it waits in a queue", key.key);
        self.reason(Evidence::Queue, explains, key.key.clone(), text)
    }
}

fn ms(ns: f64) -> String {
    format!("{:.3} ms", ns / 1e6)
}

/// The number of calls, and the sum of their self times.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    calls: f64,
    ns: f64,
}

impl Sum {
    fn with(self, part: &Part) -> Sum {
        Sum { calls: self.calls + f64::from(part.calls), ns: self.ns + part.self_ns as f64 }
    }

    fn mean_ns(&self) -> f64 {
        over(self.ns, self.calls)
    }
}
