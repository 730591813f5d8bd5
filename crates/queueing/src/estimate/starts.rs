//! When services started, as the log says or as it follows from a station that is first come first
//! served. Cost: O(n log k) for k servers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{EstimateError, LATEST, Record};

/// When each request starts, in `order` of arrival.
pub(super) fn starts(
    records: &[Record],
    order: &[usize],
    servers: u32,
) -> Result<Vec<f64>, EstimateError> {
    let logged = records[0].start.is_some();
    for (index, record) in records.iter().enumerate() {
        if record.start.is_some() != logged {
            return Err(EstimateError::MixedStarts(index));
        }
        let start = record.start.unwrap_or(record.arrival);
        let usable = |time: f64| time.abs() <= LATEST;
        if ![record.arrival, start, record.end].into_iter().all(usable) {
            return Err(EstimateError::BadTime(index));
        }
        if start < record.arrival || record.end < start {
            return Err(EstimateError::OutOfOrder { index, start, end: record.end });
        }
    }
    if logged {
        overlap(records, servers)?;
        return Ok(order.iter().filter_map(|&index| records[index].start).collect());
    }
    // The latest ends so far, one for each server: the earliest of them frees the next.
    let mut latest: BinaryHeap<Reverse<Moment>> = BinaryHeap::new();
    let mut starts = Vec::with_capacity(records.len());
    for &index in order {
        let Record { arrival, end, .. } = records[index];
        let full = latest.len() >= servers as usize;
        let free = if full { latest.pop().map(|Reverse(Moment(end))| end) } else { None };
        let start = free.map_or(arrival, |free| free.max(arrival));
        if end < start {
            return Err(EstimateError::Overtaken { index, start, end, servers });
        }
        // It ends after the one that was taken out, so these are still the latest.
        latest.push(Reverse(Moment(end)));
        starts.push(start);
    }
    Ok(starts)
}

/// Fails at the first start, in time, that finds all servers taken.
fn overlap(records: &[Record], servers: u32) -> Result<(), EstimateError> {
    let mut by_start: Vec<(f64, f64, usize)> = records
        .iter()
        .enumerate()
        .filter_map(|(index, record)| Some((record.start?, record.end, index)))
        .collect();
    by_start.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut in_service: BinaryHeap<Reverse<Moment>> = BinaryHeap::new();
    for (start, end, index) in by_start {
        // What ends as another starts makes room for it.
        while in_service.peek().is_some_and(|Reverse(Moment(end))| *end <= start) {
            in_service.pop();
        }
        if in_service.len() >= servers as usize {
            return Err(EstimateError::Overlap { index, start, servers });
        }
        in_service.push(Reverse(Moment(end)));
    }
    Ok(())
}

/// A finite time, in order.
#[derive(Clone, Copy, Debug)]
struct Moment(f64);

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Moment {}
