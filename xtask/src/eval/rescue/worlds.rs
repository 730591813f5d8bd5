//! The worlds of the study: a service, its hiccups and its load, as the simulator's flags say it. They are
//! points of a scrambled Sobol sequence (Burley 2020), which fill the space of services more evenly than
//! random ones. A seed and a number give the same world everywhere.

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
pub(super) enum Tolerance {
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

/// So many worlds there are, at most: the sequence is no longer.
pub(super) const MOST: i64 = 1 << 16;

/// Dimensions of the space; each choice has its own.
#[derive(Clone, Copy)]
enum Axis {
    Utilization,
    Replicas,
    Shards,
    Slots,
    Service,
    Spread,
    Hints,
    HintError,
    Hiccups,
    Probability,
    Length,
    RoundTrip,
    Arrivals,
}

/// Where a point is, in each dimension: from 0 to below 1.
#[derive(Clone, Copy)]
struct Point {
    number: u32,
    seed: u32,
}

impl Point {
    fn at(self, axis: Axis) -> f64 {
        f64::from(sobol_burley::sample(self.number, axis as u32, self.seed))
    }

    fn between(self, axis: Axis, from: f64, to: f64) -> f64 {
        from + (to - from) * self.at(axis)
    }

    /// Evenly in the logarithm.
    fn by_factor(self, axis: Axis, from: f64, to: f64) -> f64 {
        from * (to / from).powf(self.at(axis))
    }

    /// One of the choices, each as likely as its weight says.
    fn choose<T: Copy>(self, axis: Axis, choices: &[(u32, T)]) -> T {
        let total: u32 = choices.iter().map(|(weight, _)| weight).sum();
        let mut left = self.at(axis) * f64::from(total);
        for &(weight, choice) in choices {
            if left < f64::from(weight) {
                return choice;
            }
            left -= f64::from(weight);
        }
        choices[choices.len() - 1].1
    }
}

/// The world of a number.
pub(super) fn world(number: u32, seed: u32) -> World {
    use Axis as A;
    let point = Point { number, seed };
    let service = service(point);
    let hints = point.at(A::Hints) < if service.is_heavy() { 0.5 } else { 0.25 };
    World {
        number,
        utilization: rounded(point.between(A::Utilization, 0.05, 0.9)),
        replicas: point.choose(A::Replicas, &[(2, 2), (1, 3), (1, 6)]),
        shards: point.by_factor(A::Shards, 1.0, 501.0) as u32,
        slots: point.choose(A::Slots, &[(3, 1), (1, 4)]),
        service,
        hint_error: hints.then(|| rounded(point.between(A::HintError, 0.0, 0.5))),
        hiccups: hiccups(point),
        round_trip: rounded(point.between(A::RoundTrip, -1.0, 1.0).max(0.0)),
        bursts: point.choose(A::Arrivals, &[(3, false), (1, true)]),
    }
}

fn service(point: Point) -> Service {
    let spread = point.at(Axis::Spread);
    let kinds = [(4, 0), (2, 1), (2, 2), (2, 3), (2, 4), (1, 5)];
    match point.choose(Axis::Service, &kinds) {
        0 => Service::Exponential,
        1 => Service::Constant,
        2 => Service::LogNormal { sigma: 0.5 },
        3 => Service::LogNormal { sigma: rounded(1.0 + spread) },
        4 => Service::Classes { share: rounded(0.02 + 0.28 * spread) },
        _ => Service::Pareto { alpha: rounded(1.5 + spread) },
    }
}

fn hiccups(point: Point) -> Hiccups {
    let probability = rounded(point.by_factor(Axis::Probability, 1e-5, 1e-1));
    let length = rounded(point.by_factor(Axis::Length, 5.0, 100.0));
    // Of a replica: it has one for this share of the time.
    let share = rounded(point.by_factor(Axis::Probability, 1e-4, 3e-2));
    let kinds = [(5, 0), (3, 1), (1, 2), (1, 3), (1, 4)];
    match point.choose(Axis::Hiccups, &kinds) {
        0 => Hiccups::Constant { probability, length },
        1 => Hiccups::Exponential { probability, length },
        2 => Hiccups::Correlated { probability, length },
        3 => Hiccups::Pauses { share, length },
        _ => Hiccups::SlowTimes { share, length: rounded(10.0 * length) },
    }
}

/// To three significant digits, so that a world can be read and typed.
fn rounded(x: f64) -> f64 {
    format!("{x:.2e}").parse().expect("a number that was just written")
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

    #[test]
    fn a_seed_and_a_number_are_a_world() {
        let all = |seed| (0..64).map(|number| world(number, seed)).collect::<Vec<_>>();
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }

    #[test]
    fn worlds_fill_the_space() {
        let worlds: Vec<World> = (0..512).map(|number| world(number, 42)).collect();
        let count = |is: &dyn Fn(&World) -> bool| worlds.iter().filter(|world| is(world)).count();
        assert!((60..=68).contains(&count(&|w| w.utilization < 0.05 + 0.85 / 8.0)));
        assert!((250..=262).contains(&count(&|w| w.replicas == 2)));
        assert!((380..=388).contains(&count(&|w| w.slots == 1)));
        assert!(count(&|w| w.shards == 1) > 40 && count(&|w| w.shards > 250) > 40);
        assert!(worlds.iter().all(|w| w.shards <= 500 && (0.05..=0.9).contains(&w.utilization)));
        assert!(count(&|w| w.tolerance() == Tolerance::Strict) > 250);
    }
}
