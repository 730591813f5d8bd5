//! Predictions of models, as they are printed: times with their percentiles, and how exact they
//! are.

use std::fmt::Write as _;

use curtail_queueing::{Basis, Law, ModelError, Prediction, Tail};
use curtail_report::number::{NONE, figure, or_none};
use curtail_report::table::Table;
use curtail_sim::Figures;
use serde::Serialize;

use super::input::Scale;
use crate::exit::{Stop, Typed};

/// Minimum width of a column.
const COLUMN: usize = 10;

/// Maximum length of a note at the end of a table row. Longer notes go below the table.
const SHORT: usize = 20;

/// How exact a figure is.
type Trust = Typed<Basis>;

fn trust(basis: Basis) -> Trust {
    Typed::new(basis, basis.to_string())
}

/// The distribution of a time, as it is reported.
#[derive(Debug, Serialize)]
pub(super) struct TimeReport {
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// How exact the mean is; `None` without a mean.
    mean_basis: Option<Trust>,
    /// How exact the percentiles are; `None` without percentiles.
    percentiles_basis: Option<Trust>,
}

impl TimeReport {
    /// Converts a time that a model predicted. There are no percentiles if the model predicts only
    /// the mean.
    pub(super) fn tail(tail: &Tail, percentiles: &[f64]) -> Result<Self, ModelError> {
        let mean = Some((tail.mean(), tail.mean_basis()));
        Self::new(mean, tail.law().zip(tail.law_basis()), percentiles)
    }

    /// Converts an exact distribution whose mean is unknown.
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

/// A table with one line per time.
pub(super) fn table<N: AsRef<str>>(rows: &[(N, &TimeReport)]) -> String {
    let Some((_, first)) = rows.first() else { return String::new() };
    let has_mean = rows.iter().any(|(_, time)| time.figures.mean.is_some());
    let mean = has_mean.then(|| "mean".to_owned());
    let heads = first.figures.percentiles.iter().map(|(p, _)| format!("p{p}"));
    let heads = [String::new()].into_iter().chain(mean).chain(heads).chain([String::new()]);
    let mut table = Table::new(heads).at_least(COLUMN).with_notes();
    let mut notes = String::new();
    for (name, time) in rows {
        let Figures { mean, percentiles } = &time.figures;
        let values = has_mean.then_some(*mean).into_iter();
        let values = values.chain(percentiles.iter().map(|&(_, value)| value));
        let name = name.as_ref();
        let mut cells = vec![name.to_owned()];
        cells.extend(values.map(|value| or_none(value, figure)));
        let trust = time.trust();
        if trust.chars().count() <= SHORT {
            cells.push(trust);
        } else {
            let _ = writeln!(notes, "{name}: {trust}");
        }
        table.row(cells);
    }
    table.bare() + if notes.is_empty() { "" } else { "\n" } + &notes
}

/// A model's prediction for a station.
#[derive(Debug, Serialize)]
pub(super) struct Predicted {
    pub(super) model: &'static str,
    pub(super) arrival_rate: f64,
    pub(super) utilization: f64,
    /// Time from arrival to the start of service.
    pub(super) wait: TimeReport,
    /// Time from arrival to the end of service.
    pub(super) sojourn: TimeReport,
    /// The fraction of queries that have to wait. It is as exact as the mean wait.
    pub(super) waiting_probability: Option<f64>,
    /// Mean number of waiting queries.
    pub(super) mean_waiting: f64,
    /// Mean number of queries that wait or are in service.
    pub(super) mean_in_system: f64,
}

impl Predicted {
    pub(super) fn new(of: &Prediction, scale: Scale, percentiles: &[f64]) -> Result<Self, Stop> {
        Ok(Self {
            model: of.model,
            arrival_rate: scale.rate(of.arrival_rate),
            utilization: of.utilization,
            wait: TimeReport::tail(&of.wait, percentiles).map_err(Stop::bad)?,
            sojourn: TimeReport::tail(&of.sojourn, percentiles).map_err(Stop::bad)?,
            waiting_probability: of.wait.above_zero(),
            mean_waiting: of.mean_waiting(),
            mean_in_system: of.mean_in_system(),
        })
    }

    /// Renders the times, and the mean numbers of queries.
    pub(super) fn text(&self) -> String {
        let mut text = table(&[("wait", &self.wait), ("sojourn", &self.sojourn)]);
        text.push('\n');
        if let Some(share) = self.waiting_probability {
            let _ = write!(text, "{} % of the queries wait; ", figure(share * 100.0));
        }
        let [waiting, all] = [self.mean_waiting, self.mean_in_system].map(figure);
        let _ = write!(text, "on average {waiting} wait and {all} are in the system");
        let basis = self.wait.mean_basis.as_ref().filter(|basis| basis.of != Basis::Exact);
        let basis = basis.map_or(String::new(), |basis| format!(": {}", basis.text));
        let _ = writeln!(text, "{basis}");
        let unknown = match (&self.wait.percentiles_basis, &self.sojourn.percentiles_basis) {
            (None, _) if self.waiting_probability.is_none() => "the wait",
            (None, _) => "the wait for this service",
            (_, None) => "the sojourn",
            _ => return text,
        };
        let _ = writeln!(
            text,
            "{}: {} has no percentiles of {unknown}; curtail sim measures them",
            NONE, self.model
        );
        text
    }
}
