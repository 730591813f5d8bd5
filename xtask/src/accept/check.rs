//! Checks the figures of a document against a bound.

use std::fmt;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::data::{Each, Vars, fill_value, joined};
use super::pointer::{figures, reduce, select};

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    /// The source does not specify a detail. The claim does not hold with the choice made here, but
    /// it holds with an alternative choice that the check lists.
    Explained,
    /// The claim does not hold, and the measured figure is in the range in which it was found
    /// before. The source claims something that its own policies do not achieve here.
    Contradicts,
    /// There is no bound; the figure is only reported.
    Noted,
    Broken,
    /// A requirement is missing on this machine, and the figure names it.
    Skipped,
}

/// A claim with its verdict.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) claim: String,
    pub(crate) figure: String,
    pub(crate) verdict: Verdict,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<11} {}: {}", self.verdict.name(), self.claim, self.figure)
    }
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Explained => "explained",
            Self::Contradicts => "CONTRADICTS",
            Self::Noted => "noted",
            Self::Broken => "BROKEN",
            Self::Skipped => "SKIPPED",
        }
    }
}

/// A claim about a document.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Check {
    text: String,
    /// Pointers to the figures, in the syntax of [`figures`].
    at: String,
    /// The unit of the figures. A bound may have a different unit.
    unit: String,
    /// Reduces the figures to one. This is a function of [`reduce`], `share-below X` or
    /// `share-above X` (in percent of all figures), or `crossing`. The last one returns the load,
    /// taken from `by`, at which the figures rise above 1.
    reduce: Option<String>,
    by: String,
    /// Whether figures may be missing.
    optional: bool,
    most: Option<Value>,
    least: Option<Value>,
    /// Strict upper and lower bounds.
    above: Option<Value>,
    below: Option<Value>,
    /// A value, and the maximum distance of a figure from it.
    near: Option<[Value; 2]>,
    /// In addition, limits that distance to this share of the value.
    relative: Option<f64>,
    /// Requires all values to equal this one.
    equals: Option<Value>,
    /// Requires all values, as text, to contain this text.
    contains: Option<String>,
    /// Requires all values to equal those at this pointer.
    same: Option<String>,
    /// The share of figures, in percent, that may violate the bound.
    but: Option<f64>,
    /// A pointer to values that are printed next to the figures.
    show: String,
    needs: Vec<String>,
    /// Applies the check only if this pointer finds something. Otherwise the claim holds.
    when: String,
    /// Other checks. If this check fails, one of these alternatives must hold.
    or: Vec<Value>,
    explained: Vec<Value>,
    /// The figure that the source claims, which is printed next to the measured one.
    published: String,
    /// The range in which the measured figure was found before, if the claim does not hold.
    contradicts: Vec<Value>,
}

/// Members that set bounds on figures. An alternative check that sets one of them replaces all of
/// them.
const BOUNDS: [&str; 6] = ["most", "least", "above", "below", "near", "relative"];

/// Expands a table of a file into its checks, one for each of its `rows`.
pub(super) fn expand(check: &Value, vars: &Vars) -> Result<Vec<Value>> {
    let mut check = check.clone();
    let each = check.as_object_mut().context("a check is a table")?.remove("each");
    let Some(each) = each else { return Ok(vec![fill_value(&check, vars)]) };
    let each: Each = serde_json::from_value(each)?;
    let rows = each.vars(vars, false)?;
    Ok(rows.iter().map(|row| fill_value(&check, &joined(vars, row))).collect())
}

/// Judges a document. `claim` is the claim of the line. `lacking` returns a message if a
/// requirement is missing here.
pub(super) fn judge(
    check: &Value,
    claim: &str,
    document: &Value,
    lacking: impl Fn(&[String]) -> Option<String> + Copy,
) -> Result<Finding> {
    let parsed: Check = serde_json::from_value(check.clone())
        .with_context(|| format!("a check of {claim:?}: {check}"))?;
    let text = if parsed.text.is_empty() { claim } else { &parsed.text };
    let finding = |figure: String, verdict| Finding { claim: text.to_owned(), figure, verdict };
    if let Some(why) = lacking(&parsed.needs) {
        return Ok(finding(why, Verdict::Skipped));
    }
    if !parsed.when.is_empty() && select(document, &parsed.when).is_empty() {
        return Ok(finding(String::new(), Verdict::Holds));
    }
    let (mut figure, mut verdict) = parsed.apply(document)?;
    let ours = figure.clone();
    for (others, becomes) in [
        (&parsed.or, Verdict::Holds),
        (&parsed.explained, Verdict::Explained),
        (&parsed.contradicts, Verdict::Contradicts),
    ] {
        for other in others {
            if verdict != Verdict::Broken {
                break;
            }
            let mut with = check.clone();
            let members = with.as_object_mut().context("a check is a table")?;
            let other = other.as_object().context("it is a table")?;
            for name in ["or", "explained", "contradicts", "published"] {
                members.remove(name);
            }
            if BOUNDS.iter().any(|name| other.contains_key(*name)) {
                members.retain(|name, _| !BOUNDS.contains(&&**name));
            }
            members.extend(other.clone());
            let next = judge(&with, claim, document, lacking)?;
            figure += &format!("; else {}", next.figure);
            if next.verdict == Verdict::Holds {
                verdict = becomes;
            }
        }
    }
    if verdict == Verdict::Contradicts {
        figure = ours;
    }
    if !parsed.published.is_empty() {
        figure = format!("published {}, ours {figure}", parsed.published);
    }
    Ok(finding(figure, verdict))
}

/// Rejects a check whose tolerance extends from its value to zero, because a policy that does
/// nothing would pass it.
pub(super) fn refuse_zeros(check: &Value) -> Result<()> {
    let parsed: Check = serde_json::from_value(check.clone()).with_context(|| check.to_string())?;
    if let (Some([value, off]), Some((at, by))) = (&parsed.near, parsed.tolerance()?) {
        ensure!(
            at == 0.0 || by < at.abs(),
            "{:?}: near = [{value}, {off}] is true of zero: the tolerance must be less than the \
             value; relative = 0.5 makes it at most half of it",
            parsed.text
        );
    }
    parsed.or.iter().chain(&parsed.explained).chain(&parsed.contradicts).try_for_each(refuse_zeros)
}

impl Check {
    fn apply(&self, document: &Value) -> Result<(String, Verdict)> {
        let about_values = self.equals.is_some() || self.contains.is_some() || self.same.is_some();
        let (mut figure, verdict) =
            if about_values { self.values(document) } else { self.numbers(document)? };
        if !self.show.is_empty() {
            let texts: Vec<String> = select(document, &self.show).into_iter().map(shown).collect();
            figure += &format!(" [{}]", texts.join("; "));
        }
        Ok((figure, verdict))
    }

    fn values(&self, document: &Value) -> (String, Verdict) {
        let found = select(document, &self.at);
        let same = self.same.as_ref().map(|pointer| select(document, pointer));
        let good = |(at, value): (usize, &&Value)| {
            self.equals.as_ref().is_none_or(|wanted| wanted == *value)
                && self.contains.as_ref().is_none_or(|part| shown(value).contains(part))
                && same.as_ref().is_none_or(|other| other.get(at) == Some(value))
        };
        let holds = !found.is_empty() && found.iter().enumerate().all(good);
        let texts: Vec<String> = found.into_iter().map(shown).collect();
        (listed(&texts), if holds { Verdict::Holds } else { Verdict::Broken })
    }

    fn numbers(&self, document: &Value) -> Result<(String, Verdict)> {
        let mut values = figures(document, &self.at);
        if let Some(function) = &self.reduce {
            values = vec![match function.split_once(' ') {
                Some((which @ ("share-below" | "share-above"), bound)) => {
                    let (bound, below): (f64, _) = (bound.parse()?, which == "share-below");
                    // A policy without a steady state counts as infinitely slow.
                    let value = |of: &Option<f64>| of.unwrap_or(f64::INFINITY);
                    let beyond = |of| if below { value(of) < bound } else { value(of) > bound };
                    let beyond = values.iter().filter(|of| beyond(of)).count();
                    Some(100.0 * beyond as f64 / values.len() as f64)
                }
                None if function == "crossing" => crossing(&values, &figures(document, &self.by)),
                _ => reduce(&values, function),
            }];
        }
        let there: Vec<f64> = values.iter().copied().flatten().collect();
        let texts: Vec<String> = there.iter().map(|value| human(*value, &self.unit)).collect();
        let (keeps, bound) = self.bound()?;
        let whole = !there.is_empty() && (self.optional || there.len() == values.len());
        let broken = there.iter().filter(|value| !keeps(**value)).count();
        let few = broken as f64 <= self.but.unwrap_or(0.0) / 100.0 * there.len() as f64;
        let verdict = match (whole, bound.is_empty()) {
            (_, true) => Verdict::Noted,
            (true, false) if few => Verdict::Holds,
            _ => Verdict::Broken,
        };
        let missing = if whole || self.optional { "" } else { ", some are missing" };
        let bound = if bound.is_empty() { bound } else { format!(" ({bound})") };
        Ok((format!("{}{missing}{bound}", listed(&texts)), verdict))
    }

    /// Returns the value that figures must be near, and their maximum distance from it.
    fn tolerance(&self) -> Result<Option<(f64, f64)>> {
        let Some([value, off]) = &self.near else { return Ok(None) };
        let (value, off) = (quantity(value, &self.unit)?, quantity(off, &self.unit)?);
        let share = self.relative.map_or(f64::INFINITY, |share| share * value.abs());
        Ok(Some((value, off.min(share))))
    }

    /// Returns the condition on a figure, and its text. The text is empty if there is no bound.
    fn bound(&self) -> Result<(impl Fn(f64) -> bool, String)> {
        let of = |value: &Option<Value>| {
            value.as_ref().map(|value| quantity(value, &self.unit)).transpose()
        };
        let near = self.tolerance()?.map(|(value, off)| (value - off, value + off));
        type Keeps = fn(f64, f64) -> bool;
        let edges: [(&str, Option<f64>, Keeps); 6] = [
            ("at most", of(&self.most)?, |value, bound| value <= bound),
            ("at least", of(&self.least)?, |value, bound| value >= bound),
            ("above", of(&self.above)?, |value, bound| value > bound),
            ("below", of(&self.below)?, |value, bound| value < bound),
            ("from", near.map(|(from, _)| from), |value, bound| value >= bound),
            ("to", near.map(|(_, to)| to), |value, bound| value <= bound),
        ];
        let edges = edges.into_iter().filter_map(|(word, bound, good)| Some((word, bound?, good)));
        let edges: Vec<_> = edges.collect();
        let words =
            edges.iter().map(|(word, bound, _)| format!("{word} {}", human(*bound, &self.unit)));
        let words = words.collect::<Vec<_>>().join(" ");
        Ok((move |value| edges.iter().all(|(_, bound, good)| good(value, *bound)), words))
    }
}

/// Returns the load at which the figures rise above 1, interpolated linearly between two loads. If
/// the second figure is unknown, returns the middle of the two loads, because a policy without a
/// steady state counts as infinitely slow.
fn crossing(values: &[Option<f64>], loads: &[Option<f64>]) -> Option<f64> {
    let mut points: Vec<(f64, Option<f64>)> =
        loads.iter().zip(values).filter_map(|(load, value)| Some(((*load)?, *value))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.windows(2).find_map(|pair| {
        let ((from, before), (to, behind)) = (pair[0], pair[1]);
        let before = before.filter(|value| *value < 1.0)?;
        let Some(behind) = behind else { return Some(f64::midpoint(from, to)) };
        (behind >= 1.0).then(|| from + (to - from) * (1.0 - before) / (behind - before))
    })
}

/// Units of time, in ns.
const UNITS: [(&str, f64); 6] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("min", 6e10), ("s", 1e9)];

/// Parses a bound and converts it to the unit of the figures: a number, or a text such as `50us` or
/// `30 %`.
fn quantity(value: &Value, unit: &str) -> Result<f64> {
    let Some(text) = value.as_str() else {
        return value.as_f64().with_context(|| format!("{value} is not a bound"));
    };
    let start = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+' | 'e'));
    let (number, of) = text.split_at(start.unwrap_or(text.len()));
    let number: f64 = number.parse().with_context(|| format!("{text:?} is not a bound"))?;
    let in_ns = |name: &str| UNITS.iter().find(|(unit, _)| *unit == name).map(|(_, ns)| *ns);
    match (of.trim(), in_ns(of.trim()), in_ns(unit)) {
        ("", ..) => Ok(number),
        ("%", ..) => Ok(number / 100.0),
        (_, Some(ns), Some(of_figures)) => Ok(number * ns / of_figures),
        _ => {
            ensure!(of.trim() == unit, "{text:?} is not a bound for figures in {unit:?}");
            Ok(number)
        }
    }
}

/// Formats a figure with its unit.
fn human(value: f64, unit: &str) -> String {
    let (value, unit) = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, ns)) => {
            let ns = value * ns;
            let units = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
            let (name, size) = *units.iter().find(|(_, s)| ns.abs() >= *s).unwrap_or(&units[3]);
            (ns / size, name)
        }
        None => (value, unit),
    };
    let space = if unit.is_empty() { "" } else { " " };
    let digits = match value.abs() {
        x if x == x.trunc() => 0,
        x if x >= 100.0 => 1,
        x if x >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}{space}{unit}")
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The maximum number of figures that are printed one by one.
const SHOWN: usize = 8;

fn listed(texts: &[String]) -> String {
    match texts {
        [] => "no figures".into(),
        few if few.len() <= SHOWN => few.join(", "),
        many => format!("{}, … {} in all", many[..SHOWN].join(", "), many.len()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(check: &Value, document: &Value) -> (Verdict, String) {
        let found = judge(check, "claim", document, |_| None).expect("a check");
        (found.verdict, found.figure)
    }

    #[test]
    fn bounds_are_kept_or_broken() {
        let document = json!({"a": 5, "many": [1, 2, 3], "gap": [1, null], "yes": [true, true]});
        use Verdict::{Broken, Holds, Noted};
        for (check, wanted) in [
            (json!({"at": "/a", "most": 5}), Holds),
            (json!({"at": "/a", "below": 5}), Broken),
            (json!({"at": "/a", "above": 4, "least": 5}), Holds),
            (json!({"at": "/a", "near": [6, 0.5]}), Broken),
            (json!({"at": "/a"}), Noted),
            (json!({"at": "/many/*", "most": 2}), Broken),
            (json!({"at": "/many/*", "most": 2, "but": 34}), Holds),
            (json!({"at": "/many/*", "reduce": "median", "most": 2}), Holds),
            (json!({"at": "/gap/*", "most": 2}), Broken),
            (json!({"at": "/gap/*", "most": 2, "optional": true}), Holds),
            (json!({"at": "/nothing/*", "most": 2}), Broken),
            (json!({"at": "/yes/*", "equals": true}), Holds),
            (json!({"at": "/many/*", "equals": 1}), Broken),
            (json!({"at": "/nothing/*", "equals": true}), Broken),
            (json!({"at": "/many", "same": "/many"}), Holds),
            (json!({"at": "/many", "same": "/gap"}), Broken),
            (json!({"at": "/a", "most": 4, "or": [{"at": "/a over 2"}]}), Holds),
        ] {
            assert_eq!(verdict(&check, &document).0, wanted, "{check}");
        }
        let explained = json!({"at": "/a", "most": 4, "explained": [{"most": 3}, {"most": 5}]});
        assert_eq!(verdict(&explained, &document).0, Verdict::Explained);
        assert!(judge(&json!({"att": ""}), "claim", &document, |_| None).is_err());
    }

    #[test]
    fn a_contradiction_requires_our_figure_in_the_recorded_range() {
        let check = json!({
            "at": "/a", "near": [1, 0.1], "published": "1",
            "contradicts": [{"least": 1.2, "most": 1.3}],
        });
        let of = |a: f64| verdict(&check, &json!({ "a": a }));
        let bound = "from 0.9000 to 1.10";
        assert_eq!(of(1.05), (Verdict::Holds, format!("published 1, ours 1.05 ({bound})")));
        assert_eq!(of(1.25), (Verdict::Contradicts, format!("published 1, ours 1.25 ({bound})")));
        assert_eq!(of(1.5).0, Verdict::Broken);
    }

    #[test]
    fn a_tolerance_that_includes_zero_is_rejected() {
        let refused = |check: Value| refuse_zeros(&check).map_err(|error| error.to_string());
        for near in [json!([0.2, 6]), json!([-2, 2]), json!(["5ms", "5ms"])] {
            let check = json!({"text": "a cell", "unit": "ns", "near": near});
            let error = refused(check.clone()).expect_err("it is true of zero");
            assert!(error.starts_with(r#""a cell": near = ["#), "{error}");
            assert!(refused(json!({"near": [1, 0.5], "unit": "ns", "or": [check]})).is_err());
        }
        assert_eq!(refused(json!({"near": [0, 1]})), Ok(()));
        assert_eq!(refused(json!({"near": ["30 %", "10 %"]})), Ok(()));
        let small = json!({"at": "/a", "near": [0.2, 6], "relative": 0.5});
        assert_eq!(refused(small.clone()), Ok(()));
        assert_eq!(verdict(&small, &json!({"a": 0})).0, Verdict::Broken);
        assert_eq!(verdict(&small, &json!({"a": 0.3})).0, Verdict::Holds);
    }

    #[test]
    fn bounds_have_units() {
        for (text, unit, is) in
            [("50us", "ns", 5e4), ("1 s", "ms", 1e3), ("30 %", "", 0.3), ("-2e3", "ns", -2e3)]
        {
            assert_eq!(quantity(&text.into(), unit).expect(text), is, "{text}");
        }
        assert!(quantity(&"5 s".into(), "MiB").is_err() && quantity(&"x".into(), "").is_err());
        let document = json!({"ns": 2_500_000});
        let (holds, figure) =
            verdict(&json!({"at": "/ns", "unit": "ns", "most": "2.5ms"}), &document);
        assert_eq!((holds, &*figure), (Verdict::Holds, "2.50 ms (at most 2.50 ms)"));
    }

    #[test]
    fn shares_and_crossings_use_all_points() {
        let points = json!([
            {"load": 0.2, "a": 1.0, "b": 2.0}, {"load": 0.1, "a": 1.0, "b": 4.0},
            {"load": 0.3, "a": 3.0, "b": 2.0}, {"load": 0.4, "a": null, "b": 2.0},
        ]);
        let of = |reduce: &str| {
            let check = json!({"at": "/*/a over /*/b", "by": "/*/load", "reduce": reduce});
            verdict(&check, &points).1
        };
        assert_eq!((of("share-below 0.3"), of("share-below 0.6")), ("25".into(), "50".into()));
        assert_eq!((of("share-above 0.6"), of("share-above 2")), ("50".into(), "25".into()));
        assert_eq!(of("crossing"), "0.2500");
    }

    #[test]
    fn a_table_expands_to_one_check_per_row() {
        let check = json!({
            "each": {"columns": ["of", "most"], "rows": [["a", 1.5], ["b", 2]]},
            "text": "{of} {what}", "at": "/{of}", "most": "{most}",
        });
        let vars = Vars::from([("what".into(), "is small".into())]);
        let all = expand(&check, &vars).expect("rows");
        assert_eq!(all[1], json!({"text": "b is small", "at": "/b", "most": 2.0}));
        let needs = json!({"at": "/a", "needs": ["x"]});
        let skipped = judge(&needs, "claim", &json!({}), |_| Some("no x".into())).expect("known");
        assert_eq!(skipped.to_string(), "SKIPPED     claim: no x");
    }
}
