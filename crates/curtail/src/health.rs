//! Takes servers out when their health checks fail, and restores them.

use std::sync::Arc;
use std::time::Duration;

use curtail_kernel::ServerId;
use curtail_runtime::health::{self, Check};
use curtail_runtime::{Cell, ProbeFailure};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::transport::{Replica, Replicas};

/// How often servers without a health check are considered for a return. The kernel decides when an
/// ejected server may return.
const INTERVAL: Duration = Duration::from_millis(250);

/// The health check of a service.
pub(crate) struct Health<S> {
    interval: Duration,
    /// `None` if servers that are out return without a check.
    check: Option<Box<dyn Fn(S) -> BoxFuture<'static, bool> + Send + Sync>>,
}

impl<S> Default for Health<S> {
    fn default() -> Self {
        Self { interval: INTERVAL, check: None }
    }
}

impl<S> Health<S> {
    pub(crate) fn new<F, T>(interval: Duration, check: F) -> Self
    where
        F: Fn(S) -> T + Send + Sync + 'static,
        T: Future<Output = bool> + Send + 'static,
    {
        Self { interval, check: Some(Box::new(move |service| check(service).boxed())) }
    }

    async fn check(&self, up: bool, service: Option<S>) -> Check {
        let Some(service) = service else { return Check::Unknown };
        let Some(check) = &self.check else {
            return if up { Check::Unknown } else { Check::Passed };
        };
        match timeout(2 * self.interval, check(service)).await {
            Ok(true) => Check::Passed,
            Ok(false) => Check::Failed(ProbeFailure::Check),
            Err(_) => Check::Failed(ProbeFailure::Silent),
        }
    }
}

/// Starts to check the servers of a cell.
pub(crate) fn watch<S: Replica<R>, R: Send + 'static>(
    cell: &Cell<Replicas<S, R>>,
    health: &Arc<Health<S>>,
    background: &mut JoinSet<()>,
) {
    for place in 0..cell.transport().places() {
        let (cell, health, server) = (cell.clone(), Arc::clone(health), ServerId(place as u32));
        let replicas = cell.clone();
        let interval = health.interval;
        let check = move |up| {
            let is_member = replicas.look(|core| core.server(server).member);
            let occupant = replicas.transport().at(server).filter(|_| is_member);
            let service = occupant.map(|occupant| occupant.service);
            let health = Arc::clone(&health);
            async move { health.check(up, service).await }
        };
        background.spawn(health::watch(cell, server, interval, check));
    }
}
