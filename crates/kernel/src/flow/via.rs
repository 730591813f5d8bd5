//! Which services a rate depends on, so that no rate depends on itself.
//!
//! The source leaves open how cycles are broken (document 002 §5.4: a ring of nodes that are each upstream and
//! downstream of the others). As in path-vector routing, a rate travels with the services that it stands for. A
//! process that finds its own service among them does not take the rate, which would depend on its own; it takes
//! the announcer's *local* rate instead, which depends on nothing but the announcer's resources. So a cycle is as
//! good as a chain that ends where it would close.

/// The most services that a rate names. Longer paths are cut, and then treated as if they were a cycle: the local
/// rate counts, and what is deeper is protected by its own limiters.
const MOST: usize = 16;

/// A set of services, by 16-bit hashes of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Via {
    services: [u16; MOST],
    count: u8,
    is_cut: bool,
}

impl Via {
    /// The service, and no other.
    #[must_use]
    pub fn only(service: u16) -> Self {
        let mut via = Self::default();
        via.insert(service);
        via
    }

    /// A set that says that it is longer than can be said.
    #[must_use]
    pub fn cut() -> Self {
        Self { is_cut: true, ..Self::default() }
    }

    /// The services.
    #[must_use]
    pub fn services(&self) -> &[u16] {
        &self.services[..usize::from(self.count)]
    }

    /// Are there more than it can name?
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// May a rate that stands for these depend on the service?
    #[must_use]
    pub fn leads_to(&self, service: u16) -> bool {
        self.is_cut || self.services().contains(&service)
    }

    /// Adds a service.
    pub fn insert(&mut self, service: u16) {
        if self.services().contains(&service) {
            return;
        }
        match self.services.get_mut(usize::from(self.count)) {
            Some(free) => {
                *free = service;
                self.count += 1;
            }
            None => self.is_cut = true,
        }
    }

    /// Adds the services of another set.
    pub fn extend(&mut self, other: &Self) {
        other.services().iter().for_each(|&service| self.insert(service));
        self.is_cut |= other.is_cut;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_its_services_and_says_when_they_are_too_many() {
        let mut via = Via::only(7);
        via.extend(&Via::only(9));
        via.insert(7);
        assert_eq!(via.services(), [7, 9]);
        assert!(via.leads_to(9) && !via.leads_to(8));
        (100..120).for_each(|service| via.insert(service));
        assert!(via.is_cut() && via.leads_to(8));
    }
}
