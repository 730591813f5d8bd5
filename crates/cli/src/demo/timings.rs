//! Where the time of each request went, shard by shard, as a table: what is left of a latency when
//! one column is subtracted from the one before is what queues, network and timers add.
//!
//! `latency_ns` is the client's, from when the request was due; the other times are those of
//! [`ShardTiming`]. A request has a row per shard, and only good answers have any.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use curtail_columns::{Column, Csv, Kind, Piece, Schema};
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
    file: Option<Csv<BufWriter<File>>>,
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
        let piece = rows(&self.schema, load, policy, answers);
        self.append(&piece).map_err(|error| {
            Stop::Lacking(format!("{}: cannot be written: {error}", self.path.display()))
        })
    }

    fn append(&mut self, piece: &Piece) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let to = BufWriter::new(File::create(&self.path)?);
                self.file.insert(Csv::new(to, &self.schema)?)
            }
        };
        file.write(piece)?;
        file.flush()
    }
}

fn rows(schema: &Schema, load: f64, policy: &str, answers: &[Answer]) -> Piece {
    let mut piece = Piece::new(schema);
    let whole = |value: u64| i64::try_from(value).ok();
    let ns = |time: Duration| i64::try_from(time.as_nanos()).ok();
    for answer in answers {
        for (shard, timing) in (0..).zip(ShardTiming::read_all(&answer.said)) {
            let wholes = [
                whole(answer.request),
                whole(answer.latency_ns),
                Some(shard),
                ns(timing.took),
                ns(timing.ran),
                timing.served.and_then(ns),
                timing.drawn.and_then(ns),
            ];
            let mut wholes = wholes.into_iter();
            for column in piece.columns_mut() {
                match column {
                    Column::Number(values) => values.push(Some(load)),
                    Column::Text(values) => values.push(Some(policy.to_owned())),
                    Column::Whole(values) => values.push(wholes.next().flatten()),
                    Column::Bool(values) => values.push(None),
                }
            }
        }
    }
    piece
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
