//! Picks the most exact model that fits the arrivals, the service and the number of servers.

use clap::ValueEnum;
use curtail_dist::Form;
use curtail_queueing::models::{
    Arrivals, Hyper, gg1, gg1_heavy_traffic, gg1_upper_bound, ggk, h2h21, md1, mg1, mh21, mm1, mmk,
};
use curtail_queueing::{ModelError, Prediction};
use serde::Serialize;

use super::refused;
use super::service::Service;
use crate::exit::Stop;
use crate::verdict::Typed;

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
        let bad = |why: String| Err(refused(format_args!("--model {name} {why}")));
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
