//! `cargo xtask test`: all tests, and how many there were.

use std::fmt;
use std::path::Path;

use anyhow::Result;

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

    fn read(&mut self, line: &str) {
        self.add(closing_line(line).unwrap_or_default());
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
    let mut tally = Tally::default();
    let succeeded = cargo::followed(&mut cargo::command(root, args), |line| tally.read(line))?;
    Ok((tally, succeeded))
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
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read(line));
        assert_eq!(tally, Tally { passed: 14, failed: 2, skipped: 1 });
        assert_eq!(tally.to_string(), "14 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in ["", "test a ... ok", "test result: ok", "test result: ok. x passed; "] {
            assert_eq!(closing_line(line), None, "{line:?}");
        }
    }
}
