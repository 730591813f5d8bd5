//! YCSB's core workloads: the records, and the operations of clients.
//!
//! As in the source (002 §4.4.1), records have a key and ten fields, keys follow a Zipf
//! distribution with an exponent of 0.99, a read returns all fields, and an update writes one
//! field. In the skewed table, the sizes of fields follow a Zipf distribution, and a record has at
//! most 2 KB in all.

use anyhow::{Context as _, Result};
use rand_core::SeedableRng as _;
use rand_distr::{Distribution as _, Zipf};
use rand_pcg::Pcg64Mcg;

pub(crate) const KEYSPACE: &str = "curtail";
const FIELDS: usize = 10;
const FIELD: usize = 100;
const ZIPF: f64 = 0.99;

/// The tables of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Table {
    /// A kilobyte each
    Plain,
    /// At most two kilobytes each; the sizes of fields follow a Zipf distribution
    Skewed,
}

/// The number of records of the skewed table is that of the plain table divided by this.
const SKEWED_PART: u64 = 5;

impl Table {
    /// Returns the number of records of this table, given that of the plain one.
    pub(crate) fn records(self, plain: u64) -> u64 {
        match self {
            Table::Plain => plain,
            Table::Skewed => plain / SKEWED_PART,
        }
    }

    /// Returns the maximum size of a field in bytes.
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

/// An operation of a client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    /// Reads several records in parallel. The read is done when the last record arrives.
    Read(Vec<String>),
    /// Updates one field of a record: key, field, value.
    Update(String, usize, String),
}

/// A generator of operations.
pub(crate) struct Mix {
    reads: f64,
    keys_max: u32,
    key: Zipf<f64>,
    rng: Pcg64Mcg,
}

impl Mix {
    /// Creates a generator with this share of reads. A read requests 1 to `keys_max` records.
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
}

fn name(key: u64) -> String {
    format!("user{key}")
}

/// Returns the statement that updates a field.
pub(crate) fn update(table: Table, field: usize) -> String {
    format!("UPDATE {KEYSPACE}.{} SET field{field} = ? WHERE id = ?", table.name())
}

/// Returns the statement that reads a record.
pub(crate) fn read(table: Table) -> String {
    format!("SELECT * FROM {KEYSPACE}.{} WHERE id = ?", table.name())
}

/// Returns the statement that creates a table.
pub(crate) fn create(table: Table) -> String {
    let columns: Vec<String> = fields().map(|field| format!("field{field} text")).collect();
    let columns = columns.join(", ");
    format!("CREATE TABLE {KEYSPACE}.{} (id text PRIMARY KEY, {columns})", table.name())
}

/// Returns the statement that inserts a record.
pub(crate) fn insert(table: Table) -> String {
    let names: Vec<String> = fields().map(|field| format!("field{field}")).collect();
    let (names, marks) = (names.join(", "), ["?"; FIELDS].join(", "));
    format!("INSERT INTO {KEYSPACE}.{} (id, {names}) VALUES (?, {marks})", table.name())
}

/// Returns the indices of the fields of a record.
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
        // The first key has a share of 1 divided by the sum of k^-0.99 for k from 1 to 1000.
        let first = share(&|one| *one == Operation::Read(vec!["user0".into()]));
        assert!((first - 0.95 * 0.129).abs() < 0.01, "{first}");
    }

    #[test]
    fn a_read_requests_one_to_the_maximum_number_of_records() {
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
