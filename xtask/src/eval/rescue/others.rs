//! What a service may do besides, for the table of all policies.

use super::judge::Beside;
use super::world::World;

/// A policy as a person would run it.
#[derive(Clone, Copy)]
pub(super) struct Other {
    /// What the table calls it.
    pub(super) name: &'static str,
    /// It is run as each of these, and the best p99 counts: as tuned for the world. N is one query
    /// more than a replica has slots.
    variants: &'static [&'static str],
}

const fn plain(only: &'static [&'static str; 1]) -> Other {
    Other { name: only[0], variants: only }
}

pub(super) const OTHERS: [Other; 11] = [
    plain(&["rescue:preempt"]),
    plain(&["rescue:no-cancel"]),
    plain(&["rescue+bounded:N"]),
    plain(&["bounded:N"]),
    plain(&["laedge"]),
    plain(&["laedge:cc"]),
    plain(&["laedge:cc+pc"]),
    plain(&["idealized"]),
    plain(&["tied"]),
    Other { name: "delayed, tuned", variants: &["delayed:1.5", "delayed:3", "delayed:6"] },
    Other { name: "probabilistic, trained", variants: &["probabilistic:auto:0.05"] },
];

impl Other {
    /// The policies that are run for it.
    pub(super) fn variants(self, world: &World) -> impl Iterator<Item = String> {
        let n = (world.slots + 1).to_string();
        self.variants.iter().map(move |name| name.replace('N', &n))
    }

    /// The variant that is best in a world.
    pub(super) fn best(outcomes: impl Iterator<Item = Beside>) -> Option<Beside> {
        outcomes.min_by(|a, b| a.p99.total_cmp(&b.p99))
    }
}

#[cfg(test)]
mod tests {
    use super::super::design::world;
    use super::*;

    #[test]
    fn a_bound_fits_the_slots_of_the_world() {
        let wide = (0..64).map(|number| world(number, 1)).find(|world| world.slots == 4);
        let wide = wide.expect("one world in four");
        let names: Vec<String> = OTHERS.iter().flat_map(|other| other.variants(&wide)).collect();
        assert!(names.contains(&"rescue+bounded:5".to_owned()), "{names:?}");
        assert!(names.iter().all(|name| !name.contains('N')), "{names:?}");
        assert_eq!(names.len(), OTHERS.len() + 2, "three are tried where one is tuned");
    }
}
