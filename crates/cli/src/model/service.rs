//! The service and the load that models of stations take.

use curtail_dist::{Form, Spec};
use curtail_queueing::ModelError;
use curtail_queueing::models::{Hyper, Service as Moments};
use curtail_sim::UNIT_NS;

use super::refused;
use super::values::{Rate, Scale, figure, utilization};
use crate::exit::Stop;

/// A service time, read and with its moments.
pub(super) struct Service {
    pub(super) text: String,
    pub(super) form: Form,
    pub(super) scale: Scale,
    /// In milliseconds or multiples.
    pub(super) moments: Moments,
    pub(super) skewness: f64,
}

impl Service {
    /// Reads what `flag` says.
    pub(super) fn parse(flag: &str, text: &str) -> Result<Self, Stop> {
        let bad = |why: &dyn std::fmt::Display| refused(format_args!("{flag} {text}: {why}"));
        let spec: Spec = text.parse().map_err(|error| bad(&error))?;
        let law = spec.resolve(UNIT_NS as f64).map_err(|error| bad(&error))?;
        Ok(Self {
            text: text.to_owned(),
            form: spec.form(),
            scale: Scale::of(law.has_units() == Some(true)),
            moments: Moments { mean: law.mean() / UNIT_NS as f64, scv: law.scv() },
            skewness: law.skewness(),
        })
    }

    /// Reads what `flag` says, and makes sure that a server can be busy with it for a while.
    pub(super) fn of_server(flag: &str, text: &str) -> Result<Self, Stop> {
        let service = Self::parse(flag, text)?;
        let why = match service.moments.mean {
            0.0 => "its mean is 0, so nothing ever waits; give a service that takes time",
            mean if mean.is_finite() => return Ok(service),
            _ => {
                "its mean is infinite, so no queue survives it; cut its tail, as \
                 pareto:ALPHA:MIN:MAX does"
            }
        };
        Err(refused(format_args!("{flag} {text}: {why}")))
    }

    /// Reads the gaps between arrivals, in the unit of this service.
    pub(super) fn gaps(&self, text: &str) -> Result<Self, Stop> {
        let gaps = Self::parse("--gaps", text)?;
        let mean = gaps.moments.mean;
        let why = match gaps.scale == self.scale {
            true if mean.is_finite() && mean > 0.0 => return Ok(gaps),
            true => format!("its mean is {mean}; give gaps of a mean above 0 and finite"),
            false => format!("the service is {}; give both units or none", self.text),
        };
        Err(refused(format_args!("--gaps {text}: {why}")))
    }

    /// What is known of its third moment, if two do not say it.
    fn third(&self) -> Option<f64> {
        let is_known = matches!(self.form, Form::Exponential | Form::Hyper);
        (!is_known).then_some(self.skewness)
    }

    /// The hyper-exponential of the same moments, with another mean.
    pub(super) fn hyper(&self, mean: f64) -> Result<Hyper, ModelError> {
        // Rounding may have left the exponential a little below 1.
        Hyper::fitted(mean, self.moments.scv.max(1.0), self.third())
    }

    /// Why no hyper-exponential has its moments, and what to do.
    pub(super) fn no_hyper(&self) -> Option<String> {
        let Moments { scv, .. } = self.moments;
        match self.third() {
            Some(_) if scv.is_nan() || scv < 1.0 => Some(format!(
                "its squared coefficient of variation is {}, and a hyper-exponential has 1 or more",
                figure(scv)
            )),
            Some(third) if !third.is_finite() => Some(
                "its third moment is infinite, and a hyper-exponential has all; cut its tail, as \
                 pareto:ALPHA:MIN:MAX does"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Makes sure that the service is exponential; `why` says who needs it.
    pub(super) fn exponential(self, flag: &str, why: &str) -> Result<Self, Stop> {
        if self.form == Form::Exponential {
            return Ok(self);
        }
        Err(refused(format_args!("{flag} {} is not exponential; {why}", self.text)))
    }
}

/// How much arrives: a rate, or what comes of it.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Load {
    /// Queries per unit of time; per second where times have units, or as 100/s
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    arrival_rate: Option<Rate>,
    /// In place of the rate: the share of time that a server is busy, as 0.8
    #[arg(long, value_name = "U", value_parser = utilization, allow_hyphen_values = true)]
    utilization: Option<f64>,
}

impl Load {
    /// The arrival rate of a station, as models take it.
    pub(super) fn rate(&self, service: &Service, servers: u32) -> Result<f64, Stop> {
        match (self.arrival_rate, self.utilization) {
            (Some(rate), _) => rate.of_model(service.scale, "--arrival-rate"),
            (None, utilization) => {
                let utilization = utilization.unwrap_or_default();
                Ok(utilization * f64::from(servers) / service.moments.mean)
            }
        }
    }
}
