//! What models predict, as it is told: times with their percentiles, and how far to trust them.

use std::fmt::Write as _;

use curtail_queueing::{Basis, Law, ModelError, Prediction, Tail};
use curtail_sim::Figures;
use serde::Serialize;

use super::refused;
use super::values::{Scale, figure};
use crate::exit::Stop;
use crate::verdict::Typed;

/// What stands where there is no figure.
const NONE: &str = "–";

/// How wide a column is at least.
const COLUMN: usize = 10;

/// What is said beside a line of a table; more is said below it.
const SHORT: usize = 20;

/// How far a figure is to be trusted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Trust {
    Exact,
    Approximation { method: &'static str },
    LowerBound,
    UpperBound,
}

impl Trust {
    fn typed(basis: Basis) -> Typed<Self> {
        let of = match basis {
            Basis::Exact => Self::Exact,
            Basis::Approximation(method) => Self::Approximation { method },
            Basis::LowerBound => Self::LowerBound,
            Basis::UpperBound => Self::UpperBound,
        };
        Typed::new(of, basis.to_string())
    }
}

/// A random time.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// How far the mean is to be trusted; none without a mean.
    mean_basis: Option<Typed<Trust>>,
    /// How far the percentiles are; none without percentiles.
    percentiles_basis: Option<Typed<Trust>>,
}

impl Told {
    /// Of a model's time. Where the model gives a mean only, there are no percentiles.
    pub(super) fn tail(tail: &Tail, percentiles: &[f64]) -> Result<Self, ModelError> {
        let basis = Some(Trust::typed(tail.mean_basis()));
        let mean = Some(tail.mean());
        Ok(match (tail.law(), tail.law_basis()) {
            (Some(law), Some(trust)) => {
                Self { mean_basis: basis, ..Self::law(law, trust, mean, percentiles)? }
            }
            _ => Self {
                figures: Figures {
                    mean,
                    percentiles: percentiles.iter().map(|&p| (p, None)).collect(),
                },
                mean_basis: basis,
                percentiles_basis: None,
            },
        })
    }

    /// Of a law without a known mean.
    pub(super) fn of_law(law: &Law, percentiles: &[f64]) -> Result<Self, ModelError> {
        Self::law(law, Basis::Exact, None, percentiles)
    }

    fn law(
        law: &Law,
        trust: Basis,
        mean: Option<f64>,
        percentiles: &[f64],
    ) -> Result<Self, ModelError> {
        let one = |&p: &f64| Ok((p, Some(law.quantile(p / 100.0)?)));
        let percentiles = percentiles.iter().map(one).collect::<Result<_, ModelError>>()?;
        let figures = Figures { mean, percentiles };
        Ok(Self { figures, mean_basis: None, percentiles_basis: Some(Trust::typed(trust)) })
    }

    fn trust(&self) -> String {
        match (&self.mean_basis, &self.percentiles_basis) {
            (Some(mean), Some(rest)) if mean == rest => mean.text.clone(),
            (Some(mean), Some(rest)) => format!("mean {}, percentiles {}", mean.text, rest.text),
            (Some(only), None) => format!("mean {}", only.text),
            (None, Some(rest)) => rest.text.clone(),
            (None, None) => String::new(),
        }
    }
}

/// A table of times, with a line for each.
pub(super) fn table(rows: &[(&str, &Told)]) -> String {
    let Some((_, first)) = rows.first() else { return String::new() };
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let has_mean = rows.iter().any(|(_, told)| told.figures.mean.is_some());
    let mut text = format!("{:width$}", "");
    if has_mean {
        let _ = write!(text, "{:>COLUMN$}", "mean");
    }
    let heads = first.figures.percentiles.iter().map(|(p, _)| format!("p{p}"));
    let heads: Vec<String> = heads.collect();
    let columns: Vec<usize> = heads.iter().map(|head| COLUMN.max(head.len() + 2)).collect();
    for (head, column) in heads.iter().zip(&columns) {
        let _ = write!(text, "{head:>column$}");
    }
    text.push('\n');
    let mut notes = String::new();
    for (name, told) in rows {
        let _ = write!(text, "{name:width$}");
        let percentiles = told.figures.percentiles.iter().map(|&(_, value)| value);
        let mean = has_mean.then_some((told.figures.mean, COLUMN));
        for (value, column) in mean.into_iter().chain(percentiles.zip(columns.iter().copied())) {
            let _ = write!(text, "{:>column$}", value.map_or(NONE.to_owned(), figure));
        }
        let trust = told.trust();
        if trust.chars().count() <= SHORT {
            let _ = writeln!(text, "   {trust}");
        } else {
            text.push('\n');
            let _ = writeln!(notes, "{name}: {trust}");
        }
    }
    text + if notes.is_empty() { "" } else { "\n" } + &notes
}

/// What a model of a station predicts.
#[derive(Debug, Serialize)]
pub(super) struct Predicted {
    pub(super) model: &'static str,
    pub(super) arrival_rate: f64,
    pub(super) utilization: f64,
    /// From arrival to the start of service.
    pub(super) wait: Told,
    /// From arrival to the end of service.
    pub(super) sojourn: Told,
    /// The share of queries that wait at all, as far to be trusted as the mean of the wait.
    pub(super) waiting_probability: Option<f64>,
    /// Queries that wait, on average.
    pub(super) mean_waiting: f64,
    /// Queries that wait or are served, on average.
    pub(super) mean_in_system: f64,
}

impl Predicted {
    pub(super) fn new(of: &Prediction, scale: Scale, percentiles: &[f64]) -> Result<Self, Stop> {
        Ok(Self {
            model: of.model,
            arrival_rate: scale.rate(of.arrival_rate),
            utilization: of.utilization,
            wait: Told::tail(&of.wait, percentiles).map_err(refused)?,
            sojourn: Told::tail(&of.sojourn, percentiles).map_err(refused)?,
            waiting_probability: of.wait.above_zero(),
            mean_waiting: of.mean_waiting(),
            mean_in_system: of.mean_in_system(),
        })
    }

    /// The times, and how many queries there are.
    pub(super) fn text(&self) -> String {
        let mut text = table(&[("wait", &self.wait), ("sojourn", &self.sojourn)]);
        text.push('\n');
        if let Some(share) = self.waiting_probability {
            let _ = write!(text, "{} % of the queries wait; ", figure(share * 100.0));
        }
        let [waiting, all] = [self.mean_waiting, self.mean_in_system].map(figure);
        let _ = write!(text, "on average {waiting} wait and {all} are there");
        let basis = self.wait.mean_basis.as_ref().filter(|basis| basis.of != Trust::Exact);
        let basis = basis.map_or(String::new(), |basis| format!(": {}", basis.text));
        let _ = writeln!(text, "{basis}");
        let unknown = match (&self.wait.percentiles_basis, &self.sojourn.percentiles_basis) {
            (None, _) if self.waiting_probability.is_none() => "the wait",
            (None, _) => "a wait with such a service",
            (_, None) => "the sojourn",
            _ => return text,
        };
        let _ = writeln!(
            text,
            "{NONE}: {} knows no percentiles of {unknown}; curtail sim measures them",
            self.model
        );
        text
    }
}
