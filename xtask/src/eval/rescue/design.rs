//! Worlds for the study: points of a scrambled Sobol sequence (Burley 2020), which fill the space of
//! services more evenly than random ones. A seed and a number give the same world everywhere.

use super::world::{Hiccups, Service, World};

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
        assert!(count(&|w| w.tolerance() == super::super::world::Tolerance::Strict) > 250);
    }
}
