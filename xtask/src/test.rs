//! `cargo xtask test`: all tests, and how many there were.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::cargo;

/// Builds all tests, and says what was built.
const BUILD: [&str; 6] =
    ["test", "--workspace", "--all-targets", "--no-fail-fast", "--no-run", "--message-format=json"];
/// Documentation tests run only on their own.
const DOCS: [&str; 4] = ["test", "--workspace", "--doc", "--no-fail-fast"];

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

/// Something that runs tests.
struct Job {
    name: String,
    command: Command,
}

/// What came of a job.
struct Done {
    name: String,
    output: Vec<u8>,
    good: bool,
}

/// Runs all tests; what a binary prints is shown together, once it has ended, and the last line is the tally
/// of all of them. False if a test failed, or did not compile.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let mut jobs = vec![Job { name: "documentation".into(), command: cargo::command(root, &DOCS) }];
    let mut built = cargo::command(root, &BUILD);
    let built =
        built.stderr(std::process::Stdio::inherit()).output().context("cannot run cargo")?;
    let mut succeeded = built.status.success();
    jobs.extend(binaries(root, &String::from_utf8_lossy(&built.stdout)));
    let mut tally = Tally::default();
    // One at a time: timing tests suffer where others compute, and a failure is a failure.
    for mut job in jobs {
        let done = once(&mut job)?;
        shown(&done)?;
        if !done.good {
            eprintln!("error: the tests of {} failed", done.name);
            succeeded = false;
        }
        String::from_utf8_lossy(&done.output).lines().for_each(|line| tally.read(line));
    }
    println!("{tally}");
    Ok(succeeded && tally.failed == 0)
}

/// The test binaries that cargo has built, of what it says in JSON, as it would run them.
fn binaries(root: &Path, messages: &str) -> Vec<Job> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let job = |message: Value| {
        let executable =
            message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
        let package = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
        let package_name = package.strip_prefix(root).unwrap_or(&package).display();
        let name = format!("{package_name}, {}", message["target"]["name"].as_str()?);
        let mut command = Command::new(executable);
        command.current_dir(&package).env("CARGO_MANIFEST_DIR", &package);
        Some(Job { name, command })
    };
    messages.filter_map(job).collect()
}

fn once(job: &mut Job) -> Result<Done> {
    let name = job.name.clone();
    let output = job.command.output().with_context(|| format!("cannot run {:?}", job.command))?;
    let good = output.status.success();
    Ok(Done { name, good, output: [output.stdout, output.stderr].concat() })
}

fn shown(ran: &Done) -> Result<()> {
    println!("   Running {}", ran.name);
    std::io::stdout().write_all(&ran.output).context("cannot show the output")
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

    #[test]
    fn test_binaries_are_found_in_what_cargo_says() {
        let message = |test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact", "executable": "/t/deps/faults-1", "profile": {"test": test},
                "manifest_path": "/r/crates/cli/Cargo.toml", "target": {"name": "faults"},
            })
        };
        let messages = format!("{}\n{}\nno json\n{{}}\n", message(true), message(false));
        let jobs = binaries(Path::new("/r"), &messages);
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0].name, "crates/cli, faults");
        assert_eq!(jobs[0].command.get_current_dir(), Some(Path::new("/r/crates/cli")));
    }

    #[test]
    fn a_failure_is_a_failure() {
        let ran = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            once(&mut Job { name: "shell".to_owned(), command }).expect("it runs")
        };
        assert!(!ran("exit 1").good);
        let good = ran("echo x");
        assert!(good.good);
        assert_eq!(good.output, b"x\n");
    }
}
