//! `cargo xtask fuzz`: the property tests of everything that parses bytes from outside, with many
//! more cases than a test run takes. What fails is shrunk, printed, and tried first next time.

use std::path::Path;

use anyhow::Result;

use crate::cargo;

/// The test binaries, by package.
const TARGETS: &[(&str, &[&str])] = &[
    ("curtail-kernel", &["--test", "duration"]),
    ("curtail-dist", &["--test", "parse"]),
    ("curtail-http1", &["--test", "requests", "--test", "responses", "--test", "bodies"]),
    ("curtail-proxy", &["--test", "config"]),
    ("curtail-search", &["--lib"]),
];

/// Runs so many cases of each; false if one fails.
pub(crate) fn run(root: &Path, cases: u32) -> Result<bool> {
    let mut passed = true;
    for (package, binaries) in TARGETS {
        let args = [&["test", "--quiet", "-p", package], *binaries].concat();
        let mut command = cargo::command(root, &args);
        command.env("PROPTEST_CASES", cases.to_string());
        passed &= cargo::succeeds(&mut command)?;
    }
    Ok(passed)
}
