//! The hosts of a cluster, as one thread of Envoy sees them.

use super::raw::{self, Object, Slice};

/// The hosts of a cluster, during a hook.
pub(crate) struct HostSet(Object);

/// A host by its position: its priority, and its index among the hosts of that priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) priority: u32,
    pub(crate) index: u32,
}

impl HostSet {
    /// # Safety
    /// `lb` is Envoy's pointer to the load balancer whose hook runs.
    pub(super) unsafe fn new(lb: Object) -> Self {
        Self(lb)
    }

    /// Returns the name of the cluster.
    pub(crate) fn cluster(&self) -> String {
        let mut name = Slice::EMPTY;
        // SAFETY: See `new`. Envoy writes to the variable.
        unsafe { raw::lb_get_cluster_name(self.0, &raw mut name) };
        String::from_utf8_lossy(name.bytes()).into_owned()
    }

    fn priorities(&self) -> u32 {
        // SAFETY: See `new`.
        u32::try_from(unsafe { raw::lb_get_priority_set_size(self.0) }).unwrap_or(0)
    }

    /// Returns the addresses of all hosts.
    pub(crate) fn all(&self) -> Vec<(Position, String)> {
        // SAFETY: See `new`.
        self.list(raw::lb_get_hosts_count, raw::lb_get_host_address)
    }

    /// Returns the addresses of the hosts that may get requests.
    pub(crate) fn healthy(&self) -> Vec<(Position, String)> {
        self.list(raw::lb_get_healthy_hosts_count, raw::lb_get_healthy_host_address)
    }

    fn list(
        &self,
        count: unsafe extern "C" fn(Object, u32) -> usize,
        address: unsafe extern "C" fn(Object, u32, usize, *mut Slice<'_>) -> bool,
    ) -> Vec<(Position, String)> {
        let mut hosts = Vec::new();
        for priority in 0..self.priorities() {
            // SAFETY: See `new`.
            for index in 0..unsafe { count(self.0, priority) } {
                let mut found = Slice::EMPTY;
                // SAFETY: See `new`. Envoy writes to the variable.
                if unsafe { address(self.0, priority, index, &raw mut found) } {
                    let position = Position { priority, index: index as u32 };
                    hosts.push((position, String::from_utf8_lossy(found.bytes()).into_owned()));
                }
            }
        }
        hosts
    }
}
