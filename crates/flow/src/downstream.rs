//! A bounded table that assigns dense ids to the instances of the services that this process calls.
//!
//! Source: document 002 §5.2.4, *Rate aggregation*. Instances come and go, but the kernel's ids are
//! permanent. Once a service has [`INSTANCES_MAX`] instances, a new one therefore replaces the one
//! that was called least recently.
//!
//! Cost: O(1) per call, or O(instances) for a new instance.

use curtail_kernel::Timestamp;
use curtail_kernel::flow::{InstanceId, Process};

/// The largest number of instances of a service in the table.
pub(crate) const INSTANCES_MAX: usize = 256;
/// The largest number of services in the table. Any additional services are called without rate
/// limits.
pub(crate) const SERVICES_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Services(Vec<Service>);

#[derive(Debug)]
struct Service {
    name: String,
    instances: Vec<Instance>,
}

#[derive(Debug)]
struct Instance {
    name: String,
    id: InstanceId,
    /// Incremented when another instance takes over this entry.
    generation: u32,
    called: Timestamp,
}

/// The table entry of an instance, which is valid until another instance takes it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    service: usize,
    at: usize,
    generation: u32,
    id: InstanceId,
}

impl Services {
    /// Records a call to an instance and returns its kernel id. Returns `None` if another instance
    /// has taken over its entry.
    pub(crate) fn id(&mut self, now: Timestamp, place: Place) -> Option<InstanceId> {
        let instance = self.0.get_mut(place.service)?.instances.get_mut(place.at)?;
        if instance.generation != place.generation {
            return None;
        }
        instance.called = now;
        Some(instance.id)
    }

    /// Returns the entry of an instance, which may be new. `None` if there are too many services.
    pub(crate) fn place(
        &mut self,
        process: &mut Process,
        now: Timestamp,
        (service, name): (&str, &str),
    ) -> Option<Place> {
        let known = self.0.iter().position(|known| known.name == service);
        let of = match known {
            Some(of) => of,
            None if self.0.len() >= SERVICES_MAX => return None,
            None => {
                self.0.push(Service { name: service.to_owned(), instances: Vec::new() });
                self.0.len() - 1
            }
        };
        let instances = &mut self.0[of].instances;
        let at = match instances.iter().position(|known| known.name == name) {
            Some(at) => at,
            None if instances.len() < INSTANCES_MAX => {
                let id = process.add_instance(of as u32);
                let name = name.to_owned();
                instances.push(Instance { name, id, generation: 0, called: now });
                instances.len() - 1
            }
            None => {
                let oldest = (0..instances.len()).min_by_key(|&at| instances[at].called)?;
                let place = &mut instances[oldest];
                process.forget(place.id);
                name.clone_into(&mut place.name);
                place.generation = place.generation.wrapping_add(1);
                place.called = now;
                oldest
            }
        };
        let Instance { generation, id, .. } = instances[at];
        Some(Place { service: of, at, generation, id })
    }
}

#[cfg(test)]
mod tests {
    use curtail_kernel::flow::{Config, Workflow};

    use super::*;

    #[test]
    fn instances_are_bounded_and_a_place_that_is_lost_is_not_used() {
        let mut process = Process::new(Config::default(), &[Workflow::default()], &[]);
        let mut services = Services::default();
        let mut place = |ms, service: &str, name: &str| {
            let place = services.place(&mut process, Timestamp(ms), (service, name));
            (place, place.and_then(|place| services.id(Timestamp(ms), place)))
        };
        let (first, id) = place(0, "store", "0");
        assert_eq!(id, Some(InstanceId(0)));
        for instance in 1..INSTANCES_MAX {
            place(1, "store", &instance.to_string());
        }
        assert_eq!(place(2, "store", "7").1, Some(InstanceId(7)));
        assert_eq!(place(3, "store", "new").1, Some(InstanceId(0)), "that of the oldest");
        for service in 1..SERVICES_MAX {
            assert!(place(4, &service.to_string(), "a").1.is_some());
        }
        assert_eq!(place(4, "one too many", "a"), (None, None));
        assert_eq!(services.id(Timestamp(5), first.expect("it was there")), None);
    }
}
