//! Computes the probability and length of the hiccups in a jitter distribution.

use curtail_dist::seed;
use serde::Serialize;

use crate::experiment::UNIT_NS;
use crate::experiment::{Experiment, JitterOf};

/// The number of draws from the jitter distribution. It is large enough to determine a probability
/// of 0.3 % to two digits. A kind of hiccup that does not occur in these draws affects fewer than
/// one query in 1,000,000.
const DRAWS: u32 = 10_000_000;

/// The hiccups in a jitter distribution. A jitter longer than the mean service time counts as a
/// hiccup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Hiccups {
    /// The probability that a copy has a hiccup.
    pub probability: f64,
    /// The mean length of a hiccup, in the unit of the experiment. Zero without hiccups.
    pub duration: f64,
    /// The share of requests that have a hiccup in at least one shard if no query has a second
    /// copy.
    pub requests: f64,
    /// The mean of the smaller jitter of two copies, divided by the mean jitter. It is near 1 if
    /// the two jitters are similar, in which case a second copy saves nothing. `None` if there is
    /// no jitter. It is 1 if no draw is above zero.
    pub lesser_of_two: Option<f64>,
}

impl Hiccups {
    /// Finds the hiccups of an experiment.
    pub(super) fn of(experiment: &Experiment) -> Self {
        let Some(jitter) = &experiment.jitter else { return Self::default() };
        let mut rng = seed::rng(seed::stream(experiment.seed, &[b"hiccups"]));
        let (mut count, mut sum) = (0, 0.0);
        let (mut lesser, mut all) = (0.0, 0.0);
        for _ in 0..DRAWS / 2 {
            let first = jitter.sample(&mut rng);
            let pair = match experiment.jitter_of {
                JitterOf::Copy => [first, jitter.sample(&mut rng)],
                JitterOf::Query => [first; 2],
            };
            for drawn in pair.into_iter().filter(|&drawn| drawn > experiment.service.mean()) {
                count += 1;
                sum += drawn;
            }
            lesser += pair[0].min(pair[1]);
            all += (pair[0] + pair[1]) / 2.0;
        }
        let probability = f64::from(count) / f64::from(DRAWS);
        Self {
            probability,
            duration: if count > 0 { sum / f64::from(count) / UNIT_NS as f64 } else { 0.0 },
            requests: 1.0 - (1.0 - probability).powf(f64::from(experiment.world.shards())),
            lesser_of_two: Some(if all > 0.0 { lesser / all } else { 1.0 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameters;

    #[test]
    fn jitters_of_two_copies_are_alike_or_not() {
        let of = |jitter: Option<&str>| {
            let jitter = jitter.map(str::to_owned);
            let parameters = Parameters { jitter, ..Parameters::default() };
            Hiccups::of(&parameters.experiment().expect("an experiment")).lesser_of_two
        };
        for (jitter, share) in [("det:3", 1.0), ("exp:1", 0.5), ("bimodal:0.1:15", 0.1)] {
            let found = of(Some(jitter)).expect("there is jitter");
            assert!((found - share).abs() < 0.01, "{jitter}: {found}");
        }
        let jitter = Some("bimodal:0.1:15".to_owned());
        let shared = Parameters { jitter, jitter_of: JitterOf::Query, ..Parameters::default() };
        let hiccups = Hiccups::of(&shared.experiment().expect("an experiment"));
        assert_eq!(hiccups.lesser_of_two, Some(1.0));
        // Even if the hiccups of a jitter are too rare to be drawn, the result differs from that
        // without jitter.
        assert_eq!((of(Some("bimodal:1e-12:15")), of(None)), (Some(1.0), None));
    }

    #[test]
    fn a_rare_hiccup_is_reported_as_written() {
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
