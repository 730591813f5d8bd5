//! Reads the table that `curtail demo --timings` writes. It contains the parts of the latencies of
//! measured requests.
//!
//! The parts of a latency add up exactly: `latency = front + took` of the slowest shard, a shard's
//! `ran = network + served`, and `served = drawn + late`. The measurement of each part encloses the
//! measurement of the next part, so no part is negative.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

use super::{Key, key};

/// The header of the table.
pub(super) const HEADER: &str =
    "load,policy,request,latency_ns,shard,took_ns,ran_ns,served_ns,drawn_ns";

/// The times of the requests of a policy at a load, in ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    /// The latency of each request at the client.
    pub(super) latency: Vec<u64>,
    /// The latency of each request minus the time of its slowest shard. This is the time in the
    /// client, in the root, and on the network between them.
    pub(super) front: Vec<u64>,
    /// The time of each winning copy minus the leaf's service time. It consists of the time on the
    /// network between root and leaf, in both directions, and of the scheduling delays of both.
    pub(super) network: Vec<u64>,
    /// The service time of each winning copy minus the time drawn for it. It is caused by late
    /// timers and by searches that took longer than the drawn time.
    pub(super) late: Vec<u64>,
    /// The time drawn for each winning copy, P + J.
    pub(super) drawn: Vec<u64>,
}

impl Samples {
    /// Combines the samples of several runs.
    pub(super) fn all<'a>(runs: impl Iterator<Item = &'a Self>) -> Self {
        runs.fold(Self::default(), |mut all, run| {
            all.latency.extend(&run.latency);
            all.front.extend(&run.front);
            all.network.extend(&run.network);
            all.late.extend(&run.late);
            all.drawn.extend(&run.drawn);
            all
        })
    }

    /// Returns the longest time that the machine added to any part, in ns. Such a part usually
    /// takes a few hundred microseconds. It takes many milliseconds only if one core or all cores
    /// stalled.
    pub(super) fn stall_ns(&self) -> u64 {
        let parts = [&self.front, &self.network, &self.late];
        parts.into_iter().flatten().copied().max().unwrap_or(0)
    }
}

/// Parses a table. The rows of a request are adjacent.
pub(super) fn read(table: &str) -> Result<BTreeMap<Key, Samples>> {
    let mut lines = table.lines();
    let header = lines.next().unwrap_or_default();
    ensure!(header == HEADER, "the table begins with {header:?}, not with {HEADER:?}");
    let rows = lines.enumerate().map(|(at, line)| {
        row(line).with_context(|| format!("line {} of the table: {line:?}", at + 2))
    });
    let rows = rows.collect::<Result<Vec<_>>>()?;
    let mut cells = BTreeMap::<Key, Samples>::new();
    for request in rows.chunk_by(|(a, first), (b, second)| (a, first[0]) == (b, second[0])) {
        let (cell, [_, latency, ..]) = &request[0];
        let samples = cells.entry(cell.clone()).or_default();
        let slowest = request.iter().map(|(_, [_, _, took, ..])| *took).max().unwrap_or(0);
        samples.latency.push(*latency);
        samples.front.push(minus(*latency, slowest)?);
        for (_, [_, _, _, ran, served, drawn]) in request {
            samples.network.push(minus(*ran, *served)?);
            samples.late.push(minus(*served, *drawn)?);
            samples.drawn.push(*drawn);
        }
    }
    Ok(cells)
}

/// Parses a row, which contains the number of the request, its latency, and its times on a shard:
/// took, ran, served and drawn.
fn row(line: &str) -> Result<(Key, [u64; 6])> {
    let fields: Vec<&str> = line.split(',').collect();
    let [load, policy, request, latency, _, took, ran, served, drawn] = fields[..] else {
        anyhow::bail!("it has {} fields", fields.len());
    };
    let mut numbers = [0; 6];
    for (number, field) in numbers.iter_mut().zip([request, latency, took, ran, served, drawn]) {
        *number = field.parse().with_context(|| format!("{field:?} is not a time in ns"))?;
    }
    Ok((key(policy, load.parse()?), numbers))
}

fn minus(whole: u64, part: u64) -> Result<u64> {
    whole.checked_sub(part).with_context(|| format!("a part of {part} ns of {whole} ns"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &str) -> Result<BTreeMap<Key, Samples>> {
        read(&format!("{HEADER}\n{rows}"))
    }

    #[test]
    fn the_parts_of_a_latency_add_up() {
        let rows = "0.2,psq,7,100,0,90,80,75,70\n0.2,psq,7,100,1,60,50,40,40\n\
                    0.2,psq,8,50,0,50,9,8,7\n0.6,laedge,7,30,0,20,9,8,7\n";
        let cells = table(rows).expect("a good table");
        let psq = &cells[&("psq".to_owned(), 200)];
        assert_eq!((&psq.latency[..], &psq.front[..]), (&[100, 50][..], &[10, 0][..]));
        assert_eq!((&psq.network[..], &psq.late[..]), (&[5, 10, 1][..], &[5, 0, 1][..]));
        assert_eq!((&psq.drawn[..], psq.stall_ns()), (&[70, 40, 7][..], 10));
        assert_eq!(cells[&("laedge".to_owned(), 600)].front, [10]);
        assert_eq!(Samples::all([psq, psq].into_iter()).late, [5, 0, 1, 5, 0, 1]);
    }

    #[test]
    fn impossible_tables_are_rejected() {
        for (rows, word) in [
            ("0.2,psq,7,100,0,90,80,75", "line 2"),
            ("0.2,psq,7,100,0,90,80,75,", "is not a time"),
            ("0.2,psq,7,80,0,90,80,75,70", "a part of 90 ns of 80 ns"),
        ] {
            let error = format!("{:#}", table(rows).expect_err(rows));
            assert!(error.contains(word), "{error}");
        }
        assert!(read("x").is_err());
    }
}
