//! Runs the binary, and checks what it prints: that it is one document or one error, and that it
//! matches the manuals.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::CURTAIL;

/// A finished run.
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let [out, err] = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Self { code: output.status.code(), out, err }
    }
}

impl Ran {
    /// Checks the exit code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        self
    }

    /// Checks that stdout contains each of these texts.
    #[track_caller]
    pub fn prints<const N: usize>(self, texts: [&str; N]) -> Self {
        texts.iter().for_each(|text| assert!(self.out.contains(text), "{text}: {}", self.out));
        self
    }

    /// Checks that stdout contains none of these texts.
    #[track_caller]
    pub fn omits<const N: usize>(self, texts: [&str; N]) -> Self {
        texts.iter().for_each(|text| assert!(!self.out.contains(text), "{text}: {}", self.out));
        self
    }

    /// Checks that stderr contains each of these texts.
    #[track_caller]
    pub fn warns<const N: usize>(self, texts: [&str; N]) -> Self {
        texts.iter().for_each(|text| assert!(self.err.contains(text), "{text}: {}", self.err));
        self
    }

    /// Checks that a run ended with an error that contains this text, and without a result.
    #[track_caller]
    pub fn fails(self, code: i32, text: &str) -> Self {
        let ran = self.ends(code).warns([text]);
        assert!(ran.err.starts_with("error: ") && ran.out.is_empty(), "{}{}", ran.out, ran.err);
        assert_eq!(ran.err.matches("error:").count(), 1, "{}", ran.err);
        ran
    }

    /// The document on stdout, which contains nothing else.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.err))
    }
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Ran {
    command.stdin(Stdio::null()).output().expect("the binary starts").into()
}

/// Runs curtail in a directory. The arguments are the words of a line, in which quotes have no
/// effect.
pub fn curtail_in(folder: &Path, line: &str) -> Ran {
    run(Command::new(CURTAIL).args(line.split_whitespace()).current_dir(folder))
}

/// Runs curtail in the directory of the tests.
pub fn curtail(line: &str) -> Ran {
    curtail_in(Path::new("."), line)
}

/// Runs a line that must succeed, and returns the document that it prints. Stderr must be empty.
pub fn json_in(folder: &Path, line: &str) -> Value {
    let ran = curtail_in(folder, &format!("{line} --json")).ends(0);
    assert_eq!(ran.err, "", "{line}");
    ran.json()
}

/// A directory with files.
pub fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

/// The contents of a file.
pub fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The document in a file.
pub fn read_json(path: impl AsRef<Path>) -> Value {
    serde_json::from_str(&read(path)).expect("JSON")
}

/// The names in a directory, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The number of latencies in a log.
pub fn latencies(log: impl AsRef<Path>) -> u64 {
    let intervals = curtail_dist::LogReader::open(log.as_ref()).expect("a log");
    intervals.map(|interval| interval.expect("an interval").counted.len()).sum()
}

/// Checks that each line is bad input to the verb: exit code 2, one error that contains the word,
/// and no result.
pub fn refused(folder: &Path, verb: &str, cases: &[(&str, &str)]) {
    for (line, word) in cases {
        println!("{verb} {line}");
        curtail_in(folder, &format!("{verb} {line}")).fails(2, word);
    }
}

/// Checks that every command in a manual prints the text below it. There must be at least `least`
/// commands.
pub fn manual_shows_what_is_printed(manual: &str, least: usize) {
    let folder = folder(&[]);
    let binary = PathBuf::from(CURTAIL);
    let binaries = binary.parent().expect("a folder").display();
    let path = format!("{binaries}:{}", std::env::var("PATH").unwrap_or_default());
    let blocks = manual.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples = blocks.flat_map(|block| block.split("$ ").skip(1));
    let mut shown = 0;
    for example in examples {
        let (command, expected) = example.split_once('\n').expect("a command in a line");
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("PATH", &path).current_dir(folder.path());
        let lines = |text: &str| -> Vec<String> {
            text.trim().lines().map(|line| line.trim_end().to_owned()).collect()
        };
        assert_eq!(lines(&run(&mut shell).out), lines(expected), "{command}");
        shown += 1;
    }
    assert!(shown >= least, "{shown} examples");
}
