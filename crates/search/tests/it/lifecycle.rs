//! Tests building, reusing and rejecting an index.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::common::{ask, build, leaves};
use curtail_search::{Corpus, IndexError, Leaf, Outcome, Query, ShardedIndex};

fn corpus(word: &str) -> Corpus {
    Corpus::from_texts((0..20).map(|i| (format!("title {i}"), format!("{word} number {i}"))), word)
}

fn open_or_build(directory: &Path, corpus: &Corpus, shards: u32) -> Outcome {
    let (index, outcome) = ShardedIndex::open_or_build(directory, corpus, shards, &mut |_, _| {
        ControlFlow::Continue(())
    })
    .expect("an index");
    assert_eq!(index.shards(), shards);
    assert_eq!(ask(&leaves(&index), "number", 100).1, 20, "the index works");
    outcome
}

fn why(outcome: Outcome) -> String {
    match outcome {
        Outcome::Rebuilt { why } => why,
        other => panic!("expected a rebuild, got {other:?}"),
    }
}

/// Builds an index with two shards. Returns the guard that deletes its folder, its path, and its
/// corpus.
fn fresh() -> (tempfile::TempDir, PathBuf, Corpus) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = folder.path().join("index");
    let corpus = corpus("first");
    build(&directory, &corpus, 2);
    (folder, directory, corpus)
}

/// Returns the largest file of a shard.
fn a_file(shard: &Path) -> PathBuf {
    let entries =
        fs::read_dir(shard).expect("the shard is there").map(|entry| entry.expect("ok").path());
    entries.max_by_key(|path| fs::metadata(path).expect("ok").len()).expect("a file")
}

#[test]
fn an_index_is_reused_until_corpus_or_shards_change() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = folder.path().join("deep/er/index");
    fs::create_dir_all(&directory).expect("an empty folder will do");
    assert_eq!(open_or_build(&directory, &corpus("first"), 2), Outcome::Built);
    assert_eq!(open_or_build(&directory, &corpus("first"), 2), Outcome::Reused);
    let shards = why(open_or_build(&directory, &corpus("first"), 1));
    assert_eq!(shards, "it has 2 shards, not 1");
    let shards = why(open_or_build(&directory, &corpus("first"), 3));
    assert_eq!(shards, "it has 1 shard, not 3");
    let other = why(open_or_build(&directory, &corpus("second"), 3));
    assert_eq!(other, "it was built from another corpus (first, not second)");
    assert_eq!(open_or_build(&directory, &corpus("second"), 3), Outcome::Reused);
    let left: Vec<_> = fs::read_dir(folder.path().join("deep/er")).expect("ok").collect();
    assert_eq!(left.len(), 1, "nothing is left behind: {left:?}");
}

#[test]
fn progress_goes_up_to_the_total() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut seen = Vec::new();
    let texts = (0..3_000).map(|i| (format!("t{i}"), "word"));
    let corpus = Corpus::from_texts(texts, "many");
    ShardedIndex::build(&folder.path().join("index"), &corpus, 2, &mut |done, total| {
        seen.push((done, total));
        ControlFlow::Continue(())
    })
    .expect("an index");
    assert!(seen.len() > 3 && seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "{seen:?}");
    assert_eq!((seen[0], seen[seen.len() - 1]), ((0, 3_000), (3_000, 3_000)));
}

#[test]
fn a_damaged_manifest_is_named_and_rebuilt() {
    let (_guard, directory, corpus) = fresh();
    let path = directory.join("manifest.json");
    let good = fs::read_to_string(&path).expect("a manifest");
    let cut = &good[..good.len() / 2];
    let uneven = good.replacen("\"documents\": 20", "\"documents\": 21", 1);
    let escape = good.replacen("\"terms.fst\"", "\"../terms.fst\"", 1);
    for bad in ["", "{}", cut, &uneven, &escape] {
        fs::write(&path, bad).expect("written");
        let error = ShardedIndex::open(&directory).expect_err("the manifest is damaged");
        assert!(matches!(error, IndexError::Damaged { .. }), "{bad}: {error}");
        assert!(error.to_string().contains("manifest.json: damaged manifest: "), "{error}");
    }
    assert!(why(open_or_build(&directory, &corpus, 2)).contains("the file name"));
    fs::write(&path, good.replacen("\"format\": 2", "\"format\": 99", 1)).expect("written");
    assert!(Leaf::open(&directory, 0).is_err(), "another format");
    assert!(why(open_or_build(&directory, &corpus, 2)).contains("format 99"));
    assert_eq!(open_or_build(&directory, &corpus, 2), Outcome::Reused);
}

#[test]
fn a_missing_shard_is_named_and_rebuilt() {
    let (_guard, directory, corpus) = fresh();
    fs::remove_dir_all(directory.join("shard-1")).expect("removed");
    let error = ShardedIndex::open(&directory).expect_err("a shard is missing");
    let shard = directory.join("shard-1");
    assert!(
        matches!(&error, IndexError::Damaged { path, .. } if path.starts_with(shard)),
        "{error}"
    );
    assert!(Leaf::open(&directory, 1).is_err());
    // A leaf needs only its own shard and the statistics.
    let leaf = Leaf::open(&directory, 0).expect("shard 0 is good");
    let query = Query::parse("number").expect("a good query");
    assert_eq!(leaf.answer(&query, 3).expect("an answer").matched, 10);
    assert!(why(open_or_build(&directory, &corpus, 2)).contains("missing"));
}

#[test]
fn a_flipped_bit_is_found() {
    let (_guard, directory, corpus) = fresh();
    for path in [a_file(&directory.join("shard-0")), directory.join("terms.fst")] {
        let good = fs::read(&path).expect("a file");
        let mut bad = good.clone();
        bad[good.len() / 2] ^= 1;
        fs::write(&path, &bad).expect("written");
        let error = Leaf::open(&directory, 0).expect_err("a damaged file");
        assert!(
            matches!(&error, IndexError::Damaged { path: named, .. } if *named == path),
            "{error}"
        );
        fs::write(&path, &good[..good.len() - 1]).expect("written");
        assert!(matches!(ShardedIndex::open(&directory), Err(IndexError::Damaged { .. })));
        assert!(why(open_or_build(&directory, &corpus, 2)).contains("damaged"));
    }
}

#[test]
fn an_incomplete_index_is_rejected() {
    let (_guard, directory, corpus) = fresh();
    fs::remove_file(directory.join("manifest.json")).expect("removed"); // it is written last
    let error = Leaf::open(&directory, 0).expect_err("half built");
    assert!(matches!(error, IndexError::NotAnIndex { .. }), "{error}");
    assert!(why(open_or_build(&directory, &corpus, 2)).contains("no complete index"));
}

#[test]
fn an_interrupted_build_leaves_the_old_index() {
    let (guard, directory, corpus) = fresh();
    let interrupted = std::panic::catch_unwind(|| {
        let stop = &mut |_: u64, _: u64| panic!("interrupted, as the test wants");
        ShardedIndex::build(&directory, &self::corpus("second"), 2, stop).map(drop)
    });
    assert!(interrupted.is_err());
    assert_eq!(open_or_build(&directory, &corpus, 2), Outcome::Reused);
    assert_eq!(fs::read_dir(guard.path()).expect("ok").count(), 1, "nothing is left behind");
}

#[test]
fn an_interrupted_build_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let texts = (0..3_000).map(|i| (format!("t{i}"), "word"));
    let corpus = Corpus::from_texts(texts, "many");
    for after in [0, 1, 3_000] {
        let mut stop = |done, _| match done >= after {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let built = ShardedIndex::build(&folder.path().join("index"), &corpus, 2, &mut stop);
        assert!(matches!(built, Err(IndexError::Interrupted)), "{after}: {built:?}");
        let left: Vec<_> = fs::read_dir(folder.path()).expect("ok").collect();
        assert!(left.is_empty(), "{after}: {left:?}");
    }
}

#[test]
fn leftovers_of_a_killed_build_are_removed() {
    let (guard, directory, _) = fresh();
    for left in [".index.building", ".index.old"] {
        fs::create_dir_all(guard.path().join(left).join("shard-0")).expect("made");
    }
    build(&directory, &corpus("second"), 2);
    assert_eq!(fs::read_dir(guard.path()).expect("ok").count(), 1, "the index alone");
}

#[test]
fn other_peoples_files_are_not_touched() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let precious = folder.path().join("thesis.tex");
    fs::write(&precious, "years").expect("written");
    let built = ShardedIndex::open_or_build(folder.path(), &corpus("first"), 2, &mut |_, _| {
        ControlFlow::Continue(())
    });
    let error = built.expect_err("not an index").to_string();
    assert!(error.contains("thesis.tex"), "{error}");
    assert_eq!(fs::read_to_string(&precious).expect("still there"), "years");
}

#[test]
fn impossible_shapes_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let shape = |documents: usize, shards| {
        let corpus = Corpus::from_texts(vec![("t", "b"); documents], "some");
        ShardedIndex::build(&folder.path().join("index"), &corpus, shards, &mut |_, _| {
            ControlFlow::Continue(())
        })
        .expect_err("impossible")
    };
    assert!(matches!(shape(5, 0), IndexError::ShardCount { shards: 0 }));
    assert!(matches!(shape(5, 1025), IndexError::ShardCount { shards: 1025 }));
    assert!(matches!(shape(5, 6), IndexError::TooFewDocuments { documents: 5, shards: 6 }));
    let (_guard, directory, _) = fresh();
    let error = Leaf::open(&directory, 2).expect_err("shards are 0 and 1");
    assert!(matches!(error, IndexError::NoSuchShard { shard: 2, shards: 2 }), "{error}");
}
