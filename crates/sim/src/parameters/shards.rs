//! Reads the parameters that only shards with servers of their own have.

use curtail_dist::Spec;

use super::units::{Units, check_mean};
use super::{Parameters, range};
use crate::calendar::{Disturbance, Slowdown};
use crate::error::{Error, wrong};
use crate::experiment::Experiment;
use crate::world::{Change, Shards};

const SLOWDOWN: &str = "EVERY/LASTS/SPEED, like exp:1000/exp:50/0.2; a SPEED of 0 is a pause";
const OUTAGE: &str = "EVERY/LASTS, like exp:100000/det:500";

impl Parameters {
    /// Reads the shards, except for their change.
    pub(super) fn shards(&self, units: &mut Units) -> Result<Shards, Error> {
        let slowdown = self.slowdown.as_deref().map(|text| slowdown(text, units)).transpose()?;
        let outages = self.outage.as_deref().map(|text| outage(text, units)).transpose()?;
        let equal = || vec![1.0; self.replicas as usize];
        Ok(Shards {
            count: self.shards,
            speeds: if self.speeds.is_empty() { equal() } else { self.speeds.clone() },
            hint_error: self.hint_error,
            slowdown,
            outages,
            change: None,
        })
    }
}

pub(super) fn check_speeds(speeds: &[f64], replicas: usize) -> Result<(), Error> {
    let list = format!("{speeds:?}");
    let allowed = format!("one speed for each of the {replicas} replicas");
    range("speeds", &list, speeds.len() == replicas, &allowed)?;
    let usable = |speed: &f64| (1e-6..=1e6).contains(speed);
    range("speeds", &list, speeds.iter().all(usable), "numbers from 1e-6 to 1e6")
}

fn slowdown(text: &str, units: &mut Units) -> Result<Slowdown, Error> {
    let bad = |why: &str| malformed("slowdown", text, SLOWDOWN, why);
    let mut parts = text.rsplitn(2, '/');
    let (Some(speed), Some(rest)) = (parts.next(), parts.next()) else { return Err(bad("")) };
    let (every, lasts) = halves(rest).map_err(|why| bad(&why))?;
    let share = speed.parse().ok().filter(|speed: &f64| (0.0..=1e6).contains(speed));
    let share = share.ok_or_else(|| bad(&format!("SPEED is {speed:?}")))?;
    Ok(Slowdown { intervals: units.disturbance("slowdown", every, lasts)?, share })
}

fn outage(text: &str, units: &mut Units) -> Result<Disturbance, Error> {
    let (every, lasts) = halves(text).map_err(|why| malformed("outage", text, OUTAGE, &why))?;
    units.disturbance("outage", every, lasts)
}

/// Splits a text into two distributions at a slash. Paths may also contain slashes, so the slashes
/// are tried from the right until both parts can be parsed.
fn halves(text: &str) -> Result<(&str, &str), String> {
    let mut why = String::new();
    for (at, _) in text.rmatch_indices('/') {
        let (every, lasts) = (&text[..at], &text[at + 1..]);
        match (every.parse::<Spec>(), lasts.parse::<Spec>()) {
            (Ok(_), Ok(_)) => return Ok((every, lasts)),
            (Ok(_), Err(error)) | (Err(error), Ok(_)) if why.is_empty() => why = error.to_string(),
            _ => {}
        }
    }
    Err(why)
}

fn malformed(name: &'static str, text: &str, form: &'static str, why: &str) -> Error {
    Error::Disturbance { name, text: text.to_owned(), form, why: why.to_owned() }
}

/// Keys of changes. A value has the same syntax as the parameter with the same name.
const KEYS: [&str; 3] = ["jitter", "service", "speeds"];

const FORM: &str =
    "write KEY=VALUE with the key jitter, service or speeds, like jitter=bimodal:0.01:15";

impl Change {
    /// Reads changes. `before` is the experiment without them, and `speeds` are the speeds of its
    /// replicas.
    pub(super) fn read(
        texts: &[String],
        at: u64,
        before: &Experiment,
        speeds: &[f64],
        units: &mut Units,
    ) -> Result<Self, Error> {
        let mut change = Self {
            at,
            texts: texts.to_vec(),
            service: before.service.clone(),
            jitter: before.jitter.clone(),
            speeds: speeds.to_vec(),
        };
        let mut seen = Vec::new();
        for text in texts {
            let wrong = |why: String| Error::Change { text: text.clone(), why };
            let split = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            let Some((key, value)) = split.filter(|(key, _)| KEYS.contains(key)) else {
                return Err(wrong(FORM.to_owned()));
            };
            if seen.contains(&key) {
                return Err(wrong(format!("{key} changes twice; remove one of them")));
            }
            seen.push(key);
            change.set(key, value, units).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(change)
    }

    fn set(&mut self, key: &str, value: &str, units: &mut Units) -> Result<(), Error> {
        match key {
            "jitter" => {
                let jitter = units.optional("jitter", Some(value))?;
                self.jitter = jitter.filter(|jitter| jitter.mean() > 0.0);
            }
            "service" => {
                self.service = units.distribution("service", value)?;
                check_mean("service", value, &self.service)?;
            }
            _ => {
                let speeds = value.split(',').map(|speed| speed.trim().parse::<f64>());
                let speeds: Result<Vec<f64>, _> = speeds.collect();
                let bad = |_| wrong("speeds", value, "numbers, like 1,0.5");
                let speeds = speeds.map_err(bad)?;
                check_speeds(&speeds, self.speeds.len())?;
                self.speeds = speeds;
            }
        }
        Ok(())
    }
}

/// Splits a text with several changes, such as `jitter=none,speeds=1,0.5`, at each comma before a
/// key.
pub(crate) fn split_changes(text: &str) -> Vec<String> {
    let mut changes: Vec<String> = Vec::new();
    for part in text.split(',') {
        let begins = part.split_once('=').is_some_and(|(key, _)| KEYS.contains(&key.trim()));
        match changes.last_mut() {
            Some(last) if !begins => *last = format!("{last},{part}"),
            _ => changes.push(part.to_owned()),
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_before_a_key_divides_changes() {
        for (text, changes) in [
            ("jitter=none", &["jitter=none"][..]),
            (
                "jitter=none,speeds=1,0.5,service=exp:2",
                &["jitter=none", "speeds=1,0.5", "service=exp:2"],
            ),
            ("service=file:a,b=c", &["service=file:a,b=c"]),
            ("jitters=1", &["jitters=1"]),
            ("", &[""]),
        ] {
            assert_eq!(split_changes(text), changes, "{text}");
        }
    }
}
