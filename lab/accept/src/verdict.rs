//! Bounds on figures, and the verdict on a claim.

use std::fmt;

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

/// A condition on figures, in their unit. Without any limit, figures are only reported. A figure
/// that is NaN is missing, and breaks the claim unless the bound is `optional`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bound {
    limits: Vec<Limit>,
    unit: &'static str,
    optional: bool,
    /// The share of figures, in percent, that may violate the limits.
    but: f64,
    published: String,
    contradicts: Option<Box<Bound>>,
    explained: Vec<Alternative>,
    show: String,
}

/// A choice for which a claim may hold instead: other figures, or other limits.
#[derive(Clone, Debug)]
enum Alternative {
    Figures(Vec<f64>),
    Limits(Box<Bound>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    Most(f64),
    Least(f64),
    Above(f64),
    Below(f64),
    From(f64),
    To(f64),
}

/// Reports figures without judging them.
pub(crate) fn noted() -> Bound {
    Bound::default()
}

/// Requires figures of at most this value.
pub(crate) fn most(value: f64) -> Bound {
    noted().most(value)
}

/// Requires figures of at least this value.
pub(crate) fn least(value: f64) -> Bound {
    noted().least(value)
}

/// Requires figures above this value.
pub(crate) fn above(value: f64) -> Bound {
    noted().with(Limit::Above(value))
}

/// Requires figures below this value.
pub(crate) fn below(value: f64) -> Bound {
    noted().with(Limit::Below(value))
}

/// Requires figures within `off` of a value.
///
/// # Panics
///
/// If the tolerance extends from the value to zero, because a policy that does nothing would pass.
pub(crate) fn near(value: f64, off: f64) -> Bound {
    assert!(value == 0.0 || off < value.abs(), "near({value}, {off}) is true of zero");
    noted().with(Limit::From(value - off)).with(Limit::To(value + off))
}

impl Bound {
    fn with(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    pub(crate) fn most(self, value: f64) -> Self {
        self.with(Limit::Most(value))
    }

    pub(crate) fn least(self, value: f64) -> Self {
        self.with(Limit::Least(value))
    }

    /// The unit of the figures and the limits. Times are printed in a unit that suits their length.
    pub(crate) fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Allows missing figures.
    pub(crate) fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// Allows this share of the figures, in percent, to violate the limits.
    pub(crate) fn but(self, percent: f64) -> Self {
        Self { but: percent, ..self }
    }

    /// What the source claims, which is printed next to the measured figure.
    pub(crate) fn published(self, text: impl Into<String>) -> Self {
        Self { published: text.into(), ..self }
    }

    /// The range in which the measured figure was found before, if the claim does not hold.
    pub(crate) fn contradicts(self, range: Bound) -> Self {
        Self { contradicts: Some(Box::new(range)), ..self }
    }

    /// Other figures for which the claim must hold, if it does not hold for the first ones. They
    /// have the same limits. If several alternatives are added, one of them must hold.
    pub(crate) fn explained(mut self, figures: impl Into<Figures>) -> Self {
        self.explained.push(Alternative::Figures(figures.into().0));
        self
    }

    /// Wider limits, or a larger share that may violate them, which must hold for the same figures
    /// if the claim does not hold.
    pub(crate) fn explained_by(mut self, limits: Bound) -> Self {
        self.explained.push(Alternative::Limits(Box::new(limits)));
        self
    }

    /// A text that is printed behind the figures.
    pub(crate) fn show(self, text: impl Into<String>) -> Self {
        Self { show: text.into(), ..self }
    }

    /// Judges figures. Returns their text with the limits, and the verdict.
    pub(crate) fn judge(&self, figures: &[f64]) -> (String, Verdict) {
        let (mut figure, mut verdict) = self.apply(figures);
        let ours = figure.clone();
        if !self.show.is_empty() {
            figure += &format!(" [{}]", self.show);
        }
        for other in &self.explained {
            if verdict != Verdict::Broken {
                break;
            }
            let (next, found) = match other {
                Alternative::Figures(others) => self.apply(others),
                Alternative::Limits(wider) => self.within(wider).apply(figures),
            };
            figure += &format!("; else {next}");
            if found == Verdict::Holds {
                verdict = Verdict::Explained;
            }
        }
        if let (Verdict::Broken, Some(range)) = (verdict, &self.contradicts) {
            let (next, found) = self.within(range).apply(figures);
            figure += &format!("; else {next}");
            if found == Verdict::Holds {
                (figure, verdict) = (ours, Verdict::Contradicts);
            }
        }
        if !self.published.is_empty() {
            figure = format!("published {}, ours {figure}", self.published);
        }
        (figure, verdict)
    }

    /// Returns this bound with other limits.
    fn within(&self, other: &Self) -> Self {
        Self { limits: other.limits.clone(), but: self.but.max(other.but), ..self.clone() }
    }

    fn apply(&self, figures: &[f64]) -> (String, Verdict) {
        let there: Vec<f64> = figures.iter().copied().filter(|value| !value.is_nan()).collect();
        let whole = !there.is_empty() && (self.optional || there.len() == figures.len());
        let broken = there.iter().filter(|value| !self.limits.iter().all(|l| l.keeps(**value)));
        let few = broken.count() as f64 <= self.but / 100.0 * there.len() as f64;
        let verdict = match (whole, self.limits.is_empty()) {
            (_, true) => Verdict::Noted,
            (true, false) if few => Verdict::Holds,
            _ => Verdict::Broken,
        };
        let missing = if whole || self.optional { "" } else { ", some are missing" };
        let limits: Vec<String> = self.limits.iter().map(|limit| limit.text(self.unit)).collect();
        let limits = if limits.is_empty() { "".into() } else { format!(" ({})", limits.join(" ")) };
        let texts: Vec<String> = there.iter().map(|value| human(*value, self.unit)).collect();
        (format!("{}{missing}{limits}", listed(&texts)), verdict)
    }
}

impl Limit {
    fn keeps(self, value: f64) -> bool {
        match self {
            Self::Most(bound) | Self::To(bound) => value <= bound,
            Self::Least(bound) | Self::From(bound) => value >= bound,
            Self::Above(bound) => value > bound,
            Self::Below(bound) => value < bound,
        }
    }

    fn text(self, unit: &str) -> String {
        let (word, bound) = match self {
            Self::Most(bound) => ("at most", bound),
            Self::Least(bound) => ("at least", bound),
            Self::Above(bound) => ("above", bound),
            Self::Below(bound) => ("below", bound),
            Self::From(bound) => ("from", bound),
            Self::To(bound) => ("to", bound),
        };
        format!("{word} {}", human(bound, unit))
    }
}

/// Figures of a claim: one or several. `None` and NaN are missing.
#[derive(Clone, Debug)]
pub(crate) struct Figures(pub(crate) Vec<f64>);

impl From<f64> for Figures {
    fn from(figure: f64) -> Self {
        Self(vec![figure])
    }
}

impl From<Option<f64>> for Figures {
    fn from(figure: Option<f64>) -> Self {
        Self(vec![figure.unwrap_or(f64::NAN)])
    }
}

impl<const N: usize> From<[f64; N]> for Figures {
    fn from(figures: [f64; N]) -> Self {
        Self(figures.into())
    }
}

impl From<Vec<f64>> for Figures {
    fn from(figures: Vec<f64>) -> Self {
        Self(figures)
    }
}

impl From<&[f64]> for Figures {
    fn from(figures: &[f64]) -> Self {
        Self(figures.into())
    }
}

/// Units of time, in ns.
const UNITS: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Formats a figure with its unit.
pub(crate) fn human(value: f64, unit: &str) -> String {
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

/// The maximum number of figures that are printed one by one.
const SHOWN: usize = 8;

/// Joins figures or values, and counts them if they are many.
pub(crate) fn listed(texts: &[String]) -> String {
    match texts {
        [] => "no figures".into(),
        few if few.len() <= SHOWN => few.join(", "),
        many => format!("{}, … {} in all", many[..SHOWN].join(", "), many.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Broken, Contradicts, Explained, Holds, Noted};
    use super::*;

    #[test]
    fn bounds_are_kept_or_broken() {
        let nan = f64::NAN;
        for (bound, figures, wanted) in [
            (most(5.0), vec![5.0], Holds),
            (below(5.0), vec![5.0], Broken),
            (above(4.0).least(5.0), vec![5.0], Holds),
            (near(6.0, 0.5), vec![5.0], Broken),
            (noted(), vec![5.0], Noted),
            (most(2.0), vec![1.0, 2.0, 3.0], Broken),
            (most(2.0).but(34.0), vec![1.0, 2.0, 3.0], Holds),
            (most(2.0), vec![1.0, nan], Broken),
            (most(2.0).optional(), vec![1.0, nan], Holds),
            (most(2.0).optional(), vec![], Broken),
            (most(2.0).optional(), vec![nan], Broken),
            (most(4.0).explained([3.0]), vec![5.0], Explained),
            (most(4.0).explained_by(most(5.0)), vec![5.0], Explained),
            (most(4.0).explained_by(most(4.5)), vec![5.0], Broken),
            (most(4.0).explained([4.5]).explained([3.0]), vec![5.0], Explained),
            (most(2.0).explained_by(most(2.0).but(34.0)), vec![1.0, 2.0, 3.0], Explained),
            (most(2.0).explained_by(most(2.0).but(33.0)), vec![1.0, 2.0, 3.0], Broken),
        ] {
            assert_eq!(bound.judge(&figures).1, wanted, "{bound:?} {figures:?}");
        }
    }

    #[test]
    fn a_contradiction_requires_our_figure_in_the_recorded_range() {
        let bound = near(1.0, 0.1).published("1").contradicts(least(1.2).most(1.3));
        let text = "from 0.9000 to 1.10";
        assert_eq!(bound.judge(&[1.05]), (format!("published 1, ours 1.05 ({text})"), Holds));
        assert_eq!(bound.judge(&[1.25]), (format!("published 1, ours 1.25 ({text})"), Contradicts));
        assert_eq!(bound.judge(&[1.5]).1, Broken);
    }

    #[test]
    #[should_panic(expected = "true of zero")]
    fn a_tolerance_that_includes_zero_is_rejected() {
        near(0.2, 6.0);
    }

    #[test]
    fn figures_have_units() {
        assert_eq!(most(2.5e6).unit("ns").judge(&[2.5e6]).0, "2.50 ms (at most 2.50 ms)");
        assert_eq!(human(300.0, "MiB"), "300 MiB");
        assert_eq!(listed(&vec!["1".to_owned(); 9]), "1, 1, 1, 1, 1, 1, 1, 1, … 9 in all");
    }
}
