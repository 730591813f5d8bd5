//! What Envoy's main thread does for this module: statistics and load probes.
//!
//! Envoy offers both only to the configuration of a filter, and only on its main thread.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use smallvec::SmallVec;

use super::raw::{self, Field, Object, STARTED, Slice};

/// Defines a statistic, given its name and labels.
type Define = unsafe extern "C" fn(Object, Slice<'_>, *mut Slice<'_>, usize, *mut usize) -> u32;

/// The configuration of a filter, on the main thread.
pub(crate) struct Desk {
    config: Object,
    scheduler: Object,
    /// Envoy's numbers of the statistics, in the order in which they were defined.
    counters: Vec<usize>,
    gauges: Vec<usize>,
}

// SAFETY: Other threads only use the scheduler, which belongs to no thread.
unsafe impl Send for Desk {}
// SAFETY: As above; `call` does not change it.
unsafe impl Sync for Desk {}

static DESKS: Mutex<Vec<Weak<Desk>>> = Mutex::new(Vec::new());

impl Desk {
    /// Defines the statistics, which all have these labels.
    ///
    /// # Safety
    /// `config` is Envoy's pointer to the configuration that it creates now.
    pub(super) unsafe fn open(
        config: Object,
        counters: &[&str],
        gauges: &[&str],
        labels: &[&str],
    ) -> Arc<Self> {
        let mut labels: SmallVec<[Slice<'_>; 4]> = labels.iter().map(Slice::from).collect();
        let mut define = |define: Define, name: &str| {
            let mut id = 0;
            // SAFETY: Envoy copies the texts, and writes to the variable.
            unsafe {
                let (start, count) = (labels.as_mut_ptr(), labels.len());
                define(config, name.into(), start, count, &raw mut id);
            }
            id
        };
        let count = |name: &&str| define(raw::http_filter_config_define_counter, name);
        let counters = counters.iter().map(count).collect();
        let gauge = |name: &&str| define(raw::http_filter_config_define_gauge, name);
        let gauges = gauges.iter().map(gauge).collect();
        // SAFETY: See above.
        let scheduler = unsafe { raw::http_filter_config_scheduler_new(config) };
        let desk = Arc::new(Self { config, scheduler, counters, gauges });
        let mut desks = DESKS.lock().unwrap_or_else(PoisonError::into_inner);
        desks.push(Arc::downgrade(&desk));
        desk
    }

    /// Returns the newest desk, unless there is no filter. Older ones end with their listeners.
    pub(crate) fn newest() -> Option<Arc<Self>> {
        let mut desks = DESKS.lock().unwrap_or_else(PoisonError::into_inner);
        desks.retain(|desk| desk.strong_count() > 0);
        desks.last().and_then(Weak::upgrade)
    }

    /// Lets the main thread look for work.
    pub(crate) fn call(&self) {
        // SAFETY: The scheduler lives as long as the desk.
        unsafe { raw::http_filter_config_scheduler_commit(self.scheduler, 0) };
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // SAFETY: It is dropped once.
        unsafe { raw::http_filter_config_scheduler_delete(self.scheduler) };
    }
}

/// A desk, during a hook on the main thread.
pub(crate) struct OpenDesk<'h>(&'h Desk);

impl<'h> OpenDesk<'h> {
    /// # Safety
    /// Envoy's main thread runs a hook of the desk's configuration.
    pub(super) unsafe fn new(desk: &'h Desk) -> Self {
        Self(desk)
    }

    /// Adds to a counter.
    pub(crate) fn add(&self, counter: usize, labels: &[&str], value: u64) {
        let mut labels: SmallVec<[Slice<'_>; 4]> = labels.iter().map(Slice::from).collect();
        let (start, count) = (labels.as_mut_ptr(), labels.len());
        let id = self.0.counters[counter];
        // SAFETY: See `new`. Envoy copies the texts.
        unsafe {
            raw::http_filter_config_increment_counter(self.0.config, id, start, count, value)
        };
    }

    /// Sets a gauge.
    pub(crate) fn set(&self, gauge: usize, labels: &[&str], value: u64) {
        let mut labels: SmallVec<[Slice<'_>; 4]> = labels.iter().map(Slice::from).collect();
        let (start, count) = (labels.as_mut_ptr(), labels.len());
        let id = self.0.gauges[gauge];
        // SAFETY: See `new`. Envoy copies the texts.
        unsafe { raw::http_filter_config_set_gauge(self.0.config, id, start, count, value) };
    }

    /// Sends a request to a cluster. Returns its number, or `None` if it cannot be sent.
    pub(crate) fn send(
        &self,
        cluster: &str,
        fields: &mut [Field<'_>],
        timeout_ms: u64,
    ) -> Option<u64> {
        let mut id = 0;
        // SAFETY: See `new`. Envoy copies the fields, and writes to the variable.
        let started = unsafe {
            let (start, count) = (fields.as_mut_ptr(), fields.len());
            let (cluster, body, id) = (cluster.into(), Slice::EMPTY, &raw mut id);
            let config = self.0.config;
            raw::http_filter_config_http_callout(
                config, id, cluster, start, count, body, timeout_ms,
            )
        };
        (started == STARTED).then_some(id)
    }
}
