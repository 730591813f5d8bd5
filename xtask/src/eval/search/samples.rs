//! Where the time of measured requests went: what `curtail demo --timings` writes, read back.
//!
//! A latency is taken apart without a rest: `latency = front + took` of the slowest shard, a shard's
//! `ran = network + served`, and `served = drawn + late`. Each part is measured around the next, so
//! none is negative.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

/// The header of the table.
pub(super) const HEADER: &str =
    "load,policy,request,latency_ns,shard,took_ns,ran_ns,served_ns,drawn_ns";

/// What the requests of a policy at a load took, in ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// Of requests, at the client.
    pub(crate) latency: Vec<u64>,
    /// Of requests: of the latency, what is not the slowest shard's. Client, root, and the network
    /// between them.
    pub(crate) front: Vec<u64>,
    /// Of the copies that won: of their time, what is not the leaf's service. The network between
    /// root and leaf, there and back, and the wake-ups on both sides.
    pub(crate) network: Vec<u64>,
    /// Of the same copies: what the leaf's service took beyond what was drawn for it. Late timers,
    /// and a search that took longer than what was drawn.
    pub(crate) late: Vec<u64>,
    /// Of the same copies: what was drawn, P + J.
    pub(crate) drawn: Vec<u64>,
}

/// A policy at a load in thousandths.
pub(crate) type Key = (String, u32);
/// Samples of policies at loads.
pub(crate) type ByCell = BTreeMap<Key, Samples>;

/// A load as a key.
pub(crate) fn thousandths(load: f64) -> u32 {
    (load * 1_000.0).round() as u32
}

impl Samples {
    pub(crate) fn append(&mut self, other: &Self) {
        let Self { latency, front, network, late, drawn } = self;
        latency.extend(&other.latency);
        front.extend(&other.front);
        network.extend(&other.network);
        late.extend(&other.late);
        drawn.extend(&other.drawn);
    }

    /// The longest of all that the machine added anywhere, in ns. What mostly takes some hundred
    /// microseconds takes many milliseconds only if a whole core, or all of them, stood still.
    pub(crate) fn stall_ns(&self) -> u64 {
        let parts = [&self.front, &self.network, &self.late];
        parts.into_iter().flatten().copied().max().unwrap_or(0)
    }
}

/// One row: the time of a request on a shard.
struct Row {
    cell: Key,
    request: u64,
    latency: u64,
    took: u64,
    ran: u64,
    served: u64,
    drawn: u64,
}

/// Reads a table. The rows of a request follow each other.
pub(crate) fn read(table: &str) -> Result<ByCell> {
    let mut lines = table.lines();
    let header = lines.next().unwrap_or_default();
    ensure!(header == HEADER, "the table begins with {header:?}, not with {HEADER:?}");
    let rows = lines.enumerate().map(|(at, line)| {
        row(line).with_context(|| format!("line {} of the table: {line:?}", at + 2))
    });
    let rows = rows.collect::<Result<Vec<_>>>()?;
    let mut cells = ByCell::new();
    for request in rows.chunk_by(|a, b| (&a.cell, a.request) == (&b.cell, b.request)) {
        let first = &request[0];
        let samples = cells.entry(first.cell.clone()).or_default();
        let slowest = request.iter().map(|row| row.took).max().unwrap_or(0);
        samples.latency.push(first.latency);
        samples.front.push(minus(first.latency, slowest)?);
        for row in request {
            samples.network.push(minus(row.ran, row.served)?);
            samples.late.push(minus(row.served, row.drawn)?);
            samples.drawn.push(row.drawn);
        }
    }
    Ok(cells)
}

fn row(line: &str) -> Result<Row> {
    let fields: Vec<&str> = line.split(',').collect();
    let [load, policy, request, latency, _, took, ran, served, drawn] = fields[..] else {
        anyhow::bail!("it has {} fields", fields.len());
    };
    let ns = |field: &str| field.parse().with_context(|| format!("{field:?} is no time in ns"));
    Ok(Row {
        cell: (policy.to_owned(), thousandths(load.parse()?)),
        request: request.parse()?,
        latency: ns(latency)?,
        took: ns(took)?,
        ran: ns(ran)?,
        served: ns(served)?,
        drawn: ns(drawn)?,
    })
}

fn minus(whole: u64, part: u64) -> Result<u64> {
    whole.checked_sub(part).with_context(|| format!("a part of {part} ns of {whole} ns"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &str) -> Result<ByCell> {
        read(&format!("{HEADER}\n{rows}"))
    }

    #[test]
    fn a_latency_is_taken_apart_without_a_rest() {
        let rows = "0.2,psq,7,100,0,90,80,75,70\n0.2,psq,7,100,1,60,50,40,40\n0.2,psq,8,50,0,50,9,8,7\n0.6,laedge,7,30,0,20,9,8,7\n";
        let cells = table(rows).expect("a good table");
        let psq = &cells[&("psq".to_owned(), 200)];
        assert_eq!((&psq.latency[..], &psq.front[..]), (&[100, 50][..], &[10, 0][..]));
        assert_eq!((&psq.network[..], &psq.late[..]), (&[5, 10, 1][..], &[5, 0, 1][..]));
        assert_eq!(psq.drawn, [70, 40, 7]);
        assert_eq!(cells[&("laedge".to_owned(), 600)].front, [10]);
        let mut twice = psq.clone();
        assert_eq!(psq.stall_ns(), 10);
        twice.append(psq);
        assert_eq!(twice.late, [5, 0, 1, 5, 0, 1]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (rows, word) in [
            ("0.2,psq,7,100,0,90,80,75", "line 2"),
            ("0.2,psq,7,100,0,90,80,75,", "no time"),
            ("0.2,psq,7,80,0,90,80,75,70", "a part of 90 ns of 80 ns"),
        ] {
            let error = format!("{:#}", table(rows).expect_err(rows));
            assert!(error.contains(word), "{error}");
        }
        assert!(read("x").is_err());
    }
}
