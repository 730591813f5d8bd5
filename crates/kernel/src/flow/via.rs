//! The services that a rate depends on, so that no rate depends on itself.
//!
//! The source does not say how cycles are broken (document 002 §5.4 describes a ring of nodes that
//! are each upstream and downstream of the others). As in path-vector routing, a rate travels with
//! the set of services that it depends on. A process that finds its own service in the set does not
//! use that rate, because its own rate would then depend on itself. It uses the announcer's *local*
//! rate instead, which depends only on the announcer's resources. So a cycle behaves like a chain
//! that ends just before the cycle would close.

/// The largest number of services in a set. A longer path is cut off and treated like a cycle: the
/// local rate applies, and services further downstream are protected by their own limiters.
const MOST: usize = 16;

/// A set of services, by 16-bit hashes of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Via {
    services: [u16; MOST],
    count: u8,
    is_cut: bool,
}

impl Via {
    /// Returns a set of one service.
    #[must_use]
    pub fn only(service: u16) -> Self {
        let mut via = Self::default();
        via.insert(service);
        via
    }

    /// Returns a set of unknown services that counts as too long.
    #[must_use]
    pub fn cut() -> Self {
        Self { is_cut: true, ..Self::default() }
    }

    /// Returns the services.
    #[must_use]
    pub fn services(&self) -> &[u16] {
        &self.services[..usize::from(self.count)]
    }

    /// Whether services are missing because the set was full.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether a rate with this set may depend on the service.
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
    fn a_set_contains_its_services_and_is_cut_when_they_are_too_many() {
        let mut via = Via::only(7);
        via.extend(&Via::only(9));
        via.insert(7);
        assert_eq!(via.services(), [7, 9]);
        assert!(via.leads_to(9) && !via.leads_to(8));
        (100..120).for_each(|service| via.insert(service));
        assert!(via.is_cut() && via.leads_to(8));
    }
}
