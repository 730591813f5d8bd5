//! `curtail model queue`: predicts wait and latency at one station, with the most exact model that fits
//! the arrivals, the service and the number of servers.

use std::fmt::Write as _;

use clap::ValueEnum;
use curtail_dist::Form;
use curtail_queueing::models::{
    Arrivals, Hyper, gg1, gg1_heavy_traffic, gg1_upper_bound, ggk, h2h21, md1, mg1, mh21, mm1, mmk,
};
use curtail_queueing::{ModelError, Prediction};
use curtail_report::number::{figure, unit_words};
use serde::Serialize;

use super::ModelResult;
use super::input::{Load, Service, rate_words, scv};
use super::prediction::Predicted;
use crate::args::Percentiles;
use crate::exit::{Stop, Typed, bad};

/// A model, under its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Model {
    /// The most exact model that fits
    Auto,
    /// Poisson arrivals, exponential service, one server: exact
    Mm1,
    /// Poisson arrivals, exponential service, k servers: exact
    Mmk,
    /// Poisson arrivals, constant service, one server: exact
    Md1,
    /// Poisson arrivals, hyper-exponential service (h2), one server: exact
    Mh21,
    /// Poisson arrivals, any service, one server: exact means
    Mg1,
    /// Hyper-exponential gaps and service (h2), one server: exact; other distributions with an SCV
    /// of 1 or more: fitted to their moments
    #[value(alias = "h2/h2/1")]
    H2h21,
    /// Any arrivals and service, one server: Krämer and Langenbach-Belz's approximation
    Gg1,
    /// Any arrivals and service, one server: Kingman's formula for heavy traffic
    Gg1HeavyTraffic,
    /// Any arrivals and service, one server: Kingman's upper bound on the means
    Gg1Bound,
    /// Any arrivals and service, k servers: Allen and Cunneen's approximation
    Ggk,
}

/// The input of a model: service, servers and arrivals.
pub(super) struct Station<'a> {
    pub(super) service: &'a Service,
    pub(super) servers: u32,
    /// Squared coefficient of variation of the gaps between arrivals; `None` for Poisson arrivals.
    pub(super) arrival_scv: Option<f64>,
    /// The distribution of the gaps, if it was given.
    pub(super) gaps: Option<&'a Service>,
}

/// The hyper-exponentials that H2/H2/1 uses in place of other distributions of gaps and service
/// times.
const FITTED: &str = "two-phase hyper-exponentials with the same moments";

impl Model {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Why a model was picked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Why {
    AskedFor,
    Fits,
    NoCloserForm,
}

impl Station<'_> {
    /// Returns the model to use, and the reason for it.
    pub(super) fn pick(&self, wanted: Model) -> Result<(Model, Typed<Why>), Stop> {
        if wanted != Model::Auto {
            self.check(wanted)?;
            let text = format!("requested; {}", self.words());
            return Ok((wanted, Typed::new(Why::AskedFor, text)));
        }
        let (model, why) = match (self.arrival_scv, self.servers, self.service.form) {
            (None, 1, Form::Exponential) => (Model::Mm1, Why::Fits),
            (None, 1, Form::Constant) => (Model::Md1, Why::Fits),
            (None, 1, Form::Hyper) => (Model::Mh21, Why::Fits),
            (None, _, Form::Exponential) => (Model::Mmk, Why::Fits),
            (None, 1, _) => (Model::Mg1, Why::NoCloserForm),
            (Some(_), 1, _) if self.are_hyper() => (Model::H2h21, Why::Fits),
            (Some(_), 1, _) => (Model::Gg1, Why::NoCloserForm),
            _ => (Model::Ggk, Why::NoCloserForm),
        };
        let closer = if why == Why::Fits { "" } else { "; no closer form is known" };
        Ok((model, Typed::new(why, self.words() + closer)))
    }

    fn words(&self) -> String {
        let arrivals = match (self.arrival_scv, self.gaps.map(|gaps| gaps.form)) {
            (None, _) => "Poisson",
            (_, Some(Form::Hyper)) => "hyper-exponential",
            _ => "general",
        };
        let service = match self.service.form {
            Form::Exponential => "exponential",
            Form::Constant => "constant",
            Form::Hyper => "hyper-exponential",
            Form::Bimodal { .. } | Form::Other => "general",
        };
        let servers = match self.servers {
            1 => "one server".to_owned(),
            k => format!("{k} servers"),
        };
        format!("{arrivals} arrivals, {service} service, {servers}")
    }

    /// Whether both gaps and service are hyper-exponential.
    fn are_hyper(&self) -> bool {
        let is_hyper = |form| matches!(form, Form::Exponential | Form::Hyper);
        let gaps = self.gaps.map_or(self.arrival_scv.is_none(), |gaps| is_hyper(gaps.form));
        gaps && is_hyper(self.service.form)
    }

    /// Fits hyper-exponentials to gaps and service, at this arrival rate.
    pub(super) fn hypers(&self, rate: f64) -> Result<[Hyper; 2], ModelError> {
        let gaps = match (self.gaps, self.arrival_scv) {
            (Some(gaps), _) => gaps.hyper(1.0 / rate),
            (None, scv) => Hyper::fitted(1.0 / rate, scv.unwrap_or(1.0), None),
        };
        Ok([gaps?, self.service.hyper(self.service.moments.mean)?])
    }

    /// Why hyper-exponentials cannot be fitted, and the fix; `None` if they can.
    fn no_hyper(&self) -> Option<String> {
        let named =
            |flag: &str, of: &Service| Some(format!("{flag} {}: {}", of.text, of.no_hyper()?));
        let gaps = match (self.gaps, self.arrival_scv) {
            (Some(gaps), _) => named("--gaps", gaps),
            (None, Some(scv)) if scv < 1.0 => {
                Some(format!("--arrival-scv {scv}: a hyper-exponential has 1 or more"))
            }
            _ => None,
        };
        gaps.or_else(|| named("--service-time", self.service))
    }

    fn check(&self, model: Model) -> Result<(), Stop> {
        use Model::{Auto, Ggk, Md1, Mg1, Mh21, Mm1, Mmk};
        let poisson = matches!(model, Mm1 | Mmk | Md1 | Mh21 | Mg1);
        let one_server = !matches!(model, Auto | Mmk | Ggk);
        let (forms, service): (&[Form], _) = match model {
            Mm1 | Mmk => (&[Form::Exponential], "exponential, such as exp:5ms"),
            Md1 => (&[Form::Constant], "constant, such as det:5ms"),
            Mh21 => (&[Form::Hyper, Form::Exponential], "hyper-exponential, such as h2:5ms:2"),
            _ => (&[], "any"),
        };
        let name = model.name();
        let bad = |why: String| Err(bad!("--model {name} {why}"));
        if one_server && self.servers != 1 {
            return bad(format!("has one server, not {}; use mmk or ggk", self.servers));
        }
        if let (true, Some(scv)) = (poisson, self.arrival_scv) {
            let arrivals = match self.gaps {
                Some(gaps) => format!("--gaps {}", gaps.text),
                None => format!("--arrival-scv {scv}"),
            };
            return bad(format!("has Poisson arrivals; drop {arrivals}, or use gg1 or ggk"));
        }
        if let (Model::H2h21, Some(why)) = (model, self.no_hyper()) {
            return bad(format!("does not fit {why}; or use gg1"));
        }
        if !forms.is_empty() && !forms.contains(&self.service.form) {
            let text = &self.service.text;
            return bad(format!("takes a service that is {service}, not {text}; use auto"));
        }
        Ok(())
    }

    /// Returns the model's prediction at this arrival rate.
    pub(super) fn predict(&self, model: Model, rate: f64) -> Result<Prediction, ModelError> {
        if model == Model::H2h21 {
            let [gaps, service] = self.hypers(rate)?;
            let prediction = h2h21(gaps, service)?;
            let exact = self.are_hyper();
            return Ok(if exact { prediction } else { prediction.approximating(FITTED) });
        }
        let service = self.service.moments;
        let arrivals = Arrivals { rate, scv: self.arrival_scv.unwrap_or(1.0) };
        let prediction = match model {
            Model::Mm1 => mm1(rate, 1.0 / service.mean),
            Model::Mmk => mmk(rate, 1.0 / service.mean, self.servers),
            Model::Md1 => md1(rate, service.mean),
            // Rounding may put the SCV of an exponential slightly below 1.
            Model::Mh21 => mh21(rate, Hyper::balanced(service.mean, service.scv.max(1.0))?),
            Model::Mg1 => mg1(rate, service),
            Model::Gg1 => gg1(arrivals, service),
            Model::Gg1HeavyTraffic => gg1_heavy_traffic(arrivals, service),
            Model::Gg1Bound => gg1_upper_bound(arrivals, service),
            Model::Auto | Model::H2h21 | Model::Ggk => ggk(arrivals, service, self.servers),
        };
        Ok(prediction?.given_skewness(service, self.service.skewness))
    }
}

/// Width of the longest bar, in columns.
const WIDTH: f64 = 50.0;

/// Utilizations to plot, which are denser where the latency rises steeply.
const UTILIZATIONS: [f64; 11] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95];

/// How long queries wait at a station with one first-come, first-served queue and k equal servers.
///
/// The sojourn is the latency: wait plus service. By default the most exact model that fits is
/// used. M/M/1, M/M/k, M/D/1, M/H2/1 and H2/H2/1 give exact means and percentiles, and M/G/1 gives
/// exact means. All other models are approximate.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model queue --service-time exp:5ms --arrival-rate 160
      what is the latency of 160 queries per second that take 5 ms each on average?
  curtail model queue --service-time exp:5ms --arrival-rate 640/s --servers 4
      the same load per server, but one queue in front of four of them
  curtail model queue --service-time h2:1:4 --utilization 0.8
      what does a variable service cost? Compare with exp:1 and det:1
  curtail model queue --service-time gamma:1:0.5 --utilization 0.8 --arrival-scv 4
      what do bursts cost? SCV is variance/mean² of the gaps; 1 for Poisson arrivals
  curtail model queue --gaps file:gaps.txt --service-time file:services.txt --model h2h21
      from measurements: two phases are fitted to the three moments of each
  curtail model queue --utilization 0.8 --plot")]
pub(super) struct QueueArgs {
    /// Service time
    #[arg(long = "service-time", alias = "service", value_name = "DIST", default_value = "exp:1")]
    service: String,
    #[command(flatten)]
    load: Load,
    /// Number of servers behind the queue
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    servers: u32,
    /// Squared coefficient of variation of the gaps between arrivals [default: Poisson arrivals]
    #[arg(long, value_name = "SCV", value_parser = scv, conflicts_with = "gaps")]
    arrival_scv: Option<f64>,
    /// Distribution of the gaps between arrivals, instead of a rate
    #[arg(long, value_name = "DIST", group = "Load")]
    gaps: Option<String>,
    /// Model to use
    #[arg(long, value_name = "MODEL", default_value = "auto")]
    model: Model,
    #[command(flatten)]
    percentiles: Percentiles,
    /// Plot the sojourn at utilizations from 0.1 to 0.95
    #[arg(long)]
    plot: bool,
}

/// The prediction, and its inputs.
#[derive(Serialize)]
pub(super) struct Queue {
    because: Typed<Why>,
    service: String,
    mean_service: f64,
    service_scv: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    gaps: Option<String>,
    /// Squared coefficient of variation of the gaps.
    arrival_scv: f64,
    /// The phases of the gaps and of the service times in H2/H2/1, with rates in `rate_unit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<Phases>,
    servers: u32,
    unit: &'static str,
    rate_unit: &'static str,
    #[serde(flatten)]
    predicted: Predicted,
    #[serde(skip_serializing_if = "Option::is_none")]
    curve: Option<Curve>,
}

#[derive(Serialize)]
struct Phases {
    gaps: Hyper,
    service: Hyper,
}

/// Sojourn as a function of utilization.
#[derive(Serialize)]
struct Curve {
    /// The percentile that `tail` reports.
    percentile: Option<f64>,
    points: Vec<Point>,
}

/// Sojourn at a utilization.
#[derive(Debug, Serialize)]
struct Point {
    utilization: f64,
    mean: f64,
    /// The highest requested percentile, if the model has percentiles.
    tail: Option<f64>,
}

pub(super) fn queue(args: &QueueArgs) -> Result<Queue, Stop> {
    let percentiles = args.percentiles.checked(None)?;
    let service = Service::of_server("--service-time", &args.service)?;
    let gaps = args.gaps.as_ref().map(|text| service.gaps(text)).transpose()?;
    let rate = match &gaps {
        Some(gaps) => 1.0 / gaps.moments.mean,
        None => args.load.rate(&service, args.servers)?,
    };
    let of_gaps = gaps.as_ref().filter(|gaps| gaps.form != Form::Exponential);
    let station = Station {
        service: &service,
        servers: args.servers,
        arrival_scv: of_gaps.map(|gaps| gaps.moments.scv).or(args.arrival_scv),
        gaps: gaps.as_ref(),
    };
    let (model, because) = station.pick(args.model)?;
    let prediction = station.predict(model, rate).map_err(|error| match (error, &gaps) {
        (error @ ModelError::InfiniteMoment(_), Some(gaps)) if gaps.moments.scv.is_infinite() => {
            bad!("--gaps {}: {error}", gaps.text)
        }
        (error @ ModelError::InfiniteMoment(_), _) => {
            bad!("--service-time {}: {error}", args.service)
        }
        (error, _) => Stop::bad(error),
    })?;
    let phases = (model == Model::H2h21).then(|| phases(&station, rate)).transpose()?;
    let curve = args.plot.then(|| curve(&station, model, &percentiles)).transpose()?;
    Ok(Queue {
        because,
        mean_service: service.moments.mean,
        service_scv: service.moments.scv,
        arrival_scv: station.arrival_scv.unwrap_or(1.0),
        phases,
        gaps: args.gaps.clone(),
        servers: args.servers,
        unit: service.scale.unit(),
        rate_unit: service.scale.rate_unit(),
        predicted: Predicted::new(&prediction, service.scale, &percentiles)?,
        curve,
        service: service.text,
    })
}

fn phases(station: &Station<'_>, rate: f64) -> Result<Phases, Stop> {
    let scale = station.service.scale;
    let rates = |of: Hyper| Hyper { rates: of.rates.map(|rate| scale.rate(rate)), ..of };
    let [gaps, service] = station.hypers(rate).map_err(Stop::bad)?.map(rates);
    Ok(Phases { gaps, service })
}

fn curve(station: &Station<'_>, model: Model, percentiles: &[f64]) -> Result<Curve, Stop> {
    let percentile = percentiles.iter().copied().max_by(f64::total_cmp);
    let point = |&utilization: &f64| {
        let rate = utilization * f64::from(station.servers) / station.service.moments.mean;
        let sojourn = station.predict(model, rate)?.sojourn;
        let tail = percentile.filter(|_| sojourn.law().is_some());
        let tail = tail.map(|p| sojourn.quantile(p / 100.0)).transpose()?;
        Ok(Point { utilization, mean: sojourn.mean(), tail })
    };
    let points = UTILIZATIONS.iter().map(point).collect::<Result<_, _>>();
    let points = points.map_err(|error: ModelError| Stop::bad(error))?;
    Ok(Curve { percentile, points })
}

impl Queue {
    fn gaps_words(&self) -> String {
        let scv = figure(self.arrival_scv);
        self.gaps.as_ref().map_or_else(String::new, |gaps| format!(", gaps {gaps} (SCV {scv})"))
    }
}

impl ModelResult for Queue {
    fn text(&self) -> String {
        let Predicted { model, arrival_rate, utilization, .. } = self.predicted;
        let mut text = format!(
            "{model}: {}\n\
             arrival rate {}{}, service {} (mean {}, SCV {}), utilization {}\n\
             times in {}\n\n{}",
            self.because.text,
            rate_words(arrival_rate, self.rate_unit),
            self.gaps_words(),
            self.service,
            figure(self.mean_service),
            figure(self.service_scv),
            figure(utilization),
            unit_words(self.unit),
            self.predicted.text(),
        );
        if let Some(phases) = &self.phases {
            for (what, of) in [("gaps", phases.gaps), ("service", phases.service)] {
                let words = |share: f64, rate| {
                    format!(
                        "{} % at rate {}",
                        figure(share * 100.0),
                        rate_words(rate, self.rate_unit)
                    )
                };
                let [one, two] = of.rates;
                let (one, two) = (words(of.probability, one), words(1.0 - of.probability, two));
                let _ = writeln!(text, "{what}: {one}, {two}");
            }
        }
        if let Some(Curve { percentile, points }) = &self.curve {
            text += &bars(points, *percentile);
        }
        text
    }
}

/// Draws one bar per point: solid up to the mean, lighter up to the percentile.
fn bars(points: &[Point], percentile: Option<f64>) -> String {
    let reach = |point: &Point| point.tail.unwrap_or(point.mean).max(point.mean);
    let longest = points.iter().map(reach).fold(0.0, f64::max);
    let has_tail = points.iter().any(|point| point.tail.is_some());
    let percentile = percentile.filter(|_| has_tail);
    let tail = percentile.map_or(String::new(), |p| format!(", ░ up to p{p}"));
    let mut text = format!("\nsojourn over utilization: █ up to the mean{tail}\n");
    for point in points {
        let columns = |time: f64| (time / longest * WIDTH).round() as usize;
        let (mean, all) = (columns(point.mean), columns(reach(point)));
        let bar = "█".repeat(mean) + &"░".repeat(all.saturating_sub(mean));
        let value = figure(point.mean);
        let tail = point.tail.map_or(String::new(), |tail| format!(" – {}", figure(tail)));
        let _ = writeln!(text, "{:>5} {bar} {value}{tail}", point.utilization);
    }
    text
}
