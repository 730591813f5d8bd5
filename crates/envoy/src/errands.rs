//! What waits for Envoy's main thread: statistics and load probes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use curtail_runtime::http::{LoadReport, ORCA};
use tokio::sync::oneshot;

use crate::abi::{Desk, Field, OpenDesk};
use crate::balancer;
use crate::cluster::Cluster;

/// How often Envoy gets statistics.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a server may take for a response to a probe, in ms.
const TIMEOUT_MS: u64 = 1_000;

/// Requests that ask servers for their load and have not been sent. A policy limits how many there
/// are.
static PROBES: Mutex<Vec<Probe>> = Mutex::new(Vec::new());

/// A request that asks a server for its load.
struct Probe {
    cluster: Arc<Cluster>,
    address: Arc<str>,
    path: Arc<str>,
    report: oneshot::Sender<LoadReport>,
}

/// The errands of a configuration. They end with it.
#[derive(Default)]
pub(crate) struct Errands {
    /// Probes that have been sent, by Envoy's numbers, which are those of the configuration.
    sent: RefCell<BTreeMap<u64, oneshot::Sender<LoadReport>>>,
}

/// Whether statistics are to be passed on.
static IS_DUE: AtomicBool = AtomicBool::new(false);

/// Passes on statistics from time to time.
pub(crate) async fn publish() {
    loop {
        tokio::time::sleep(INTERVAL).await;
        if let Some(desk) = Desk::newest() {
            IS_DUE.store(true, Ordering::Relaxed);
            desk.call();
        }
    }
}

/// Asks a server for its load as soon as possible. `None` if there is no filter.
pub(crate) fn ask(
    cluster: &Arc<Cluster>,
    address: Arc<str>,
    path: Arc<str>,
) -> Option<oneshot::Receiver<LoadReport>> {
    let desk = Desk::newest()?;
    let (report, reported) = oneshot::channel();
    let probe = Probe { cluster: Arc::clone(cluster), address, path, report };
    PROBES.lock().unwrap_or_else(PoisonError::into_inner).push(probe);
    desk.call();
    Some(reported)
}

impl Errands {
    /// Sends the probes. Returns whether statistics are to be passed on.
    pub(crate) fn run(&self, desk: &OpenDesk<'_>) -> bool {
        let probes = std::mem::take(&mut *PROBES.lock().unwrap_or_else(PoisonError::into_inner));
        for Probe { cluster, address, path, report } in probes {
            let mut fields = [
                Field::new(":method", "GET"),
                Field::new(":path", &*path),
                Field::new(":authority", &*address),
            ];
            let send = || desk.send(&cluster.name, &mut fields, TIMEOUT_MS);
            if let Some(id) = balancer::pinned(&cluster, Arc::clone(&address), send) {
                self.sent.borrow_mut().insert(id, report);
            }
        }
        IS_DUE.swap(false, Ordering::Relaxed)
    }

    /// A probe has a response. Without fields, it has none.
    pub(crate) fn answered(&self, id: u64, fields: &[Field<'_>]) {
        let Some(report) = self.sent.borrow_mut().remove(&id) else { return };
        let field = fields.iter().find(|field| field.name.bytes() == ORCA.as_bytes());
        let mut load = LoadReport::default();
        if let Some(field) = field {
            load.read_orca(field.value.bytes());
        }
        // Whoever asked may have given up.
        let _ = report.send(load);
    }
}
