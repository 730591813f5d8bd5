//! `cargo xtask test`: all tests, and how many there were.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};

use crate::cargo;

/// All tests. Cargo runs documentation tests only on their own.
const RUNS: [&[&str]; 2] = [
    &["test", "--workspace", "--all-targets", "--no-fail-fast"],
    &["test", "--workspace", "--doc", "--no-fail-fast"],
];

/// How many tests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Runs all tests, showing their output as it comes; the last line is the tally of all of them.
/// False if a test failed, or did not compile.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let mut tally = Tally::default();
    let mut succeeded = true;
    for args in RUNS {
        let (part, part_succeeded) = run_part(root, args)?;
        tally.add(part);
        if !part_succeeded {
            eprintln!("error: `cargo {}` failed", args.join(" "));
            succeeded = false;
        }
    }
    println!("{tally}");
    Ok(succeeded && tally.failed == 0)
}

fn run_part(root: &Path, args: &[&str]) -> Result<(Tally, bool)> {
    let mut command = cargo::command(root, args);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    let pipe = child.stdout.take().context("the tests have no output")?;
    let tally = follow(BufReader::new(pipe), std::io::stdout());
    // Wait even where the output could not be followed, to leave no process behind.
    let status = child.wait().context("cannot wait for the tests")?;
    Ok((tally?, status.success()))
}

/// Copies the output line by line, as bytes: a test may print anything.
fn follow(mut output: impl BufRead, mut shown: impl Write) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).context("cannot read the tests' output")? > 0 {
        shown.write_all(&line).context("cannot show the tests' output")?;
        tally.add(closing_line(&String::from_utf8_lossy(&line)).unwrap_or_default());
        line.clear();
    }
    Ok(tally)
}

/// Reads `test result: ok. 6 passed; 0 failed; 1 ignored; …`, with which a test binary closes.
fn closing_line(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |name: &str| {
        let (number, _) = counts.split("; ").find_map(|part| {
            let (number, word) = part.trim().split_once(' ')?;
            (word == name).then_some((number, word))
        })?;
        number.parse().ok()
    };
    Some(Tally { passed: count("passed")?, failed: count("failed")?, skipped: count("ignored")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "test result: ok. 6 passed; 0 failed; 1 ignored; 0 measured; \
                      2 filtered out; finished in 0.01s\n";
    const FAILED: &str = "test result: FAILED. 8 passed; 2 failed; 0 ignored; 0 measured; \
                          0 filtered out; finished in 0.16s\n";

    #[test]
    fn closing_lines_are_summed_up() {
        let output = format!("running 7 tests\n{OK}\nwarning: 3 passed\n{FAILED}");
        let mut shown = Vec::new();
        let tally = follow(output.as_bytes(), &mut shown).expect("readable");
        assert_eq!(shown, output.as_bytes());
        assert_eq!(tally, Tally { passed: 14, failed: 2, skipped: 1 });
        assert_eq!(tally.to_string(), "14 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in ["", "test a ... ok", "test result: ok", "test result: ok. x passed; "] {
            assert_eq!(closing_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn output_that_is_not_text_is_copied() {
        let mut output = b"\xff\xfe\n".to_vec();
        output.extend_from_slice(OK.as_bytes());
        let mut shown = Vec::new();
        assert_eq!(follow(&output[..], &mut shown).expect("readable").passed, 6);
        assert_eq!(shown, output);
    }
}
