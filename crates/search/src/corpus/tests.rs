//! Tests of the document sources.

use std::fs;
use std::path::Path;

use super::gather::{Gather, head, sections};
use super::{Corpus, CorpusError, Limits, Source, apt};

fn load(path: &Path, limits: Limits) -> Result<Corpus, CorpusError> {
    Corpus::load(&Source::Path(path.to_owned()), limits)
}

fn titles(corpus: &Corpus) -> Vec<&str> {
    corpus.documents().iter().map(|document| document.title.as_str()).collect()
}

#[test]
fn package_stanzas_become_documents() {
    let stanzas = "Package: ed\nVersion: 1\nDescription: line editor\n The standard one.\n .\n \
                   Since 1969.\nTag: role::program,\n interface::text\n\nPackage: silent\n\n\
                   Package: vi\nDescription-en: visual ?editor\nDescription-md5: 0";
    let mut broken = stanzas.as_bytes().to_vec();
    let mark = broken.iter().position(|&byte| byte == b'?').expect("a mark");
    broken[mark] = 0xff; // not UTF-8
    let mut gather = Gather::new(Limits::default());
    apt::read(broken.as_slice(), &mut gather).expect("memory is readable");
    let corpus = gather.finish(|n| format!("{n} packages")).expect("two documents");
    assert_eq!(titles(&corpus), ["ed", "vi"]);
    assert_eq!(corpus.documents()[0].body, "line editor\nThe standard one.\n\nSince 1969.");
    assert_eq!(corpus.documents()[1].body, "visual \u{fffd}editor");
    assert_eq!(corpus.description(), "2 packages");
}

#[test]
fn json_lines_take_body_or_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("corpus.jsonl");
    let lines = "{\"title\":\"one\",\"body\":\"first\",\"more\":1}\n\n{\"text\":\"second\"}\n";
    fs::write(&path, lines).expect("written");
    let corpus = load(&path, Limits::default()).expect("a corpus");
    assert_eq!(titles(&corpus), ["one", "object 2"]);
    assert_eq!(corpus.documents()[1].body, "second");
    assert_eq!(corpus.documents()[1].id, 1);
}

#[test]
fn the_error_names_a_wrong_json_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("corpus.jsonl");
    let good = "{\"title\":\"one\",\"body\":\"first\"}\n";
    let cases: [(&[u8], &str); 4] = [
        (b"{\"title\": 7}\n", "invalid type: integer `7`, expected a string at line 2 column"),
        (b"{\"title\": \"only\"}", "object 2 has neither `body` nor `text`"),
        (b"{\"body\": \"\xff\"}", "at line 2 column"),
        (b"not json\n", "expected ident at line 2 column"),
    ];
    for (line, expected) in cases {
        fs::write(&path, [good.as_bytes(), line].concat()).expect("written");
        let error = load(&path, Limits::default()).expect_err("line 2 is wrong").to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }
}

#[test]
fn a_folder_is_read_in_order_and_other_files_are_counted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path();
    fs::create_dir_all(root.join("b/deep")).expect("made");
    fs::create_dir_all(root.join(".git")).expect("made");
    for (name, bytes) in [
        ("z.txt", b"last".as_slice()),
        ("b/deep/two.md", b"second"),
        ("a.txt", b"first"),
        ("c.bin", b"zero \0 byte"),
        ("d.bin", b"\xff\xfe"),
        ("empty", b" \n"),
        (".git/config", b"hidden"),
    ] {
        fs::write(root.join(name), bytes).expect("written");
    }
    let corpus = load(root, Limits::default()).expect("a corpus");
    assert_eq!(titles(&corpus), ["a.txt", "b/deep/two.md", "z.txt"]);
    assert_eq!(
        corpus.remarks(),
        ["2 files skipped that are not UTF-8 text, larger than 8 MiB, or not readable"]
    );
    assert!(corpus.description().starts_with("3 sections of text files under"));
}

#[test]
fn limits_cut_the_corpus_and_add_a_remark() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for i in 0..10 {
        fs::write(folder.path().join(format!("{i}")), "0123456789").expect("written");
    }
    let by_count = Limits { max_documents: 4, ..Limits::default() };
    let corpus = load(folder.path(), by_count).expect("a corpus");
    assert_eq!(corpus.documents().len(), 4);
    assert!(corpus.remarks()[0].contains("limit of 4 documents"), "{:?}", corpus.remarks());
    assert!(corpus.description().ends_with("(cut)"));
    let by_bytes = Limits { max_bytes: 35, ..Limits::default() };
    let corpus = load(folder.path(), by_bytes).expect("a corpus");
    assert_eq!(corpus.documents().len(), 3); // 1 byte of title and 10 of body each
    assert!(corpus.remarks()[0].contains("limit of 35 bytes"), "{:?}", corpus.remarks());
}

#[test]
fn long_bodies_are_shortened_and_counted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("long.jsonl");
    fs::write(&path, format!("{{\"body\":\"{}\"}}", "é".repeat(40_000))).expect("written");
    let corpus = load(&path, Limits::default()).expect("a corpus");
    assert_eq!(corpus.documents()[0].body.len(), 64 << 10);
    assert_eq!(corpus.remarks(), ["1 documents shortened to 64 KiB"]);
}

#[test]
fn sources_without_text_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let empty = load(folder.path(), Limits::default());
    assert!(matches!(empty, Err(CorpusError::Empty { .. })), "{empty:?}");
    let absent = load(&folder.path().join("absent"), Limits::default());
    assert!(matches!(absent, Err(CorpusError::Read { .. })), "{absent:?}");
}

#[test]
fn the_fingerprint_is_of_the_documents() {
    let one = Corpus::from_texts([("a", "bc"), ("d", "")], "one");
    let same = Corpus::from_texts([("a", "bc"), ("d", "")], "another name");
    let other = Corpus::from_texts([("a", "b"), ("cd", "")], "one");
    assert_eq!(one.fingerprint(), same.fingerprint());
    assert_ne!(one.fingerprint(), other.fingerprint());
}

#[test]
fn sections_keep_the_text_and_their_bounds() {
    let paragraph = format!("{}\n\n", "word ".repeat(60).trim_end());
    let text = paragraph.repeat(50);
    let cut: Vec<&str> = sections(&text).collect();
    assert!(cut.len() > 5 && cut.iter().all(|s| s.len() <= 4096), "{}", cut.len());
    assert!(cut.iter().all(|section| section.ends_with("word")), "cut at paragraphs");
    assert_eq!(cut.concat().matches("word").count(), text.matches("word").count());
    let one_line = "é".repeat(10_000);
    assert_eq!(sections(&one_line).collect::<String>(), one_line);
    assert_eq!(sections("\n \n").count(), 0);
}

#[test]
fn a_text_is_not_cut_inside_a_character() {
    assert_eq!([head("aé", 2), head("aé", 9)], ["a", "aé"]);
}
