//! Service times and load: input that station models share.

use curtail_dist::{Form, Spec};
use curtail_queueing::ModelError;
use curtail_queueing::models::{Hyper, Service as Moments};
use curtail_sim::UNIT_NS;

use super::refused;
use super::values::{Rate, Scale, figure, utilization};
use crate::exit::Stop;

/// A parsed service time, with its moments.
pub(super) struct Service {
    pub(super) text: String,
    pub(super) form: Form,
    pub(super) scale: Scale,
    /// The mean is in milliseconds, or in multiples of the user's unit.
    pub(super) moments: Moments,
    pub(super) skewness: f64,
}

impl Service {
    /// Parses the value of `flag`.
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

    /// Parses the value of `flag`, and rejects a mean of 0 or infinity.
    pub(super) fn of_server(flag: &str, text: &str) -> Result<Self, Stop> {
        let service = Self::parse(flag, text)?;
        let why = match service.moments.mean {
            0.0 => "its mean is 0, so nothing ever waits; give a service that takes time",
            mean if mean.is_finite() => return Ok(service),
            _ => {
                "its mean is infinite, so the queue grows without end; limit it, as in \
                 pareto:ALPHA:MIN:MAX"
            }
        };
        Err(refused(format_args!("{flag} {text}: {why}")))
    }

    /// Parses the gaps between arrivals. They must have units if this service has units.
    pub(super) fn gaps(&self, text: &str) -> Result<Self, Stop> {
        let gaps = Self::parse("--gaps", text)?;
        let mean = gaps.moments.mean;
        let why = match gaps.scale == self.scale {
            true if mean.is_finite() && mean > 0.0 => return Ok(gaps),
            true => format!("its mean is {mean}; give gaps with a finite mean above 0"),
            false => format!("the service is {}; give both units or none", self.text),
        };
        Err(refused(format_args!("--gaps {text}: {why}")))
    }

    /// The skewness, unless the first two moments determine it.
    fn third(&self) -> Option<f64> {
        let is_known = matches!(self.form, Form::Exponential | Form::Hyper);
        (!is_known).then_some(self.skewness)
    }

    /// Fits a hyper-exponential to these moments, but with the given mean.
    pub(super) fn hyper(&self, mean: f64) -> Result<Hyper, ModelError> {
        // Rounding may put the SCV of an exponential slightly below 1.
        Hyper::fitted(mean, self.moments.scv.max(1.0), self.third())
    }

    /// Why no hyper-exponential has these moments, and the fix; `None` if one does.
    pub(super) fn no_hyper(&self) -> Option<String> {
        let Moments { scv, .. } = self.moments;
        match self.third() {
            Some(_) if scv.is_nan() || scv < 1.0 => Some(format!(
                "its squared coefficient of variation is {}, and a hyper-exponential has 1 or more",
                figure(scv)
            )),
            Some(third) if !third.is_finite() => Some(
                "its third moment is infinite, and a hyper-exponential has finite moments; limit \
                 it, as in pareto:ALPHA:MIN:MAX"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Rejects a service that is not exponential. `why` names the model that needs exponential
    /// service.
    pub(super) fn exponential(self, flag: &str, why: &str) -> Result<Self, Stop> {
        if self.form == Form::Exponential {
            return Ok(self);
        }
        Err(refused(format_args!("{flag} {} is not exponential; {why}", self.text)))
    }
}

/// The load: an arrival rate or a utilization.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Load {
    /// Arrival rate: queries per unit of time, such as 0.8, or a rate with a unit, such as 100/s;
    /// per second if times have units
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    arrival_rate: Option<Rate>,
    /// Utilization instead of a rate: the fraction of time that a server is busy, such as 0.8
    #[arg(long, value_name = "U", value_parser = utilization, allow_hyphen_values = true)]
    utilization: Option<f64>,
}

impl Load {
    /// Returns a station's arrival rate, in the unit that the models use.
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
