//! A table of *published / ours / difference / verdict*.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Whether ours is what was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Within the tolerance that the row names.
    Agrees,
    /// Outside of it with the choice made here where the source is silent, and within it with another
    /// that the row names.
    Explained,
    /// Outside of it.
    Differs,
    /// Known not to be what was published; the row says what is.
    Reported,
}

impl From<bool> for Verdict {
    fn from(agrees: bool) -> Self {
        if agrees { Self::Agrees } else { Self::Differs }
    }
}

/// One published figure, and ours.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) claim: String,
    pub(crate) published: String,
    pub(crate) ours: String,
    /// Ours minus the published figure, where there is one number.
    pub(crate) difference: Option<f64>,
    pub(crate) verdict: Verdict,
}

impl Row {
    /// A number that should be within `tolerance` of the published one.
    pub(crate) fn close(claim: &str, published: f64, ours: f64, tolerance: f64) -> Self {
        Self {
            claim: claim.to_owned(),
            published: format!("{published} ± {tolerance:.3}"),
            ours: format!("{ours:.3}"),
            difference: Some(ours - published),
            verdict: ((ours - published).abs() <= tolerance).into(),
        }
    }

    /// A number that should be in a range.
    pub(crate) fn within(claim: &str, (from, to): (f64, f64), ours: f64) -> Self {
        Self {
            claim: claim.to_owned(),
            published: format!("{from} to {to}"),
            ours: format!("{ours:.3}"),
            difference: None,
            verdict: (from..=to).contains(&ours).into(),
        }
    }

    /// Something that holds or not.
    pub(crate) fn holds(claim: &str, ours: String, holds: bool) -> Self {
        let verdict = holds.into();
        Self { claim: claim.to_owned(), published: "holds".into(), ours, difference: None, verdict }
    }

    /// Something published that is not expected to hold here, for a reason that the claim names.
    pub(crate) fn reported(claim: &str, published: &str, ours: String) -> Self {
        Self {
            claim: claim.to_owned(),
            published: published.to_owned(),
            ours,
            difference: None,
            verdict: Verdict::Reported,
        }
    }
}

pub(crate) fn render(rows: &[Row]) -> String {
    let width = |of: fn(&Row) -> &str| rows.iter().map(|row| of(row).chars().count()).max();
    let [claim, published, ours] =
        [width(|row| &row.claim), width(|row| &row.published), width(|row| &row.ours)]
            .map(|width| width.unwrap_or(0).max(9) + 2);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<claim$}{:<published$}{:<ours$}{:>10}  verdict",
        "claim", "published", "ours", "difference"
    );
    for row in rows {
        let difference = row.difference.map_or(String::new(), |by| format!("{by:+.3}"));
        let verdict = match row.verdict {
            Verdict::Agrees => "agrees",
            Verdict::Explained => "explained",
            Verdict::Differs => "DIFFERS",
            Verdict::Reported => "reported",
        };
        let Row { claim: what, published: theirs, ours: mine, .. } = row;
        let _ = writeln!(
            text,
            "{what:<claim$}{theirs:<published$}{mine:<ours$}{difference:>10}  {verdict}"
        );
    }
    text
}

pub(crate) fn json(rows: &[Row]) -> Value {
    let row = |row: &Row| {
        let agrees = match row.verdict {
            Verdict::Agrees => Some(true),
            Verdict::Differs => Some(false),
            Verdict::Explained | Verdict::Reported => None,
        };
        json!({
            "claim": row.claim, "published": row.published, "ours": row.ours,
            "difference": row.difference, "agrees": agrees,
            "explained": row.verdict == Verdict::Explained,
        })
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_judged_by_what_they_allow() {
        assert_eq!(Row::close("a", 16.6, 16.7, 0.166).verdict, Verdict::Agrees);
        assert_eq!(Row::close("a", 16.6, 16.8, 0.166).verdict, Verdict::Differs);
        assert_eq!(Row::within("b", (0.23, 0.26), 0.26).verdict, Verdict::Agrees);
        assert_eq!(Row::within("b", (0.23, 0.26), f64::NAN).verdict, Verdict::Differs);
    }

    #[test]
    fn the_table_says_what_differs() {
        let text = render(&[Row::close("claim", 1.0, 3.0, 0.5)]);
        let last = text.lines().last().expect("a row");
        assert!(last.contains("+2.000") && last.ends_with("DIFFERS"), "{text}");
    }

    #[test]
    fn what_is_only_reported_neither_agrees_nor_differs() {
        let rows = [Row::reported("claim", "never", "sometimes".to_owned())];
        assert_eq!(json(&rows)[0]["agrees"], Value::Null);
        assert!(render(&rows).lines().last().is_some_and(|row| row.ends_with("reported")));
    }
}
