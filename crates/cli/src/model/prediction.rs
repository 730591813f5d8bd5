//! What models predict, as it is told: times with their percentiles, and how far to trust them.

use std::fmt::Write as _;

use curtail_queueing::{Basis, Law, ModelError, Prediction, Tail};
use curtail_sim::Figures;
use serde::Serialize;

use super::refused;
use super::values::{Scale, figure};
use crate::digits;
use crate::exit::Stop;
use crate::table::row;
use crate::verdict::Typed;

/// How wide a column is at least.
const COLUMN: isize = 10;

/// What is said beside a line of a table; more is said below it.
const SHORT: usize = 20;

/// How far a figure is to be trusted.
type Trust = Typed<Basis>;

fn trust(basis: Basis) -> Trust {
    Typed::new(basis, basis.to_string())
}

/// A random time.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// How far the mean is to be trusted; none without a mean.
    mean_basis: Option<Trust>,
    /// How far the percentiles are; none without percentiles.
    percentiles_basis: Option<Trust>,
}

impl Told {
    /// Of a model's time. Where the model gives a mean only, there are no percentiles.
    pub(super) fn tail(tail: &Tail, percentiles: &[f64]) -> Result<Self, ModelError> {
        let mean = Some((tail.mean(), tail.mean_basis()));
        Self::new(mean, tail.law().zip(tail.law_basis()), percentiles)
    }

    /// Of an exact law without a known mean.
    pub(super) fn of_law(law: &Law, percentiles: &[f64]) -> Result<Self, ModelError> {
        Self::new(None, Some((law, Basis::Exact)), percentiles)
    }

    fn new(
        mean: Option<(f64, Basis)>,
        law: Option<(&Law, Basis)>,
        percentiles: &[f64],
    ) -> Result<Self, ModelError> {
        let quantile = |p: f64| law.map(|(law, _)| law.quantile(p / 100.0)).transpose();
        let percentiles = percentiles.iter().map(|&p| Ok((p, quantile(p)?)));
        let percentiles = percentiles.collect::<Result<_, ModelError>>()?;
        Ok(Self {
            figures: Figures { mean: mean.map(|(mean, _)| mean), percentiles },
            mean_basis: mean.map(|(_, basis)| trust(basis)),
            percentiles_basis: law.map(|(_, basis)| trust(basis)),
        })
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
pub(super) fn table<N: AsRef<str>>(rows: &[(N, &Told)]) -> String {
    let Some((_, first)) = rows.first() else { return String::new() };
    let width = rows.iter().map(|(name, _)| name.as_ref().chars().count()).max().unwrap_or(0);
    let has_mean = rows.iter().any(|(_, told)| told.figures.mean.is_some());
    let mean = has_mean.then(|| "mean".to_owned());
    let heads = first.figures.percentiles.iter().map(|(p, _)| format!("p{p}"));
    let heads: Vec<String> = mean.into_iter().chain(heads).collect();
    let mut columns = vec![-(width as isize)];
    columns.extend(heads.iter().map(|head| COLUMN.max(head.len() as isize + 2)));
    columns.push(0);
    let mut text = row(&columns, [String::new()].into_iter().chain(heads));
    let mut notes = String::new();
    for (name, told) in rows {
        let Figures { mean, percentiles } = &told.figures;
        let values = has_mean.then_some(*mean).into_iter();
        let values = values.chain(percentiles.iter().map(|&(_, value)| value));
        let name = name.as_ref();
        let mut cells = vec![name.to_owned()];
        cells.extend(values.map(|value| digits::or_none(value, figure)));
        let trust = told.trust();
        if trust.chars().count() <= SHORT {
            cells.push(format!("   {trust}"));
        } else {
            let _ = writeln!(notes, "{name}: {trust}");
        }
        text += &row(&columns, cells);
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
        let basis = self.wait.mean_basis.as_ref().filter(|basis| basis.of != Basis::Exact);
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
            "{}: {} knows no percentiles of {unknown}; curtail sim measures them",
            digits::NONE,
            self.model
        );
        text
    }
}
