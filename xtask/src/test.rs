//! `cargo xtask test`: runs all tests and counts them.

use std::fmt;
use std::path::Path;

use anyhow::Result;

use xtask::{cargo, envoy};

/// The commands that run all tests. Cargo runs one binary at a time, because timing tests suffer
/// when other tests use the processors. Documentation tests need a separate command. The output of
/// tests that pass is shown, because they print `SKIPPED` and the reason if the machine lacks
/// something.
const ALL: [&[&str]; 3] = [
    // The library that tests load into Envoy.
    &["build", "--workspace", LIBRARY, "--lib"],
    &["test", "--workspace", LIBRARY, "--doc", "--no-fail-fast"],
    &["test", "--workspace", LIBRARY, "--all-targets", "--no-fail-fast", "--", "--show-output"],
];

/// The features of the library, so that all of it is tested.
pub(crate) const LIBRARY: &str = "--features=curtail/flow,curtail/metrics,curtail/opentelemetry";

/// The number of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Tally {
    /// Reads the last line that a test binary prints, `test result: ok. 6 passed; 0 failed; 1
    /// ignored; …`, and the lines of tests that lack something.
    fn read(&mut self, line: &str) {
        self.skipped += u64::from(line.starts_with("SKIPPED: "));
        let counts = line.strip_prefix("test result: ").and_then(|line| line.split_once(". "));
        for part in counts.map_or("", |(_, counts)| counts).split("; ") {
            let (number, word) = part.trim().split_once(' ').unwrap_or_default();
            let number: u64 = number.parse().unwrap_or(0);
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Runs all tests and prints the total counts as the last line. Returns false if a test failed or
/// did not compile.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let program = cargo::target_folder(root)?.join("debug/curtail");
    let stock = envoy::program(root)?;
    let (mut succeeded, mut tally) = (true, Tally::default());
    for args in ALL {
        let mut command = cargo::command(root, args);
        // Cargo builds all programs before it runs a test.
        command.env("CURTAIL", &program);
        command.envs(stock.as_ref().map(|stock| (envoy::ENVOY, stock)));
        let status = cargo::follow(&mut command, &mut std::io::stdout(), |line| tally.read(line))?;
        succeeded &= status.success();
    }
    if !succeeded && tally.failed == 0 {
        println!("a test program did not compile, or ended before its tests did");
    }
    println!("{tally}");
    Ok(succeeded && tally.failed == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_summed_and_other_lines_are_ignored() {
        let output = "running 7 tests\nSKIPPED: no IPv6\n\
             test result: ok. 6 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\n\n\
             warning: 3 passed\ntest a ... ok\ntest result: ok\ntest result: ok. x passed; \n\
             test result: FAILED. 8 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read(line));
        assert_eq!(tally, Tally { passed: 14, failed: 2, skipped: 2 });
        assert_eq!(tally.to_string(), "14 passed, 2 failed, 2 skipped");
    }
}
