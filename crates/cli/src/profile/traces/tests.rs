use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const LINE: &str = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"ID","spanId":"1","name":"get",
 "startTimeUnixNano":"5","endTimeUnixNano":"9"}]}]}]}"#;

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
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(LINE.replace("ID", "c").as_bytes()).expect("memory");
    let (plain, packed) = (file(lines.as_bytes()), file(&gzip.finish().expect("memory")));
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
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&[0; 1_001]).expect("memory");
    let packed = gzip.finish().expect("memory");
    assert!(unzip(&packed, 1_000).expect_err("too long").to_string().contains("1000 bytes"));
    assert_eq!(unzip(&packed, 1_001).expect("fits").len(), 1_001);
}
