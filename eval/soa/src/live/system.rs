//! Starts, connects and stops the processes of all services, and collects their reports.
//!
//! Cost: a process per instance. The processes end with this process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout, Stdio};

use anyhow::{Context as _, Result};

use super::process::Report;
use crate::child::{self, Child};

/// A process that ends when this value is dropped.
struct Running {
    _child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// All processes.
pub(super) struct System(Vec<Running>);

impl System {
    /// Starts `count` processes of this program with these arguments and `--process N`, and
    /// connects them. Call this from a thread that lives at least as long as they do.
    pub(super) fn start(arguments: &[String], count: u32) -> Result<(Self, Vec<SocketAddr>)> {
        let us = std::env::current_exe().context("cannot find this program")?;
        let start = |at: u32| {
            let mut command = child::command(&us);
            command.args(arguments).args(["--process", &at.to_string()]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = Child::spawn(&mut command)?;
            let input = child.stdin.take();
            let output = child.stdout.take().context("its output is piped")?;
            Ok(Running { _child: child, input, output: BufReader::new(output) })
        };
        let mut all = (0..count).map(start).collect::<Result<Vec<Running>>>()?;
        let mut addresses = Vec::new();
        for process in &mut all {
            let line = process.line()?;
            let address = line.trim().parse();
            addresses.push(address.with_context(|| format!("a process printed {line:?}"))?);
        }
        let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        for process in &mut all {
            let input = process.input.as_mut().context("its input is piped")?;
            writeln!(input, "{}", texts.join(" "))?;
        }
        Ok((Self(all), addresses))
    }

    /// Stops all processes and collects their reports.
    pub(super) fn stop(mut self) -> Result<Vec<Report>> {
        self.0.iter_mut().for_each(|process| process.input = None);
        let report = |process: &mut Running| {
            serde_json::from_str(&process.line()?).context("the report of a process")
        };
        self.0.iter_mut().map(report).collect()
    }
}

impl Running {
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        anyhow::ensure!(!line.is_empty(), "a process ended too early; see its messages");
        Ok(line)
    }
}
