//! Profiles traces from files, or from exporters that send them.

use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use curtail_probe::profile::Profile;
use curtail_probe::traces::parse::parse;
use curtail_probe::traces::{Limits, Traces, TracesError};
use flate2::read::MultiGzDecoder;

use crate::args::within;
use crate::exit::{Stop, bad, lacking};
use curtail_report::number::and;

mod listen;

/// Maximum size of a file, decompressed.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// Flags that choose the traces to profile.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Traces")]
pub(super) struct TraceArgs {
    /// Files with traces: OTLP (JSON or protobuf), or Jaeger, Zipkin or Tempo JSON, optionally
    /// gzipped; - reads stdin
    #[arg(long, value_name = "FILE", num_args = 1.., group = "target", conflicts_with_all = ["show", "compare"])]
    pub(super) traces: Vec<PathBuf>,
    /// Listen on this address for OTLP over HTTP and gRPC, until --duration has passed or Ctrl-C is
    /// pressed
    #[arg(long, value_name = "IP:PORT", group = "target", conflicts_with_all = ["show", "compare"])]
    pub(super) otlp: Option<SocketAddr>,
    /// Profile traces that begin with this "service: operation" [default: the most frequent]
    #[arg(long, value_name = "NAME", requires = "target")]
    root: Option<String>,
    /// Number of operations that become stages: the ones that vary most are chosen, and the others
    /// are summed
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = within(&(1..=100)))]
    operations: u32,
}

impl TraceArgs {
    /// Whether to profile traces.
    pub(super) fn is_given(&self) -> bool {
        !self.traces.is_empty() || self.otlp.is_some()
    }
}

/// Returns the profile of the traces. The returned flag is true if a signal ended the collection
/// before its duration was over.
pub(super) fn profile(args: &TraceArgs, duration_ns: Option<u64>) -> Result<(Profile, bool), Stop> {
    let mut traces = Traces::new(Limits::default());
    for path in &args.traces {
        read(path, &mut traces)?;
    }
    let mut is_interrupted = false;
    if let Some(address) = args.otlp {
        (traces, is_interrupted) =
            listen::listen(address, duration_ns.map(Duration::from_nanos), traces)?;
    }
    let spans = traces.held();
    let profile = traces.profile(args.root.as_deref(), args.operations as usize);
    let profile = profile.map_err(|error| match error {
        TracesError::Empty if args.otlp.is_some() => lacking!(
            "no span arrived ({spans}); set OTEL_EXPORTER_OTLP_ENDPOINT of the exporters to this \
             address"
        ),
        TracesError::Empty => bad!(
            "{}: {error}; export some first",
            and(args.traces.iter().map(|path| path.display().to_string()))
        ),
        error => bad!("--root: {error}"),
    })?;
    Ok((profile, is_interrupted))
}

/// Adds the spans of a file.
fn read(path: &Path, traces: &mut Traces) -> Result<(), Stop> {
    let refused = |why: &dyn std::fmt::Display| bad!("{}: {why}", path.display());
    let source: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(io::stdin()),
        _ => Box::new(
            File::open(path).map_err(|error| refused(&format!("{error}; check the path")))?,
        ),
    };
    let bytes = bounded(source, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => refused(&"it is a directory; name the files in it"),
        _ => refused(&error),
    })?;
    let bytes = match bytes[..] {
        [0x1f, 0x8b, ..] => unzip(&bytes, FILE_BYTES_MAX)
            .map_err(|error| refused(&format!("gzip: {error}; compress it again")))?,
        _ => bytes,
    };
    let spans = parse(&bytes).map_err(|error| refused(&error))?;
    spans.iter().for_each(|span| traces.add(span));
    Ok(())
}

/// Decompresses gzip.
fn unzip(bytes: &[u8], max: u64) -> io::Result<Vec<u8>> {
    bounded(MultiGzDecoder::new(bytes), max)
}

/// Reads all bytes, or fails if there are more than `max`.
fn bounded(source: impl Read, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::Error::other(format!("it has more than {max} bytes; split it")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const LINE: &str = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"ID","spanId":"1","name":"get",
     "startTimeUnixNano":"5","endTimeUnixNano":"9"}]}]}]}"#;

    pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(bytes).expect("memory");
        gzip.finish().expect("memory")
    }

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a place for files");
        file.write_all(bytes).expect("room");
        file
    }

    fn of(files: &[&Path]) -> TraceArgs {
        let traces = files.iter().map(|path| path.to_path_buf()).collect();
        TraceArgs { traces, operations: 12, ..TraceArgs::default() }
    }

    fn refused(args: &TraceArgs) -> String {
        match profile(args, None) {
            Err(Stop::BadInput(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn files_add_up_packed_or_not() {
        let lines = [LINE.replace("ID", "a"), LINE.replace("ID", "b")].join("\n");
        let packed = gzip(LINE.replace("ID", "c").as_bytes());
        let (plain, packed) = (file(lines.as_bytes()), file(&packed));
        let args = of(&[plain.path(), packed.path()]);
        let (profile, is_interrupted) = profile(&args, None).expect("traces");
        assert_eq!((profile.requests(), is_interrupted), (3, false));
        assert_eq!(profile.stages, ["unknown_service: get"]);
    }

    #[test]
    fn errors_name_the_file_and_the_place() {
        let bad = file(LINE.replace("ID", "a").replace("\"9\"", "\"later\"").as_bytes());
        let why = refused(&of(&[bad.path()]));
        assert!(why.starts_with(&bad.path().display().to_string()), "{why}");
        assert!(why.contains("later") && why.contains("line 2"), "{why}");
        assert!(refused(&of(&[Path::new("/nowhere")])).starts_with("/nowhere: "));
        let empty = file(br#"{"resourceSpans":[]}"#);
        assert!(refused(&of(&[empty.path()])).contains("no trace"));
        let good = file(LINE.replace("ID", "a").as_bytes());
        let args = TraceArgs { root: Some("get".to_owned()), ..of(&[good.path()]) };
        let why = refused(&args);
        assert!(why.contains("--root: ") && why.contains("`unknown_service: get` (1)"), "{why}");
    }

    #[test]
    fn decompressed_size_is_bounded() {
        let packed = gzip(&[0; 1_001]);
        assert!(unzip(&packed, 1_000).expect_err("too long").to_string().contains("1000 bytes"));
        assert_eq!(unzip(&packed, 1_001).expect("fits").len(), 1_001);
    }
}
