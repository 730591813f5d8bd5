//! The hiccups in a jitter: how often, and how long.

use curtail_dist::seed;
use serde::Serialize;

use crate::experiment::Experiment;
use crate::parameters::UNIT_NS;

/// Draws from the jitter: so many that a probability of 0.3 % is told as 0.30 %. A hiccup that these
/// miss hits fewer than one query in 1,000,000.
const DRAWS: u32 = 10_000_000;

/// Jitter longer than a mean service time is a hiccup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Hiccups {
    /// Of a copy.
    pub probability: f64,
    /// Their mean length, in the unit of the experiment; zero where there are none.
    pub duration: f64,
    /// The share of requests that one hits in some shard, where no query has a second copy.
    pub requests: f64,
}

impl Hiccups {
    /// Those of an experiment.
    pub(super) fn of(experiment: &Experiment) -> Self {
        let Some(jitter) = &experiment.jitter else { return Self::default() };
        let mut rng = seed::rng(seed::stream(experiment.seed, &[b"hiccups"]));
        let (mut count, mut sum) = (0, 0.0);
        for _ in 0..DRAWS {
            let drawn = jitter.sample(&mut rng);
            if drawn > experiment.service.mean() {
                count += 1;
                sum += drawn;
            }
        }
        let probability = f64::from(count) / f64::from(DRAWS);
        Self {
            probability,
            duration: if count > 0 { sum / f64::from(count) / UNIT_NS as f64 } else { 0.0 },
            requests: 1.0 - (1.0 - probability).powf(f64::from(experiment.shards)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameters;

    #[test]
    fn a_rare_hiccup_is_told_as_written() {
        let jitter = Some("bimodal:0.003:75ms".to_owned());
        let parameters = Parameters {
            service: "exp:5ms".to_owned(),
            jitter,
            shards: 5,
            ..Parameters::default()
        };
        let hiccups = Hiccups::of(&parameters.experiment().expect("an experiment"));
        let error = (hiccups.probability - 0.003).abs();
        assert!(error < 0.000_05, "{} prints as another percentage", hiccups.probability);
        assert!((hiccups.duration - 75.0).abs() < 1e-9, "{}", hiccups.duration);
    }
}
