//! The number of reads that each node serves, according to its own count.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::task::JoinHandle;

use crate::client;
use crate::nodes::{self, NODES};
use crate::workload::{KEYSPACE, Table};

const EVERY: Duration = Duration::from_millis(100);

/// The time in s, and the number of reads that a node had served by then.
type Counts = Vec<(f64, i64)>;

/// Polls every node every 100 ms until it is stopped.
pub(crate) struct Watch {
    counts: Arc<Mutex<Vec<Counts>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Watch {
    pub(crate) async fn start(table: Table) -> Result<Self> {
        let counts = Arc::new(Mutex::new(vec![Counts::new(); NODES]));
        let mut sessions = Vec::new();
        for node in 0..NODES {
            let known = SessionBuilder::new().known_node(nodes::address(node));
            sessions.push(known.build().await?);
        }
        let start = Instant::now();
        let task =
            |(node, session)| tokio::spawn(watch(session, node, table, start, Arc::clone(&counts)));
        let tasks = sessions.into_iter().enumerate().map(task).collect();
        Ok(Self { counts, tasks })
    }

    /// Returns the index of dispersion of the busiest node's load within `seconds`: the variance over
    /// the mean of the reads per 100 ms. It is 1 if reads arrive at random.
    pub(crate) fn stop(self, seconds: Range<f64>) -> f64 {
        self.tasks.iter().for_each(JoinHandle::abort);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter_mut().for_each(|counts| counts.retain(|(at, _)| seconds.contains(at)));
        dispersion(counts.iter().map(per_interval))
    }
}

/// Returns the index of dispersion of the loads with the largest sum. NaN without loads.
fn dispersion(nodes: impl Iterator<Item = Vec<f64>>) -> f64 {
    let sum = |loads: &Vec<f64>| loads.iter().sum::<f64>();
    let busiest = nodes.max_by(|one, other| sum(one).total_cmp(&sum(other))).unwrap_or_default();
    let mean = sum(&busiest) / busiest.len() as f64;
    let squares: f64 = busiest.iter().map(|load| (load - mean).powi(2)).sum();
    squares / (busiest.len() as f64 - 1.0) / mean
}

/// Polls a node. If a node does not respond in time, it is polled again, and the next count covers
/// both intervals.
async fn watch(
    session: Session,
    node: usize,
    table: Table,
    start: Instant,
    counts: Arc<Mutex<Vec<Counts>>>,
) {
    let select = format!(
        "SELECT count FROM system_views.local_read_latency \
         WHERE keyspace_name = '{KEYSPACE}' AND table_name = '{}'",
        table.name()
    );
    let Ok(select) = session.prepare(select).await else { return };
    let Ok(select) = client::pin(&select, node) else { return };
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        ticks.tick().await;
        let Ok(response) = session.execute_unpaged(&select, &[]).await else { continue };
        let count =
            response.into_rows_result().ok().and_then(|rows| rows.first_row::<(i64,)>().ok());
        if let Some((count,)) = count {
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts[node].push((start.elapsed().as_secs_f64(), count));
        }
    }
}

/// Returns the reads per 100 ms, computed from pairs of counts that are about 100 ms apart.
fn per_interval(counts: &Counts) -> Vec<f64> {
    let every = EVERY.as_secs_f64();
    let load = |two: &[(f64, i64)]| {
        let span = two[1].0 - two[0].0;
        (span > 0.5 * every && span < 1.5 * every)
            .then(|| (two[1].1 - two[0].1) as f64 * every / span)
    };
    counts.windows(2).filter_map(load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_per_interval_and_gaps_are_left_out() {
        let counts = vec![(0.0, 10), (0.1, 30), (0.22, 54), (0.6, 90), (0.61, 91), (0.7, 100)];
        let loads = per_interval(&counts);
        assert_eq!(loads.len(), 3, "{loads:?}");
        assert!((loads[0] - 20.0).abs() < 1e-9 && (loads[1] - 20.0).abs() < 1e-9, "{loads:?}");
        assert!((loads[2] - 10.0).abs() < 1e-6, "{loads:?}");
    }
    #[test]
    fn the_dispersion_is_that_of_the_busiest_node() {
        let nodes = [vec![1.0, 2.0], vec![10.0, 20.0, 30.0], vec![5.0]];
        assert_eq!(dispersion(nodes.into_iter()), 5.0);
    }
}
