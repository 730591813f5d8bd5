//! Bounded tables that assign permanent ids of the kernel to the processes that call this one, and to
//! the instances of the services that it calls.
//!
//! Source: document 002 §5.2.4, *Rate aggregation*: a process announces to each caller the caller's
//! share of the rate, and adds up the rates of the instances. Callers are identified by random numbers
//! that they send, which are untrusted input, and instances come and go. When a table is full, a new key
//! therefore takes the id of the one that was used least recently.
//!
//! Cost: O(1) per use, or O(keys) if a new key replaces another.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use curtail_kernel::Timestamp;
use curtail_kernel::flow::{InstanceId, Process};

/// The keys that were used recently, with their ids.
#[derive(Debug)]
pub(crate) struct Recent<K, I> {
    most: usize,
    used: HashMap<K, Used<I>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used<I> {
    id: I,
    at: Timestamp,
}

/// The id of a key that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Added<I> {
    pub(crate) id: I,
    /// Whether the id belonged to another key before.
    pub(crate) is_replaced: bool,
}

impl<K: Clone + Eq + Hash, I: Copy> Recent<K, I> {
    /// A table for at most this number of keys.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, used: HashMap::new() }
    }

    /// Returns the id of a key, if the key is in the table.
    pub(crate) fn id<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<I>
    where
        K: Borrow<Q>,
    {
        self.used.get(key).map(|used| used.id)
    }

    /// Records a use of a key, and returns its id, if the key is in the table.
    pub(crate) fn touch<Q: Eq + Hash + ?Sized>(&mut self, now: Timestamp, key: &Q) -> Option<I>
    where
        K: Borrow<Q>,
    {
        let used = self.used.get_mut(key)?;
        used.at = now;
        Some(used.id)
    }

    /// Adds a key that is not in the table. `new` returns a new id from the number of keys.
    pub(crate) fn add(&mut self, now: Timestamp, key: K, new: impl FnOnce(usize) -> I) -> Added<I> {
        let oldest =
            || self.used.iter().min_by_key(|(_, used)| used.at).map(|(key, _)| key.clone());
        let oldest = if self.used.len() < self.most { None } else { oldest() };
        let replaced = oldest.and_then(|key| self.used.remove(&key));
        let id = replaced.as_ref().map_or_else(|| new(self.used.len()), |used| used.id);
        self.used.insert(key, Used { id, at: now });
        Added { id, is_replaced: replaced.is_some() }
    }
}

/// The largest number of instances of a service in the table.
const INSTANCES_MAX: usize = 256;
/// The largest number of services in the table. Any additional services are called without rate
/// limits.
const SERVICES_MAX: usize = 256;

/// The instances of the services that this process calls.
#[derive(Debug, Default)]
pub(crate) struct Services(HashMap<String, Service>);

#[derive(Debug)]
struct Service {
    number: u32,
    instances: Recent<String, InstanceId>,
}

impl Services {
    /// Records a call to an instance, and returns its id. Returns `None` if the instance is not in the
    /// table, because another one has taken its place.
    pub(crate) fn touch(
        &mut self,
        now: Timestamp,
        service: &str,
        name: &str,
    ) -> Option<InstanceId> {
        self.0.get_mut(service)?.instances.touch(now, name)
    }

    /// Records a call to an instance, which may be new, and returns its id. Returns `None` if there are
    /// too many services.
    pub(crate) fn call(
        &mut self,
        process: &mut Process,
        now: Timestamp,
        service: &str,
        name: &str,
    ) -> Option<InstanceId> {
        let known = self.0.len();
        if !self.0.contains_key(service) {
            if known >= SERVICES_MAX {
                return None;
            }
            let new = Service { number: known as u32, instances: Recent::new(INSTANCES_MAX) };
            self.0.insert(service.to_owned(), new);
        }
        let Service { number, instances } = self.0.get_mut(service)?;
        if let Some(id) = instances.touch(now, name) {
            return Some(id);
        }
        let added = instances.add(now, name.to_owned(), |_| process.add_instance(*number));
        if added.is_replaced {
            process.forget(added.id);
        }
        Some(added.id)
    }
}

#[cfg(test)]
mod tests {
    use curtail_kernel::flow::{Config, Workflow};

    use super::*;

    #[test]
    fn a_new_key_replaces_the_one_that_was_silent_for_longest() {
        let mut callers = Recent::new(1_024);
        let mut call = |at: u32, number: u32| match callers.touch(Timestamp(at.into()), &number) {
            Some(id) => Added { id, is_replaced: false },
            None => callers.add(Timestamp(at.into()), number, |count| count as u32),
        };
        for number in 0..1_024 {
            assert_eq!(call(number, 7 * number), Added { id: number, is_replaced: false });
        }
        assert_eq!(call(1_024, 0), Added { id: 0, is_replaced: false });
        assert_eq!(call(1_024, 1), Added { id: 1, is_replaced: true }, "that of 7");
        assert_eq!(call(1_024, 7), Added { id: 2, is_replaced: true });
        assert_eq!(callers.used.len(), 1_024);
    }

    #[test]
    fn instances_are_bounded_and_one_that_has_lost_its_place_has_no_id() {
        let mut process = Process::new(Config::default(), &[Workflow::default()], &[]);
        let mut services = Services::default();
        let mut call = |ms, service: &str, name: &str| {
            services.call(&mut process, Timestamp(ms), service, name)
        };
        assert_eq!(call(0, "store", "0"), Some(InstanceId(0)));
        for instance in 1..INSTANCES_MAX {
            call(1, "store", &instance.to_string());
        }
        assert_eq!(call(2, "store", "7"), Some(InstanceId(7)));
        assert_eq!(call(3, "store", "new"), Some(InstanceId(0)), "that of the oldest");
        for service in 1..SERVICES_MAX {
            assert!(call(4, &service.to_string(), "a").is_some());
        }
        assert_eq!(call(4, "one too many", "a"), None);
        assert_eq!(services.touch(Timestamp(5), "store", "0"), None);
    }
}
