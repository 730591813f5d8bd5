//! `cargo xtask fuzz`: the property tests of everything that parses bytes from outside, with many
//! more cases than a test run takes. What fails is shrunk, printed, and tried first next time.

use std::path::Path;

use anyhow::Result;

use crate::cargo;

/// Where the properties are. The whole workspace is named, for then cargo builds nothing that the
/// tests have not built already.
const TESTS: &[&str] =
    &["duration", "parse", "requests", "responses", "bodies", "config", "histogram_log"];
/// Beside the libraries: it reads what runs have left behind.
const BINARY: &str = "curtail";

/// Runs so many cases of each; false if one fails.
pub(crate) fn run(root: &Path, cases: u32) -> Result<bool> {
    let mut args =
        vec!["test", "--quiet", "--workspace", "--no-fail-fast", "--lib", "--bin", BINARY];
    args.extend(TESTS.iter().flat_map(|test| ["--test", *test]));
    let mut command = cargo::command(root, &args);
    command.env("PROPTEST_CASES", cases.to_string());
    cargo::succeeds(&mut command)
}
