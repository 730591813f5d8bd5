//! One process of a service, to be shared by all of its requests.
//!
//! Source: document 002 §5.2.2, *Per-process local model per-workflow*.
//!
//! Cost: a clone is a reference count.

use std::sync::Arc;

use curtail_kernel::flow::Announcement;

use crate::builder::Builder;
use crate::inner::Inner;

/// One process of a service. Clones share it; it ends with the last of them.
#[derive(Clone, Debug)]
pub struct Flow(pub(crate) Arc<Inner>);

impl Flow {
    /// Of a service, by the name that all of its processes share.
    #[must_use]
    pub fn builder(service: &str) -> Builder {
        Builder::new(service)
    }

    /// The name of its service.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.0.service
    }

    /// What is announced to a caller, its part; none where it has not called of late. Layers put it on responses.
    #[must_use]
    pub fn announcement(&self, workflow: &str, caller: u32) -> Option<Announcement> {
        let (id, _) = self.0.classify(workflow);
        let (state, _) = self.0.lock();
        state.announcement(id, caller)
    }
}
