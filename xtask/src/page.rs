//! Runs the commands of a documentation page, that is, every line that begins with `$ ` in a
//! `console` block. The commands run in the order in which they appear on the page. All commands
//! run in one shell, so variables and background processes stay alive.
//!
//! After a command that starts a background process, the shell waits up to 10 s for the process to
//! print something, which shows that it is listening. Processes that are still running at the end
//! are killed.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// A command of the page and its results.
#[derive(Debug)]
pub struct Ran {
    /// The command.
    pub command: String,
    /// What it printed.
    pub printed: String,
    /// What it wrote to stderr.
    pub stderr: String,
    /// The exit code. `None` if the shell did not reach the command.
    pub code: Option<i32>,
}

/// Returns the commands of a page.
pub fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ "));
    commands.map(str::to_owned).collect()
}

/// Runs commands in `folder`, with the folder `programs` at the front of the path.
pub fn run(commands: &[String], folder: &Path, programs: &Path) -> io::Result<Vec<Ran>> {
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
        stderr: read(at, "err"),
        code: read(at, "code").trim().parse().ok(),
    };
    Ok(commands.iter().enumerate().map(ran).collect())
}
