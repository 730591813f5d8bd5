//! YCSB's core workloads: records, and which operations clients ask for.
//!
//! As in the source (002 §4.4.1): records of a key and ten fields, keys by a Zipf distribution of 0.99, a read has
//! all fields, an update writes one. The skewed table has fields of Zipf-distributed sizes, 2 KB in all at most.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rand_core::SeedableRng as _;
use rand_distr::{Distribution as _, Zipf};
use rand_pcg::Pcg64Mcg;

pub(crate) const KEYSPACE: &str = "curtail";
const FIELDS: usize = 10;
const FIELD: usize = 100;
const ZIPF: f64 = 0.99;

/// Which records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Table {
    /// A kilobyte each
    Plain,
    /// Two kilobytes at most, by a Zipf distribution
    Skewed,
}

/// The skewed table has a fifth of the records.
const SKEWED_PART: u64 = 5;

impl Table {
    /// How many records it has, where the plain one has so many.
    pub(crate) fn records(self, plain: u64) -> u64 {
        match self {
            Table::Plain => plain,
            Table::Skewed => plain / SKEWED_PART,
        }
    }

    /// Bytes of a field, at most.
    pub(crate) fn field_bytes(self) -> usize {
        match self {
            Table::Plain => FIELD,
            Table::Skewed => 2 * FIELD,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Table::Plain => "plain",
            Table::Skewed => "skewed",
        }
    }
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    /// Some records at once: done with the last.
    Read(Vec<String>),
    /// One field of a record.
    Update(String, usize, String),
}

/// Draws operations.
pub(crate) struct Mix {
    reads: f64,
    keys_max: u32,
    key: Zipf<f64>,
    rng: Pcg64Mcg,
}

impl Mix {
    /// `reads`: their share. `keys_max`: a read asks for 1 to so many records.
    pub(crate) fn new(records: u64, reads: f64, keys_max: u32, seed: u64) -> Result<Self> {
        let key = Zipf::new(records as f64, ZIPF).context("no records")?;
        Ok(Self { reads, keys_max, key, rng: Pcg64Mcg::seed_from_u64(seed) })
    }

    fn uniform(&mut self) -> f64 {
        rand_distr::StandardUniform.sample(&mut self.rng)
    }

    fn key(&mut self) -> String {
        name(self.key.sample(&mut self.rng) as u64 - 1)
    }

    pub(crate) fn draw(&mut self) -> Operation {
        if self.uniform() < self.reads {
            let keys = 1 + (self.uniform() * f64::from(self.keys_max)) as u32;
            Operation::Read((0..keys).map(|_| self.key()).collect())
        } else {
            let field = (self.uniform() * FIELDS as f64) as usize;
            Operation::Update(self.key(), field, "u".repeat(FIELD))
        }
    }

    /// Until the next one arrives, at a rate per second.
    pub(crate) fn gap(&mut self, rate: f64) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.uniform()).ln() / rate)
    }
}

fn name(key: u64) -> String {
    format!("user{key}")
}

/// The statement that updates a field.
pub(crate) fn update(table: Table, field: usize) -> String {
    format!("UPDATE {KEYSPACE}.{} SET field{field} = ? WHERE id = ?", table.name())
}

/// The statement that reads a record.
pub(crate) fn read(table: Table) -> String {
    format!("SELECT * FROM {KEYSPACE}.{} WHERE id = ?", table.name())
}

/// The statement that makes a table.
pub(crate) fn create(table: Table) -> String {
    let columns: Vec<String> = fields().map(|field| format!("field{field} text")).collect();
    let columns = columns.join(", ");
    format!("CREATE TABLE {KEYSPACE}.{} (id text PRIMARY KEY, {columns})", table.name())
}

/// The statement that inserts a record.
pub(crate) fn insert(table: Table) -> String {
    let names: Vec<String> = fields().map(|field| format!("field{field}")).collect();
    let (names, marks) = (names.join(", "), ["?"; FIELDS].join(", "));
    format!("INSERT INTO {KEYSPACE}.{} (id, {names}) VALUES (?, {marks})", table.name())
}

/// The fields of a record.
pub(crate) fn fields() -> std::ops::Range<usize> {
    0..FIELDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_has_its_share_of_reads_and_of_the_first_key() {
        let mut mix = Mix::new(1000, 0.95, 1, 7).unwrap();
        let drawn: Vec<Operation> = (0..20_000).map(|_| mix.draw()).collect();
        let share = |of: &dyn Fn(&Operation) -> bool| {
            drawn.iter().filter(|one| of(one)).count() as f64 / drawn.len() as f64
        };
        let reads = share(&|one| matches!(one, Operation::Read(_)));
        assert!((reads - 0.95).abs() < 0.01, "{reads}");
        // 1 / the sum of k^-0.99 over 1000 keys.
        let first = share(&|one| *one == Operation::Read(vec!["user0".into()]));
        assert!((first - 0.95 * 0.129).abs() < 0.01, "{first}");
    }

    #[test]
    fn a_read_asks_for_up_to_so_many_records() {
        let mut mix = Mix::new(1000, 1.0, 20, 7).unwrap();
        let sizes: Vec<usize> = (0..2000)
            .map(|_| match mix.draw() {
                Operation::Read(keys) => keys.len(),
                Operation::Update(..) => 0,
            })
            .collect();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&1), Some(&20)));
    }
}
