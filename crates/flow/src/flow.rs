//! One process of a service, shared by all of its requests.
//!
//! Source: document 002 §5.2.2, *Per-process local model per-workflow*.
//!
//! Cost: a clone increments a reference count.

use std::sync::Arc;

use curtail_kernel::flow::Announcement;

use crate::builder::Builder;
use crate::inner::Inner;

/// One process of a service. Clones share it. It ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Flow(pub(crate) Arc<Inner>);

impl Flow {
    /// Returns a builder for a process of a service. All processes of the service have the same
    /// name.
    #[must_use]
    pub fn builder(service: &str) -> Builder {
        Builder::new(service)
    }

    /// Returns the name of its service.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.0.service
    }

    /// Returns the announcement for a caller, which contains its share of the rate. Returns `None`
    /// if the caller has not called recently. The layers add it to responses.
    #[must_use]
    pub fn announcement(&self, workflow: &str, caller: u32) -> Option<Announcement> {
        let (id, _) = self.0.classify(workflow);
        let (state, _) = self.0.lock();
        state.announcement(id, caller)
    }
}
