//! HDFS with slow disks: reads of 10 MB or 1 MB over WebHDFS from any replica, with a Proxy D-Stage
//! in front of each DataNode. The DataNodes run unmodified.
//!
//! Source: document 003, §5.1 and §5.2, Figures 1, 6 and 7. Deviations: the disks are modeled in
//! user space, because control groups would let a tenth of a second's worth of data through
//! immediately. There are three DataNodes instead of ten or sixty. The noise of §5.2 delays
//! responses at the client, so a late response occupies nothing at its node.

pub(crate) mod disk;
mod files;
mod hadoop;
mod nodes;
mod reads;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::open_loop;
use nodes::{Hdfs, Options};
use reads::{Reads, Stages};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder for Hadoop (65 MB) and for the data that nodes store while they run
    #[arg(long, value_name = "DIR", default_value = "out/das/hdfs")]
    dir: PathBuf,
    /// Program that runs the stages in front of the DataNodes
    #[arg(long, value_name = "FILE", default_value = "target/release/curtail")]
    curtail: String,
    /// Policies. The other policies are compared with the first
    #[arg(long = "policy", default_values = ["random", "naive", "delayed:480ms", "app-timeout:480ms", "das"])]
    policies: Vec<String>,
    /// Loads of primaries, as shares of the disks' capacity
    #[arg(long = "load", default_values_t = [0.15, 0.45, 0.75])]
    loads: Vec<f64>,
    /// Approximate number of reads in each turn
    #[arg(long, default_value_t = 150.0)]
    requests: f64,
    /// Number of turns of each policy at each load
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Size of a file, which is also the size of a read
    #[arg(long, value_name = "BYTES", default_value_t = 10_000_000)]
    bytes: u64,
    /// Rate of each disk
    #[arg(long, value_name = "BYTES_PER_S", default_value_t = 20_000_000)]
    rate: u64,
    /// Rate of the first disk, which makes it a straggler
    #[arg(long, value_name = "BYTES_PER_S")]
    straggler: Option<u64>,
    /// Rate of each DataNode's link. A limited link has two bands. By default the link is as fast
    /// as the machine
    #[arg(long, value_name = "BITS_PER_S")]
    network: Option<u64>,
    /// File of response delays, one per line, for a disk that takes 120 ms. They are scaled for
    /// other disks
    #[arg(long, value_name = "FILE")]
    noise: Option<PathBuf>,
    /// Number of requests that a DataNode gets at a time, or "auto", including the quotes
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
    /// Returns the time that a disk takes for a read.
    fn service_s(&self) -> f64 {
        self.bytes as f64 / self.rate as f64
    }

    fn check(&self) -> Result<()> {
        ensure!((3..=9).contains(&self.nodes), "--nodes: must be from 3 to 9");
        ensure!((1..=1000).contains(&self.files), "--files: must be from 1 to 1000");
        ensure!(
            (1..=16 << 20).contains(&self.bytes),
            "--bytes: must be from 1 to 16777216, the size of a block"
        );
        ensure!(
            self.rate > 0 && self.straggler != Some(0),
            "--rate and --straggler: must be above 0"
        );
        ensure!(
            self.loads.iter().all(|load| *load > 0.0 && *load < 2.0),
            "--load: must be above 0 and below 2"
        );
        ensure!((1.0..=1e6).contains(&self.requests), "--requests: must be from 1 to 1,000,000");
        ensure!((1..=100).contains(&self.rounds), "--rounds: must be from 1 to 100");
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
    eprintln!("bytes read from disks, by node: {:?}", served.collect::<Vec<_>>());
    open_loop::print(&outcomes, args.json)
}
