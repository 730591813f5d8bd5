//! The leaves that all proxies are put in front of, and what they are asked.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::child::Child;
use crate::cargo;
use crate::http::get;
use crate::tied::tied;

/// The mean of a query's own service time: `exp:5ms`. There are no hiccups, so a query takes
/// equally long on every leaf and behind every proxy.
const SERVICE_SECONDS: f64 = 0.005;

/// Texts of the index, and words that they hold. Small: the real search shall not be felt.
const TEXTS: u32 = 200;
const WORDS: u32 = 20;

/// One shard's leaves. They end with this.
pub(super) struct Leaves {
    pub(super) addresses: Vec<SocketAddr>,
    children: Vec<Child>,
}

impl Leaves {
    pub(super) fn start(curtail: &Path, folder: &Path, replicas: u32) -> Result<Self> {
        let index = index(curtail, folder)?;
        let mut leaves = Self { addresses: Vec::new(), children: Vec::new() };
        for replica in 0..replicas {
            let mut command = tied(curtail, None);
            command.args(["leaf", "--shard", "0", "--slots", "1", "--service-time", "exp:5ms"]);
            command.args(["--queue", "4096", "--listen", "127.0.0.1:0", "--tied-to-stdin"]);
            command.arg("--replica").arg(replica.to_string()).arg("--index").arg(&index);
            let mut child = Child::start(&format!("leaf{replica}"), command, folder)?;
            leaves.addresses.push(child.announced()?);
            leaves.children.push(child);
        }
        Ok(leaves)
    }

    /// Requests per second at a utilization.
    pub(super) fn rate(&self, load: f64) -> f64 {
        load * self.children.len() as f64 / SERVICE_SECONDS
    }

    /// The CPU time of all of them so far, in nanoseconds.
    pub(super) fn cpu_ns(&self) -> Result<u64> {
        self.children.iter().map(Child::cpu_ns).sum()
    }

    /// How many queries they have served so far.
    pub(super) fn served(&self) -> Result<u64> {
        self.addresses.iter().map(|address| served(*address)).sum()
    }
}

fn served(leaf: SocketAddr) -> Result<u64> {
    let stats: serde_json::Value = serde_json::from_str(&get(leaf, "/stats")?)?;
    stats["served"].as_u64().context("a leaf does not say how many queries it served")
}

/// Builds the index in the folder; where it is. The demo does it, for it can.
fn index(curtail: &Path, folder: &Path) -> Result<PathBuf> {
    let corpus = folder.join("corpus");
    fs::create_dir_all(&corpus).with_context(|| format!("no folder {corpus:?}"))?;
    for number in 0..TEXTS {
        let path = corpus.join(format!("{number}.txt"));
        let text = format!("document {number}\n\ncommon word{} rare{number}\n", number % WORDS);
        fs::write(&path, text).with_context(|| format!("cannot write {path:?}"))?;
    }
    let out = folder.join("demo");
    let mut demo = tied(curtail, None);
    demo.args(["demo", "--json", "--shards", "1", "--loads", "0.1", "--policies", "psq"]);
    demo.args(["--requests", "1", "--corpus"]).arg(corpus).arg("--out").arg(&out);
    cargo::output(&mut demo).context("no index")?;
    Ok(out.join("index"))
}

/// Writes what is asked in a round at a load: for every proxy the same, and no query twice, so that
/// every round has service times of its own. Where it is.
pub(super) fn queries(folder: &Path, round: &str, count: u64) -> Result<PathBuf> {
    let path = folder.join("queries.txt");
    let target = |n: u64| format!("/search?q=word{}&n={round}.{n}\n", n % u64::from(WORDS));
    let text: String = (0..count).map(target).collect();
    fs::write(&path, text).with_context(|| format!("cannot write {path:?}"))?;
    Ok(path)
}
