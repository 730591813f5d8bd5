//! A world that changes while it is simulated: from one request on, its times or its replicas are
//! others.
//!
//! Generators go on where they are, so what comes after a change is the same for every policy, too.

use curtail_dist::Distribution;

use crate::error::Error;
use crate::experiment::Experiment;
use crate::parameters::{Parameters, Units, check_mean, check_speeds};

/// What can change; each is written as its parameter.
const KEYS: [&str; 3] = ["jitter", "service", "speeds"];

/// How a change is written.
const FORM: &str =
    "write KEY=VALUE with a key of jitter, service, speeds, as jitter=bimodal:0.01:15";

/// The world from a request on.
#[derive(Clone, Debug)]
pub struct Change {
    /// The first request that meets it, counted from 0.
    pub at: u64,
    /// What changes, as written.
    pub texts: Vec<String>,
    /// P.
    pub service: Distribution,
    /// J; none where it is always zero.
    pub jitter: Option<Distribution>,
    /// The speed of each replica of a shard.
    pub servers: Vec<f64>,
}

impl Change {
    /// Reads the changes of some parameters, whose experiment this is without them.
    pub(crate) fn read(
        parameters: &Parameters,
        at: u64,
        before: &Experiment,
        units: &mut Units,
    ) -> Result<Self, Error> {
        let mut change = Self {
            at,
            texts: parameters.change.clone(),
            service: before.service.clone(),
            jitter: before.jitter.clone(),
            servers: before.servers.clone(),
        };
        let mut seen = Vec::new();
        for text in &parameters.change {
            let wrong = |why: String| Error::Change { text: text.clone(), why };
            let split = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            let Some((key, value)) = split.filter(|(key, _)| KEYS.contains(key)) else {
                return Err(wrong(FORM.to_owned()));
            };
            if seen.contains(&key) {
                return Err(wrong(format!("{key} changes twice; drop one of them")));
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
                let speeds = speeds.map_err(|_| Error::OutOfRange {
                    name: "speeds",
                    value: value.to_owned(),
                    allowed: "numbers, as 1,0.5".to_owned(),
                })?;
                check_speeds(&speeds, self.servers.len())?;
                self.servers = speeds;
            }
        }
        Ok(())
    }
}

/// The changes of a text that has several, as `jitter=none,speeds=1,0.5`: a comma before a key
/// divides them.
pub(crate) fn split(text: &str) -> Vec<String> {
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

impl Experiment {
    /// The world after the change, as an experiment of its own; none where nothing changes.
    ///
    /// Its utilization is that of the replicas as they are then: requests come as often as the
    /// utilization that was asked for would have it at the speeds before.
    pub fn after(&self) -> Option<Self> {
        let Change { service, jitter, servers, .. } = self.change.as_ref()?;
        let mut after = Self {
            service: service.clone(),
            jitter: jitter.clone(),
            servers: servers.clone(),
            change: None,
            ..self.clone()
        };
        // A ratio of 1 where the speeds stay, so that the gap is the same to the last digit.
        after.utilization *= self.capacity() / after.capacity();
        Some(after)
    }

    /// Over the requests that are measured: the mean gap between them, in ns, and the utilization
    /// with the jitter of one copy per query.
    pub(crate) fn measured_load(&self) -> (f64, f64) {
        let of = |world: &Self| (world.gap_ns(), world.utilization_with_jitter());
        let (Some(change), Some(after)) = (&self.change, self.after()) else { return of(self) };
        let (from, to) = self.measured();
        let before = (change.at.clamp(from, to) - from) as f64 / (to - from) as f64;
        let ((gap_before, load_before), (gap, load)) = (of(self), of(&after));
        // A utilization is of what the replicas can do in the time.
        let room_before = before * gap_before * self.capacity();
        let room = (1.0 - before) * gap * after.capacity();
        let share = room_before / (room_before + room);
        (gap + (gap_before - gap) * before, load + (load_before - load) * share)
    }
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
            assert_eq!(split(text), changes, "{text}");
        }
    }

    #[test]
    fn requests_come_as_the_new_times_have_it_and_whatever_the_new_speeds() {
        let gaps = |change: &[&str]| {
            let change = change.iter().map(ToString::to_string).collect();
            let parameters = Parameters { change, warm_up: 0.5, ..Parameters::default() };
            let experiment = parameters.experiment().expect("an experiment");
            let after = experiment.after().expect("it changes");
            let (gap, load) = experiment.measured_load();
            assert_eq!(gap, after.gap_ns(), "all that is measured comes after the change");
            assert!((load - after.utilization_with_jitter()).abs() < 1e-12);
            (experiment.gap_ns(), after.gap_ns(), after.utilization)
        };
        let (before, after, utilization) = gaps(&["service=exp:3"]);
        assert_eq!((after, utilization), (3.0 * before, 0.3));
        let (before, after, utilization) = gaps(&["speeds=0.5,0.5"]);
        assert_eq!((after, utilization), (before, 0.6));
        let (before, after, _) = gaps(&["jitter=exp:3"]);
        assert_eq!(after, before, "the utilization counts P only");
    }

    #[test]
    fn what_is_measured_is_weighed_by_time() {
        let parameters = Parameters {
            change: vec!["service=exp:3".to_owned(), "jitter=det:3".to_owned()],
            change_at: Some(50_000),
            warm_up: 0.0,
            ..Parameters::default()
        };
        let experiment = parameters.experiment().expect("an experiment");
        let (gap, load) = experiment.measured_load();
        assert!((gap / experiment.gap_ns() - 2.0).abs() < 1e-12, "1 and 3");
        // A quarter of the time at 0.3, the rest at twice that.
        assert!((load - (0.25 * 0.3 + 0.75 * 0.6)).abs() < 1e-12, "{load}");
    }
}
