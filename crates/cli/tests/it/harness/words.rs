//! Checks what the binary prints: that it is one document or one error, and that it matches the
//! manuals.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::CURTAIL;

/// Runs curtail in a directory. The arguments are the words of a line, in which quotes have no
/// effect.
pub fn curtail_in(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(CURTAIL);
    command.args(line.split_whitespace()).current_dir(folder);
    command.stdin(Stdio::null()).output().expect("the binary starts")
}

/// Runs a line that must succeed, and returns the document that it prints. Stderr must be empty.
pub fn json_in(folder: &Path, line: &str) -> Value {
    let output = curtail_in(folder, &format!("{line} --json"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{line}: {stderr}");
    serde_json::from_slice(&output.stdout).expect("JSON alone")
}

/// A directory with files.
pub fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

/// Checks that each line is bad input to the verb: exit code 2, one error that contains the word,
/// and no result.
pub fn refused(folder: &Path, verb: &str, cases: &[(&str, &str)]) {
    for (line, word) in cases {
        let output = curtail_in(folder, &format!("{verb} {line}"));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(word), "{line}: {stderr}");
        assert!(stderr.starts_with("error: "), "{line}: {stderr}");
        assert_eq!(stderr.matches("error:").count(), 1, "{line}: {stderr}");
        assert!(output.stdout.is_empty(), "{line}");
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
        let output = shell.stdin(Stdio::null()).output().expect("a shell");
        let printed = String::from_utf8(output.stdout).expect("text");
        let lines = |text: &str| -> Vec<String> {
            text.trim().lines().map(|line| line.trim_end().to_owned()).collect()
        };
        assert_eq!(lines(&printed), lines(expected), "{command}");
        shown += 1;
    }
    assert!(shown >= least, "{shown} examples");
}
