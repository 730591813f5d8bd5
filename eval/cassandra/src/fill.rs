//! Creates and fills the tables. A program based on Cassandra's own writer writes SSTables, and the
//! nodes import them. A million inserts would take these nodes a quarter of an hour.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::client::REPLICAS;
use crate::nodes::{self, NODES};
use crate::workload::{self, KEYSPACE, Table};

/// Fills the tables, unless they have at least this number of records.
pub(crate) async fn fill(dir: &Path, records: u64) -> Result<()> {
    let known = nodes::address(0) + ":9042";
    let session = SessionBuilder::new().known_node(known).build().await?;
    for table in [Table::Plain, Table::Skewed] {
        let marker = dir.join(format!("{}-records", table.name()));
        let there =
            fs::read_to_string(&marker).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let wanted = table.records(records);
        if there.is_none_or(|there| there < wanted) {
            eprintln!("filling {} with {wanted} records", table.name());
            create(&session, table).await?;
            write(dir, table, wanted)?;
            fs::write(&marker, wanted.to_string())?;
        }
    }
    Ok(())
}

async fn create(session: &Session, table: Table) -> Result<()> {
    let name = table.name();
    let statements = [
        format!(
            "CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': {REPLICAS}}}"
        ),
        format!("DROP TABLE IF EXISTS {KEYSPACE}.{name}"),
        workload::create(table),
    ];
    for statement in statements {
        session.query_unpaged(statement, &[]).await?;
    }
    Ok(())
}

/// Writes the data of each part of the ring, and imports it at the nodes that own it.
fn write(dir: &Path, table: Table, records: u64) -> Result<()> {
    let (name, folder) = (table.name(), dir.join("fill"));
    let mut java = nodes::java(dir);
    java.arg("-Xmx1g").args(["-cp", "lib/*", "Fill.java"]).arg(&folder);
    java.args([name, &workload::create(table), &workload::insert(table), &records.to_string()]);
    java.args([workload::fields().len(), table.field_bytes()].map(|number| number.to_string()));
    java.arg((table == Table::Skewed).to_string());
    java.args((0..NODES).map(|node| nodes::token(node).to_string()));
    done(&mut java)?;
    for node in 0..NODES {
        let parts = (0..REPLICAS).map(|back| (node + NODES - back) % NODES);
        let parts = parts.map(|part| folder.join(format!("{name}{part}")));
        let mut import = nodes::tool(dir, node);
        done(import.args(["import", "--copy-data", KEYSPACE, name]).args(parts))?;
    }
    Ok(fs::remove_dir_all(folder)?)
}

fn done(command: &mut Command) -> Result<()> {
    let out = command.output().context("cannot run java")?;
    let stderr = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{command:?}: {stderr}{}", String::from_utf8_lossy(&out.stdout));
    Ok(())
}
