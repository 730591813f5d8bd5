//! Distributions from histogram logs.

use std::io::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use curtail_dist::{LogReader, LogWriter, MAX_SAMPLES, Spec, read_samples};
use flate2::{Compression, write::ZlibEncoder};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry,
};
use hdrhistogram::serialization::{
    Deserializer, Serializer as _, V2DeflateSerializer, V2Serializer,
};
use proptest::prelude::*;
use tempfile::NamedTempFile;

fn histogram(values: &[(u64, u64)]) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).expect("three digits");
    for &(value, count) in values {
        histogram.record_n(value, count).expect("in range");
    }
    histogram
}

/// Returns a histogram log with these intervals.
fn log(intervals: &[Histogram<u64>]) -> String {
    let (mut text, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment("of a test");
    let mut writer = builder.begin_log_with(&mut text, &mut serializer).expect("a log");
    for interval in intervals {
        let second = Duration::from_secs(1);
        writer.write_histogram(interval, second, second, None).expect("an interval");
    }
    String::from_utf8(text).expect("text")
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a scratch file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

#[test]
fn the_intervals_of_a_log_are_added_up() {
    let log = file(&log(&[histogram(&[(1_000, 3)]), histogram(&[(1_000, 1), (5_000_000, 1)])]));
    let samples = read_samples(log.path(), 1.0).expect("a log");
    assert_eq!(samples.ns.len(), 5);
    assert!(samples.have_units, "they are nanoseconds");
    assert_eq!(samples.ns[..4], [1_000.0; 4]);
    assert!((samples.ns[4] / 5e6 - 1.0).abs() < 1e-3, "{:?}", samples.ns);

    let spec: Spec = format!("file:{}", log.path().display()).parse().expect("a path");
    let mean = spec.resolve(1.0).expect("samples").mean();
    assert!((mean / 1_000_800.0 - 1.0).abs() < 1e-3, "{mean}");
}

#[test]
fn downsampling_keeps_the_share_of_each_length() {
    let log = file(&log(&[histogram(&[(1_000, 9_990_000_000), (2_000_000, 10_000_000)])]));
    let samples = read_samples(log.path(), 1.0).expect("a log");
    assert_eq!(samples.ns.len() as u64, MAX_SAMPLES);
    let slow = samples.ns.iter().filter(|&&ns| ns > 1e6).count() as f64;
    assert!((slow / (MAX_SAMPLES as f64 * 0.001) - 1.0).abs() < 1e-3, "{slow}");
}

#[test]
fn a_number_without_a_negative_is_not_a_run_of_empty_buckets() {
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&histogram(&[]), &mut bytes).expect("bytes");
    bytes.truncate(40);
    bytes.extend([0xff; 9]);
    bytes[4..8].copy_from_slice(&9_u32.to_be_bytes());
    let log = file(&format!("0.0,1.0,0.0,{}\n", STANDARD.encode(&bytes)));
    let refused = read_samples(log.path(), 1.0).expect_err("no histogram").to_string();
    assert!(refused.contains("impossible counts"), "{refused}");
}

#[test]
fn counts_above_the_exact_range_are_rejected() {
    for (count, read) in [(1 << 53, true), ((1 << 53) + 1, false)] {
        let log = file(&log(&[histogram(&[(1_000, count)])]));
        assert_eq!(read_samples(log.path(), 1.0).is_ok(), read, "{count}");
    }
}

#[test]
fn tags_and_plain_histograms_are_read() {
    let line = log(&[histogram(&[(7, 1)])]).lines().last().expect("an interval").to_owned();
    let tagged = file(&format!("#[StartTime: 1 (seconds)]\nTag=reads,{line}\n"));
    assert_eq!(read_samples(tagged.path(), 1.0).expect("a tagged line").ns, [7.0]);

    let (mut text, mut serializer) = (Vec::new(), V2Serializer::new());
    let builder = IntervalLogWriterBuilder::new();
    let mut writer = builder.begin_log_with(&mut text, &mut serializer).expect("a log");
    let second = Duration::from_secs(1);
    writer.write_histogram(&histogram(&[(9, 2)]), second, second, None).expect("an interval");
    let plain = file(&String::from_utf8(text).expect("text"));
    assert_eq!(read_samples(plain.path(), 1.0).expect("not compressed").ns, [9.0, 9.0]);
}

#[test]
fn series_are_never_added_up() {
    let line = |ns| log(&[histogram(&[(ns, 1)])]).lines().last().expect("an interval").to_owned();
    let [reads, writes, whole] = [7, 900, 30].map(line);
    let read = |text: &str| read_samples(file(text).path(), 1.0).map(|samples| samples.ns);
    let two = format!("Tag=reads,{reads}\nTag=writes,{writes}\nTag=reads,{reads}\n");
    let refused = read(&two).expect_err("two series").to_string();
    let fix = "several series (reads, writes) and none without a tag; keep the lines of one, for \
               example with grep";
    assert!(refused.contains(fix) && refused.ends_with("'^Tag=reads,'"), "{refused}");
    // The series without a tag is the default, wherever it appears in the log.
    assert_eq!(read(&format!("{two}{whole}\n")).expect("a default"), [30.0]);
    assert_eq!(read(&format!("\u{feff}#x\nTag=a,{whole}\n")).expect("one series"), [30.0]);
    let many: String = (0..100).map(|tag| format!("Tag={tag},{whole}\n")).collect();
    assert!(read(&many).expect_err("many series").to_string().contains("(0, 1, 2, 3, 4, 5, 6, 7)"));
}

#[test]
fn bad_lines_are_named() {
    let good = log(&[histogram(&[(7, 1)])]);
    let line = good.lines().count() + 1;
    let refusal = |text: &str| read_samples(file(text).path(), 1.0).expect_err(text).to_string();
    for (bad, why) in [
        ("0.1,2.0,HISTxx", "write start,length,max,histogram"),
        ("0.1,1.0,2.0,HIST!", "not base64"),
        ("0.1,1.0,2.0,AAAA", "cut off"),
        ("0.1,1.0,2.0,HISTFAAAAAA=", "cannot be inflated"),
        // The header claims a length of two gigabytes.
        ("0.1,1.0,2.0,HISTE3///38AAAAAAAAAAwAAAAAAAAABAAAAAAAAAAI=", "cut off"),
    ] {
        let message = refusal(&format!("{good}{bad}\n"));
        assert!(
            message.contains(&format!(":{line}: `{bad}`")) && message.contains(why),
            "{message}"
        );
    }
    let headers = "#[StartTime: 1 (seconds)]\n\"StartTimestamp\",\"Interval_Length\"\n";
    for empty in [&log(&[histogram(&[])])[..], headers, "#[Histogram log format version 1.3]\n"] {
        let message = refusal(empty);
        assert!(
            message.contains("a log that contains no histogram with a sample"),
            "{empty}: {message}"
        );
    }
}

#[test]
fn a_line_that_inflates_beyond_the_bound_is_refused() {
    let mut zeros = ZlibEncoder::new(Vec::new(), Compression::fast());
    zeros.write_all(&vec![0; (64 << 20) + 1]).expect("in memory");
    let head = [0x1c, 0x84, 0x93, 0x14, 0, 0, 0, 0];
    let line = STANDARD.encode([&head[..], &zeros.finish().expect("in memory")].concat());
    assert!(line.len() < 1 << 20, "a short line");
    let log = file(&format!("0.1,1.0,2.0,{line}\n"));
    let message = read_samples(log.path(), 1.0).expect_err("too much").to_string();
    assert!(message.contains("more than 67108864 bytes"), "{message}");
}

proptest! {
    #[test]
    fn any_log_is_read_or_rejected(at in 0_usize..400, byte in any::<u8>(), cut in 0_usize..400) {
        let mut bytes = log(&[histogram(&[(7, 1), (1 << 40, 3)])]).into_bytes();
        let (at, cut) = (at % bytes.len(), cut % bytes.len());
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut);
        if let Ok(text) = String::from_utf8(bytes) {
            // Reading always ends.
            let read = read_samples(file(&text).path(), 1.0);
            prop_assert!(read.is_err() || !read.expect("samples").ns.is_empty());
        }
    }

    #[test]
    fn any_histogram_is_read_or_rejected(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let head = [0x1c, 0x84, 0x93, 0x13, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 3];
        let encoded = STANDARD.encode([&head[..], &bytes].concat());
        let read = read_samples(file(&format!("0.1,1.0,2.0,{encoded}\n")).path(), 1.0);
        prop_assert!(read.is_err() || !read.expect("samples").ns.is_empty());
    }
}

/// Returns a histogram like those that load generators record, with bounds other than the defaults.
fn counted(values: &[(u64, u64)]) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1_000, 61_000_000_000, 3).expect("constants");
    for &(value, count) in values {
        histogram.record_n(value, count).expect("in range");
    }
    histogram
}

fn written(intervals: &[Histogram<u64>]) -> String {
    let mut text = Vec::new();
    let mut log = LogWriter::new(&mut text, "of a test", Duration::from_millis(1_700_000_000_250))
        .expect("writing to memory succeeds");
    for (at, interval) in intervals.iter().enumerate() {
        let from = Duration::from_millis(500 * at as u64);
        log.write(interval, from, Duration::from_millis(500)).expect("writing to memory succeeds");
    }
    String::from_utf8(text).expect("text")
}

#[test]
fn other_readers_get_equal_counts() {
    let intervals =
        [counted(&[(1_500, 3), (7_000_000, 2)]), counted(&[]), counted(&[(1 << 35, 1)])];
    let text = written(&intervals);
    let mut read = Vec::new();
    let mut start = None;
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        match entry.expect("a log") {
            LogEntry::StartTime(time) | LogEntry::BaseTime(time) => start = Some(time),
            LogEntry::Interval(interval) => {
                let bytes = STANDARD.decode(interval.encoded_histogram()).expect("base64");
                let histogram: Histogram<u64> =
                    Deserializer::new().deserialize(&mut &bytes[..]).expect("a histogram");
                read.push((interval.start_timestamp(), interval.duration(), histogram));
            }
        }
    }
    assert_eq!(start, Some(Duration::from_millis(1_700_000_000_250)));
    assert_eq!(read.len(), 3);
    for (at, (from, length, histogram)) in read.iter().enumerate() {
        assert_eq!(*from, Duration::from_millis(500 * at as u64));
        assert_eq!((*length, histogram), (Duration::from_millis(500), &intervals[at]));
    }
    let samples = read_samples(file(&text).path(), 1.0).expect("we read it, too");
    assert_eq!(samples.ns.len(), 6);
}

#[test]
fn logs_are_read_interval_by_interval_with_equal_counts() {
    let intervals = [histogram(&[(1_500, 3)]), histogram(&[(1 << 50, 1), (9, 4)])];
    let theirs = format!("Tag=warm,{}", log(&intervals).lines().last().expect("an interval"));
    let ours = counted(&[(2_000, 9)]);
    let theirs = file(&format!("{}{theirs}\n", log(&intervals)));
    let read: Result<Vec<_>, _> = LogReader::open(theirs.path()).expect("a file").collect();
    let read = read.expect("a log");
    let tags: Vec<_> = read.iter().map(|interval| interval.tag.as_deref()).collect();
    assert_eq!(tags, [None, None, Some("warm")]);
    assert_eq!((read[0].from_s, read[0].length_s), (1.0, 1.0));
    assert_eq!([&read[0].counted, &read[1].counted], [&intervals[0], &intervals[1]]);
    let log = file(&written(std::slice::from_ref(&ours)));
    let read: Result<Vec<_>, _> = LogReader::open(log.path()).expect("a file").collect();
    assert_eq!(read.expect("a log")[0].counted, ours);
}

#[test]
fn a_log_that_is_cut_off_is_named_with_its_line() {
    let text = written(&[counted(&[(1_500, 3)]), counted(&[(1_500, 3)])]);
    let log = file(&text[..text.len() - 20]);
    let mut reader = LogReader::open(log.path()).expect("a file");
    assert!(reader.next().is_some_and(|interval| interval.is_ok()));
    let message = reader.next().expect("a line").expect_err("half of one").to_string();
    assert!(message.contains(":7: `0.500,0.500,"), "{message}");
    assert!(reader.next().is_none());
}
