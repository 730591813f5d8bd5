//! A service: cells with the same policy, and what they learn from each other.
//!
//! A policy that learns is useless without the epochs of its [`Learning`], so the service runs them
//! from its start until it is dropped.

use std::sync::Arc;

use curtail_kernel::{ConfigError, Limits, Policy, Topology, rng};
use tokio::task::AbortHandle;

use crate::cell::Cell;
use crate::learning::Learning;
use crate::observe::Observer;
use crate::timers::Timers;
use crate::transport::Transport;

/// The cells of a service that is being built.
pub struct ServiceBuilder<T: Transport> {
    policy: Policy,
    limits: Limits,
    timers: Timers,
    seed: u64,
    cells: Vec<Cell<T>>,
}

impl<T: Transport> ServiceBuilder<T> {
    /// Creates a service without cells. The seed determines how all of its cells break ties.
    pub fn new(policy: Policy, limits: Limits, timers: Timers, seed: u64) -> Self {
        Self { policy, limits, timers, seed, cells: Vec::new() }
    }

    /// Returns the cells that were added.
    pub fn cells(&self) -> &[Cell<T>] {
        &self.cells
    }

    /// Adds a cell and returns it.
    ///
    /// # Errors
    /// See [`Policy::build`].
    ///
    /// # Panics
    /// Panics if called outside a tokio runtime, because copies can outlive their queries as its tasks.
    pub fn add(
        &mut self,
        topology: &Topology,
        transport: T,
        observer: impl Observer,
    ) -> Result<&Cell<T>, ConfigError> {
        // Cells that share a seed would all break ties in the same way.
        let seed = rng(self.seed ^ self.cells.len() as u64);
        let kernel = self.policy.build(topology, self.limits, seed)?;
        let cell = Cell::observed(kernel, transport, self.timers.clone(), observer);
        self.cells.push(cell);
        Ok(self.cells.last().expect("one was added"))
    }

    /// Starts to learn, if the policy learns.
    ///
    /// # Panics
    /// Panics if called outside a tokio runtime.
    pub fn start(self) -> Service<T> {
        let Self { policy, limits, cells, .. } = self;
        let learning = policy.learner(&limits).map(Learning::new).map(Arc::new);
        let epochs = learning.clone().map(|learning| {
            let cells = cells.clone();
            tokio::spawn(async move { learning.run(&cells).await }).abort_handle()
        });
        Service { cells, learning, epochs }
    }
}

/// Cells with the same policy, which learn from each other until this is dropped.
#[derive(Debug)]
pub struct Service<T: Transport> {
    cells: Vec<Cell<T>>,
    learning: Option<Arc<Learning>>,
    epochs: Option<AbortHandle>,
}

impl<T: Transport> Service<T> {
    /// Returns the cells in the order in which they were added.
    pub fn cells(&self) -> &[Cell<T>] {
        &self.cells
    }

    /// Returns what the service has learned. `None` if its policy does not learn.
    pub fn learning(&self) -> Option<&Learning> {
        self.learning.as_deref()
    }
}

impl<T: Transport> Drop for Service<T> {
    fn drop(&mut self) {
        if let Some(epochs) = &self.epochs {
            epochs.abort();
        }
    }
}
