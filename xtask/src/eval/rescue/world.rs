//! One world of the study: a service, its hiccups and its load, as the simulator's flags say it.

use std::fmt;

/// A service and what befalls it. Times are in multiples of the mean service time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct World {
    pub(super) number: u32,
    /// With jitter.
    pub(super) utilization: f64,
    pub(super) replicas: u32,
    pub(super) shards: u32,
    pub(super) slots: u32,
    pub(super) service: Service,
    /// Of the logarithm; none: no hints.
    pub(super) hint_error: Option<f64>,
    pub(super) hiccups: Hiccups,
    pub(super) round_trip: f64,
    pub(super) bursts: bool,
}

/// P, of mean 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Service {
    Exponential,
    Constant,
    LogNormal {
        sigma: f64,
    },
    /// Such a share of the queries takes ten times as long as the others.
    Classes {
        share: f64,
    },
    Pareto {
        alpha: f64,
    },
}

/// What keeps replicas from their work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Hiccups {
    /// Of one copy, always as long.
    Constant { probability: f64, length: f64 },
    /// Of one copy, of exponential length.
    Exponential { probability: f64, length: f64 },
    /// Of a query: all of its copies have the same.
    Correlated { probability: f64, length: f64 },
    /// Of a replica, with all that it holds, for a share of the time.
    Pauses { share: f64, length: f64 },
    /// A replica runs at a fifth of its speed, for a share of the time.
    SlowTimes { share: f64, length: f64 },
}

/// How much worse than per-shard queuing a policy may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tolerance {
    /// Copies have hiccups of their own, and it can be told what is stuck: p50 by 2 %, p99 and p99.9
    /// by 1 %.
    Strict,
    /// It is hard to tell, or hopeless: p99 by 5 %.
    Loose,
}

impl Service {
    /// Without hints a long query cannot be told from a stuck one.
    pub(super) fn is_heavy(self) -> bool {
        match self {
            Self::LogNormal { sigma } => sigma >= 1.0,
            Self::Pareto { .. } => true,
            Self::Exponential | Self::Constant | Self::Classes { .. } => false,
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exponential => f.write_str("exp:1"),
            Self::Constant => f.write_str("det:1"),
            Self::LogNormal { sigma } => {
                write!(f, "lognormal:1:{:.3}", (sigma * sigma).exp_m1().sqrt())
            }
            Self::Classes { share } => {
                let short = 1.0 / (1.0 + 9.0 * share);
                write!(f, "bimodal:{share}:{:.4}+det:{short:.4}", 9.0 * short)
            }
            Self::Pareto { alpha } => write!(f, "pareto:{alpha}:{:.4}", 1.0 - 1.0 / alpha),
        }
    }
}

impl World {
    /// The flags of `curtail sim` that make it.
    pub(super) fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--utilization-of".to_owned(), "total".into()];
        let mut say = |flag: &str, value: String| flags.extend([format!("--{flag}"), value]);
        say("utilization", self.utilization.to_string());
        say("replicas", self.replicas.to_string());
        say("shards", self.shards.to_string());
        if self.slots > 1 {
            say("slots", self.slots.to_string());
        }
        say("service", self.service.to_string());
        if let Some(error) = self.hint_error {
            say("hint-error", error.to_string());
        }
        match self.hiccups {
            Hiccups::Constant { probability: p, length } => {
                say("jitter", format!("bimodal:{p}:{length}"));
            }
            Hiccups::Exponential { probability: p, length } => {
                say("jitter", format!("hiccup:{p}:{length}"));
            }
            Hiccups::Correlated { probability: p, length } => {
                say("jitter", format!("bimodal:{p}:{length}"));
                say("jitter-of", "query".into());
            }
            Hiccups::Pauses { share, length } => say("slowdown", stretch(share, length, 0.0)),
            Hiccups::SlowTimes { share, length } => say("slowdown", stretch(share, length, 0.2)),
        }
        if self.round_trip > 0.0 {
            say("network", format!("det:{}", self.round_trip / 2.0));
        }
        if self.bursts {
            say("arrivals", "mmpp:2:0.2:200".into());
        }
        flags
    }

    /// How many requests each replication has: enough for tails, and not too many queries.
    pub(super) fn requests(&self) -> u32 {
        (1_200_000 / self.shards).clamp(12_000, 40_000)
    }

    /// What befalls it, in words.
    pub(super) fn kind(&self) -> &'static str {
        match self.hiccups {
            Hiccups::Constant { .. } => "of a copy, constant",
            Hiccups::Exponential { .. } => "of a copy, exponential",
            Hiccups::Correlated { .. } => "of a query, all copies",
            Hiccups::Pauses { .. } => "of a replica, it stops",
            Hiccups::SlowTimes { .. } => "of a replica, it is slow",
        }
    }

    /// Does a copy's hiccup say nothing of the other copy?
    pub(super) fn has_independent_hiccups(&self) -> bool {
        matches!(self.hiccups, Hiccups::Constant { .. } | Hiccups::Exponential { .. })
    }

    pub(super) fn tolerance(&self) -> Tolerance {
        let can_tell = !self.service.is_heavy() || self.hint_error.is_some();
        if can_tell && self.has_independent_hiccups() {
            Tolerance::Strict
        } else {
            Tolerance::Loose
        }
    }
}

/// A replica is slow for a share of the time, for so long.
fn stretch(share: f64, length: f64, speed: f64) -> String {
    format!("exp:{:.0}/det:{length}/{speed}", length * (1.0 - share) / share)
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = self.flags();
        write!(f, "{}", flags.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLD: World = World {
        number: 0,
        utilization: 0.3,
        replicas: 2,
        shards: 50,
        slots: 1,
        service: Service::Classes { share: 0.1 },
        hint_error: None,
        hiccups: Hiccups::Pauses { share: 0.01, length: 50.0 },
        round_trip: 0.5,
        bursts: false,
    };

    #[test]
    fn a_world_is_what_its_flags_say() {
        let said = "--utilization-of total --utilization 0.3 --replicas 2 --shards 50 \
                    --service bimodal:0.1:4.7368+det:0.5263 --slowdown exp:4950/det:50/0 \
                    --network det:0.25";
        assert_eq!(WORLD.to_string(), said);
        assert_eq!(WORLD.requests(), 24_000);
    }

    #[test]
    fn what_can_be_told_is_held_to_more() {
        assert_eq!(WORLD.tolerance(), Tolerance::Loose);
        let hiccups = Hiccups::Constant { probability: 0.001, length: 15.0 };
        let own = World { hiccups, ..WORLD };
        assert_eq!(own.tolerance(), Tolerance::Strict);
        let heavy = World { service: Service::Pareto { alpha: 2.0 }, ..own };
        assert_eq!(heavy.tolerance(), Tolerance::Loose);
        assert_eq!(World { hint_error: Some(0.5), ..heavy }.tolerance(), Tolerance::Strict);
    }
}
