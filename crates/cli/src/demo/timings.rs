//! The timings of each request, shard by shard, as a table. The difference between a column and the
//! one before it is the time spent in queues, on the network and in timers.
//!
//! The client measures `latency_ns` from the time when the request was due. The other times are the
//! fields of [`ShardTiming`]. A request has a row per shard. Only good responses have rows.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use curtail_search::root_server::ShardTiming;

use crate::exit::Stop;

/// The name of the file.
pub(super) const FILE: &str = "timings.csv";

const HEADER: &str = "load,policy,request,latency_ns,shard,took_ns,ran_ns,served_ns,drawn_ns";

/// A good response. The timing header is parsed later, so that parsing does not disturb the
/// requests that are still being measured.
pub(super) struct Timed {
    request: u64,
    latency_ns: u64,
    timing: Vec<u8>,
}

impl Timed {
    pub(super) fn of(response: &curtail_load::Response) -> Option<Self> {
        let head = response.head.as_ref().filter(|_| response.status == 200)?;
        let timing = head.header("server-timing")?.to_owned();
        Some(Self { request: response.index, latency_ns: response.latency_ns, timing })
    }
}

/// The table. The file of an earlier run stays until the first rows replace it.
pub(super) struct Timings {
    path: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Timings {
    pub(super) fn new(folder: &Path) -> Self {
        Self { path: folder.join(FILE), file: None }
    }

    /// Adds the responses of a cell.
    pub(super) fn write(
        &mut self,
        load: f64,
        policy: &str,
        responses: &[Timed],
    ) -> Result<(), Stop> {
        self.append(load, policy, responses).map_err(|error| {
            Stop::Lacking(format!("{}: cannot be written: {error}", self.path.display()))
        })
    }

    fn append(&mut self, load: f64, policy: &str, responses: &[Timed]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = self.file.insert(BufWriter::new(File::create(&self.path)?));
                writeln!(file, "{HEADER}")?;
                file
            }
        };
        let ns = |time: Option<Duration>| time.map_or(String::new(), |t| t.as_nanos().to_string());
        for Timed { request, latency_ns, timing } in responses {
            for (shard, of) in ShardTiming::read_all(timing).into_iter().enumerate() {
                let [took, ran, served, drawn] =
                    [Some(of.took), Some(of.ran), of.served, of.drawn].map(ns);
                writeln!(
                    file,
                    "{load},{policy},{request},{latency_ns},{shard},{took},{ran},{served},{drawn}"
                )?;
            }
        }
        file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_row_per_shard() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join(FILE);
        std::fs::write(&file, "of an earlier run").expect("a file");
        let mut timings = Timings::new(folder.path());
        let timing =
            b"took-1;dur=2, ran-1;dur=1, took-0;dur=4, ran-0;dur=3, served-0;dur=2.5".to_vec();
        let response = |request| Timed { request, latency_ns: 5_000_000, timing: timing.clone() };
        timings.write(0.2, "psq", &[response(7)]).expect("it is written");
        timings.write(0.4, "laedge", &[response(8)]).expect("it is written");
        let text = std::fs::read_to_string(file).expect("the file");
        let rows = [
            "0.2,psq,7,5000000,0,4000000,3000000,2500000,",
            "0.2,psq,7,5000000,1,2000000,1000000,,",
            "0.4,laedge,8,5000000,0,4000000,3000000,2500000,",
            "0.4,laedge,8,5000000,1,2000000,1000000,,",
        ];
        assert_eq!(text, format!("{HEADER}\n{}\n", rows.join("\n")));
    }
}
