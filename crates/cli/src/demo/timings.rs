//! Where the time of each request went, shard by shard, as a table: what is left of a latency when
//! one column is subtracted from the one before is what queues, network and timers add.
//!
//! `latency_ns` is the client's, from when the request was due; the other times are those of
//! [`ShardTiming`]. A request has a row per shard, and only good answers have any.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use curtail_columns::{Kind, Row, Schema, Value, Writer};
use curtail_search::root_server::ShardTiming;

use crate::exit::Stop;

/// The name of the file.
pub(super) const FILE: &str = "timings.csv";

/// A good answer, not looked into yet: there are others to be measured meanwhile.
pub(super) struct Answer {
    request: u64,
    latency_ns: u64,
    said: Vec<u8>,
}

impl Answer {
    pub(super) fn of(answer: &curtail_load::Answer) -> Option<Self> {
        let head = answer.head.as_ref().filter(|_| answer.status == 200)?;
        let said = head.header("server-timing")?;
        Some(Self { request: answer.index, latency_ns: answer.latency_ns, said: said.to_owned() })
    }
}

/// The table. The file of an earlier run is there until there is something to replace it with.
pub(super) struct Timings {
    path: PathBuf,
    schema: Schema,
    file: Option<Writer<File>>,
}

impl Timings {
    pub(super) fn new(folder: &Path) -> Self {
        let columns = [
            ("load", Kind::Number),
            ("policy", Kind::Text),
            ("request", Kind::Whole),
            ("latency_ns", Kind::Whole),
            ("shard", Kind::Whole),
            ("took_ns", Kind::Whole),
            ("ran_ns", Kind::Whole),
            ("served_ns", Kind::Whole),
            ("drawn_ns", Kind::Whole),
        ];
        let schema = columns.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
        Self { path: folder.join(FILE), schema, file: None }
    }

    /// Adds the answers of a cell.
    pub(super) fn write(
        &mut self,
        load: f64,
        policy: &str,
        answers: &[Answer],
    ) -> Result<(), Stop> {
        self.append(&rows(load, policy, answers)).map_err(|error| {
            Stop::Lacking(format!("{}: cannot be written: {error}", self.path.display()))
        })
    }

    fn append(&mut self, rows: &[Row]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(Writer::csv(File::create(&self.path)?, &self.schema)?),
        };
        file.write(rows)
    }
}

fn rows(load: f64, policy: &str, answers: &[Answer]) -> Vec<Row> {
    let ns = |time: Duration| Value::from(time.as_nanos() as u64);
    let mut rows = Vec::new();
    for answer in answers {
        for (shard, timing) in (0_u64..).zip(ShardTiming::read_all(&answer.said)) {
            rows.push(vec![
                load.into(),
                policy.to_owned().into(),
                answer.request.into(),
                answer.latency_ns.into(),
                shard.into(),
                ns(timing.took),
                ns(timing.ran),
                timing.served.map(ns).into(),
                timing.drawn.map(ns).into(),
            ]);
        }
    }
    rows
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
        let said =
            b"took-1;dur=2, ran-1;dur=1, took-0;dur=4, ran-0;dur=3, served-0;dur=2.5".to_vec();
        let answer = |request| Answer { request, latency_ns: 5_000_000, said: said.clone() };
        timings.write(0.2, "psq", &[answer(7)]).expect("it is written");
        timings.write(0.4, "laedge", &[answer(8)]).expect("it is written");
        let text = std::fs::read_to_string(file).expect("the file");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "load,policy,request,latency_ns,shard,took_ns,ran_ns,served_ns,drawn_ns",
                "0.2,psq,7,5000000,0,4000000,3000000,2500000,",
                "0.2,psq,7,5000000,1,2000000,1000000,,",
                "0.4,laedge,8,5000000,0,4000000,3000000,2500000,",
                "0.4,laedge,8,5000000,1,2000000,1000000,,",
            ]
        );
    }
}
