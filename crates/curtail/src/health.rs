//! Takes servers out when their health checks fail, and restores them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use curtail_kernel::ServerId;
use curtail_runtime::health::{self, Check};
use curtail_runtime::{Cell, ProbeFailure};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::transport::{Replica, Replicas};

/// How often servers without a health check are considered for a return. The kernel decides when an
/// ejected server may return.
const INTERVAL: Duration = Duration::from_millis(250);

/// The health check of a service.
pub(crate) struct Health<S> {
    interval: Duration,
    check: Box<dyn Fn(S) -> BoxFuture<'static, bool> + Send + Sync>,
}

impl<S> Health<S> {
    pub(crate) fn new<F, T>(interval: Duration, check: F) -> Self
    where
        F: Fn(S) -> T + Send + Sync + 'static,
        T: Future<Output = bool> + Send + 'static,
    {
        Self { interval, check: Box::new(move |service| check(service).boxed()) }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    async fn check(&self, service: Option<S>) -> Check {
        let Some(service) = service else { return Check::Unknown };
        // A check that panics has failed, and is made again.
        let checking = AssertUnwindSafe(async { (self.check)(service).await }).catch_unwind();
        match timeout(2 * self.interval, checking).await {
            Ok(Ok(true)) => Check::Passed,
            Ok(Ok(false) | Err(_)) => Check::Failed(ProbeFailure::Check),
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
    for server in cell.transport().places.ids() {
        let (cell, health) = (cell.clone(), Arc::clone(health));
        let replicas = cell.clone();
        let interval = health.interval;
        let check = move |_| {
            let is_member = replicas.look(|core| core.server(server).member);
            let occupant = replicas.transport().places.at(server).filter(|_| is_member);
            let service = occupant.map(|occupant| occupant.server);
            let health = Arc::clone(&health);
            async move { health.check(service).await }
        };
        background.spawn(health::watch(cell, server, interval, check));
    }
}

/// Lets the servers of a cell return without a check, as soon as the kernel permits it.
pub(crate) async fn forgive<S: Replica<R>, R: Send + 'static>(cell: Cell<Replicas<S, R>>) {
    loop {
        sleep(INTERVAL).await;
        let out: Vec<ServerId> = cell.look(|core| {
            let places = (0..core.server_count()).map(|at| ServerId(at as u32));
            let is_out = |&place: &ServerId| {
                let view = core.server(place);
                view.member && !view.up
            };
            places.filter(is_out).collect()
        });
        out.into_iter().for_each(|server| cell.server_up(server));
    }
}
