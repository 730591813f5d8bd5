//! Runs the commands of a page of the docs: every line of a `console` block that begins with `$ `, in the
//! order of the page, in one shell, so that variables and processes in the background live on.
//!
//! A command that ends up in the background is given until it says something, which it does when it
//! listens. Whatever still runs at the end is ended.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// A command of the page, and what came of it.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) command: String,
    pub(crate) printed: String,
    pub(crate) said: String,
    /// Its exit code; none where the shell did not come to it.
    pub(crate) code: Option<i32>,
}

/// The commands of a page.
pub(crate) fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ "));
    commands.map(str::to_owned).collect()
}

/// Runs commands in a folder, with the programs of another one.
pub(crate) fn run(commands: &[String], folder: &Path, programs: &Path) -> io::Result<Vec<Ran>> {
    let log = folder.join(".page");
    std::fs::create_dir_all(&log)?;
    let mut script = "trap 'kill $(jobs -p) 2>/dev/null' EXIT\n".to_owned();
    for (at, command) in commands.iter().enumerate() {
        let place = log.join(at.to_string()).display().to_string();
        // Writing into a string cannot fail.
        let _ = writeln!(
            script,
            "{{ {command}\n}} > {place}.out 2> {place}.err < /dev/null; echo $? > {place}.code"
        );
        if command.contains(" &") && !command.contains("&&") {
            let _ = writeln!(
                script,
                "for i in $(seq 200); do [ -s {place}.out ] || [ -s {place}.err ] && break; \
                 sleep 0.05; done"
            );
        }
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(&script).current_dir(folder).stdin(Stdio::null());
    shell.env("PATH", format!("{}:{path}", programs.display())).status()?;
    let read = |at: usize, what: &str| {
        std::fs::read_to_string(log.join(format!("{at}.{what}"))).unwrap_or_default()
    };
    let ran = |(at, command): (usize, &String)| Ran {
        command: command.clone(),
        printed: read(at, "out"),
        said: read(at, "err"),
        code: read(at, "code").trim().parse().ok(),
    };
    Ok(commands.iter().enumerate().map(ran).collect())
}
