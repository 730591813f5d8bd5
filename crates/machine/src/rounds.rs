//! Rounds in which the sides of a comparison take turns.
//!
//! All turns of a round have the same conditions, and the side that begins changes from round to
//! round. A round is not informative if the hypervisor took time from the machine during a turn, or
//! if the caller finds a turn unsound. Such a round is run again, with another number, up to a limit.
//! The least disturbed rounds count.

use std::time::Instant;

use super::Reading;

/// The maximum share of a processor that the hypervisor may take in a turn that counts. In a short
/// turn, a single tick of the kernel's clock exceeds this share.
pub const STOLEN_MAX: f64 = 0.03;
/// The maximum number of rounds that are run per required round.
const REPEATS: usize = 3;

/// Rounds of turns with a result of type `T` each.
#[derive(Debug)]
pub struct Rounds<T> {
    sides: usize,
    wanted: usize,
    taken: usize,
    calm: usize,
    rounds: Vec<(f64, Vec<T>)>,
}

/// The next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// The number of the round, from 0. It differs from that of any other round, so it may seed what
    /// the turns of a round have in common.
    pub number: usize,
    /// The number of undisturbed rounds before it.
    pub calm: usize,
    sides: usize,
}

impl Round {
    /// Returns the sides in the order of their turns.
    pub fn order(self) -> impl Iterator<Item = usize> {
        (0..self.sides).map(move |turn| (turn + self.number) % self.sides)
    }

    /// Runs the turns in their order, and returns the results in the order of the sides.
    pub fn turns<T, E>(self, mut turn: impl FnMut(usize) -> Result<T, E>) -> Result<Vec<T>, E> {
        let mut turns: Vec<Option<T>> = (0..self.sides).map(|_| None).collect();
        for side in self.order() {
            turns[side] = Some(turn(side)?);
        }
        Ok(turns.into_iter().flatten().collect())
    }
}

impl<T> Rounds<T> {
    /// Plans this many undisturbed rounds.
    pub fn new(sides: usize, wanted: usize) -> Self {
        Self { sides, wanted, taken: 0, calm: 0, rounds: Vec::new() }
    }

    /// Returns the next round. `None` if there are enough rounds, or if too many were disturbed.
    pub fn begin(&mut self) -> Option<Round> {
        let wanted = self.calm < self.wanted && self.taken < REPEATS * self.wanted;
        let round = Round { number: self.taken, calm: self.calm, sides: self.sides };
        self.taken += usize::from(wanted);
        wanted.then_some(round)
    }

    /// Records the results of a round in the order of the sides, and the largest disturbance of its
    /// turns: the share of a processor that the hypervisor took, or infinity if a turn was unsound.
    /// A round that is not recorded does not count, but `begin` counts it toward the limit.
    pub fn end(&mut self, turns: Vec<T>, disturbance: f64) {
        self.calm += usize::from(disturbance < STOLEN_MAX);
        self.rounds.push((disturbance, turns));
    }

    /// Returns the number of rounds that were disturbed or not recorded so far.
    pub fn disturbed(&self) -> usize {
        self.taken - self.calm
    }

    /// Returns the results of the rounds that count, the least disturbed ones, in their order.
    pub fn finish(self) -> Vec<Vec<T>> {
        let mut ranked: Vec<_> = self.rounds.into_iter().enumerate().collect();
        ranked.sort_by(|(_, (one, _)), (_, (other, _))| one.total_cmp(other));
        ranked.truncate(self.wanted);
        ranked.sort_by_key(|(number, _)| *number);
        ranked.into_iter().map(|(_, (_, turns))| turns).collect()
    }
}

/// Lets the sides take turns in rounds, with notes on stderr, and returns the results by side and
/// round. `turn` gets the side and the round. A round is repeated if the hypervisor took time, or if
/// `is_sound` rejects a turn.
///
/// # Errors
/// If a turn fails.
pub fn take_turns<T, E>(
    sides: usize,
    wanted: usize,
    mut turn: impl FnMut(usize, Round) -> Result<T, E>,
    is_sound: impl Fn(&T) -> bool,
) -> Result<Vec<Vec<T>>, E> {
    let mut rounds = Rounds::new(sides, wanted);
    while let Some(round) = rounds.begin() {
        let mut disturbance: f64 = 0.0;
        let turns = round.turns(|side| {
            let stolen = Stolen::start();
            let result = turn(side, round)?;
            let share = if is_sound(&result) { stolen.share() } else { f64::INFINITY };
            disturbance = disturbance.max(share);
            Ok(result)
        })?;
        rounds.end(turns, disturbance);
    }
    if rounds.disturbed() > 0 {
        eprintln!("note: {} rounds were disturbed", rounds.disturbed());
    }
    let mut by_side: Vec<Vec<T>> = (0..sides).map(|_| Vec::new()).collect();
    for turns in rounds.finish() {
        by_side.iter_mut().zip(turns).for_each(|(side, turn)| side.push(turn));
    }
    Ok(by_side)
}

/// Measures the share of a processor that the hypervisor takes from the machine.
#[derive(Clone, Copy, Debug)]
pub struct Stolen {
    start: Instant,
    before: Option<Reading>,
}

impl Stolen {
    /// Starts to measure.
    pub fn start() -> Self {
        Self { start: Instant::now(), before: Reading::take(&[]) }
    }

    /// Returns the share since the start. 0 if the system does not report stolen time.
    pub fn share(self) -> f64 {
        let stolen_ns = |of: Option<Reading>| of.map_or(0, |reading| reading.stolen_ns());
        let taken = stolen_ns(Reading::take(&[])).saturating_sub(stolen_ns(self.before));
        taken as f64 / self.start.elapsed().as_nanos().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_take_turns_and_disturbed_rounds_are_repeated() {
        let mut rounds = Rounds::new(3, 3);
        let mut orders = Vec::new();
        for disturbance in [0.0, 0.5, 0.01, 0.0] {
            let round = rounds.begin().expect("one more");
            let mut order = Vec::new();
            let turns = round.turns(|side| {
                order.push(side);
                Ok::<_, ()>(10 * round.number + side)
            });
            orders.push(order);
            rounds.end(turns.expect("none fails"), disturbance);
        }
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!((rounds.begin(), rounds.disturbed()), (None, 1));
        assert_eq!(rounds.finish(), [[0, 1, 2], [20, 21, 22], [30, 31, 32]]);
    }

    #[test]
    fn a_calm_round_counts_rather_than_an_earlier_unsound_one() {
        let mut rounds = Rounds::new(1, 2);
        for disturbance in [f64::INFINITY, f64::INFINITY, 0.0] {
            let round = rounds.begin().expect("one more");
            rounds.end(vec![round.number], disturbance);
        }
        assert_eq!(rounds.finish(), [[0], [2]]);
    }

    #[test]
    fn the_least_disturbed_rounds_count_if_too_many_are_disturbed() {
        let mut rounds = Rounds::new(1, 2);
        let mut disturbances = [0.5, 0.2, f64::INFINITY, 0.3].into_iter();
        while let Some(round) = rounds.begin() {
            // The rounds after the fourth one fail.
            if let Some(disturbance) = disturbances.next() {
                rounds.end(vec![round.number], disturbance);
            }
        }
        assert_eq!(rounds.disturbed(), 6);
        assert_eq!(rounds.finish(), [[1], [3]]);
    }
    #[test]
    fn results_are_returned_by_side() {
        let turns = take_turns(2, 3, |side, round| Ok::<_, ()>([side, round.number]), |_| true);
        let turns = turns.expect("no turn fails");
        let is_of = |side| move |turn: &[usize; 2]| turn[0] == side;
        assert!(turns[0].len() == 3 && turns[0].iter().all(is_of(0)), "{turns:?}");
        assert!(turns[1].len() == 3 && turns[1].iter().all(is_of(1)), "{turns:?}");
        assert_eq!(take_turns(2, 3, |side, _| Err::<(), _>(side), |()| true), Err(0));
    }
}
