//! HDFS whose disks are slow: reads of 10 MB or 1 MB, each by WebHDFS from any replica, with a Proxy D-Stage before each
//! DataNode, which is as its makers ship it.
//!
//! Source: document 003, §5.1 and §5.2, Figures 1, 6 and 7. Deviations: disks are modeled, in user space, because a limit
//! by control groups serves the first tenth of a second at once; three DataNodes and not ten or sixty; responses are
//! late (the noise of §5.2) where they arrive, so a late one holds nothing at its node.

pub(crate) mod disk;
mod files;
mod hadoop;
mod nodes;
mod reads;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::turns;
use nodes::{Hdfs, Options};
use reads::{Reads, Stages};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where Hadoop is kept (65 MB), and what nodes store while they run
    #[arg(long, value_name = "DIR", default_value = "out/das/hdfs")]
    dir: PathBuf,
    /// The program whose stages run before the DataNodes
    #[arg(long, value_name = "FILE", default_value = "target/release/curtail")]
    curtail: String,
    /// Policies; the first is what the others are compared with
    #[arg(long = "policy", default_values = ["random", "naive", "delayed:480ms", "app-timeout:480ms", "das"])]
    policies: Vec<String>,
    /// Load of primaries: shares of what the disks can do
    #[arg(long = "load", default_values_t = [0.15, 0.45, 0.75])]
    loads: Vec<f64>,
    /// How many reads each turn has, about
    #[arg(long, default_value_t = 150.0)]
    requests: f64,
    /// How often each policy has its turn
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Bytes of a file, and of a read
    #[arg(long, value_name = "BYTES", default_value_t = 10_000_000)]
    bytes: u64,
    /// Of each disk
    #[arg(long, value_name = "BYTES_PER_S", default_value_t = 20_000_000)]
    rate: u64,
    /// Of the first disk, which is a straggler
    #[arg(long, value_name = "BYTES_PER_S")]
    straggler: Option<u64>,
    /// Of each DataNode's link, which has two bands; none: as fast as the machine
    #[arg(long, value_name = "BITS_PER_S")]
    network: Option<u64>,
    /// How late responses are, a line each: at a disk that takes 120 ms, and in proportion at another
    #[arg(long, value_name = "FILE")]
    noise: Option<PathBuf>,
    /// Requests that a DataNode gets at once, or \"auto\" in quotes
    #[arg(long, default_value = "\"auto\"")]
    slots: String,
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    #[arg(long, default_value_t = 30)]
    files: usize,
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Args {
    /// How long a disk takes for a read.
    fn service_s(&self) -> f64 {
        self.bytes as f64 / self.rate as f64
    }

    fn check(&self) -> Result<()> {
        ensure!((3..=9).contains(&self.nodes), "--nodes: from 3 to 9");
        ensure!((1..=1000).contains(&self.files), "--files: from 1 to 1000");
        ensure!((1..=16 << 20).contains(&self.bytes), "--bytes: from 1 to 16777216, a block");
        ensure!(self.rate > 0 && self.straggler != Some(0), "--rate and --straggler: above 0");
        ensure!(
            self.loads.iter().all(|load| *load > 0.0 && *load < 2.0),
            "--load: above 0, below 2"
        );
        ensure!((1.0..=1e6).contains(&self.requests), "--requests: from 1 to 1,000,000");
        ensure!((1..=100).contains(&self.rounds), "--rounds: from 1 to 100");
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.check()?;
    let Args { nodes, rate, network, files, bytes, .. } = *args;
    eprintln!("starting HDFS");
    let options = Options { nodes, rate, network, files, file_bytes: bytes };
    let hdfs = Hdfs::start(&options, &args.dir)?;
    let stages = Stages::start(&args.curtail, &args.slots, &hdfs)?;
    if let Some(straggler) = args.straggler {
        hdfs.set_rate(0, straggler);
    }
    hdfs.client.namespace.enter()?;
    let read = |node| hdfs.read_bytes(node);
    let before: Vec<u64> = (0..nodes).map(read).collect();
    let outcomes = Reads::new(args, &hdfs, stages)?.run()?;
    let served = (0..nodes).map(|node| read(node) - before[node]);
    eprintln!("bytes that disks read, by node: {:?}", served.collect::<Vec<_>>());
    turns::print(&outcomes, args.json)
}
