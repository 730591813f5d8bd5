//! What a line uses: values, commands, servers, rounds, and the list of its findings.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail};
use curtail_machine::{Round, take_turns};
use serde_json::Value;
use xtask::cargo;
use xtask::process::{Process, free_port, get, tied};

use crate::install::{self, Missing};
use crate::verdict::{Bound, Figures, Finding, Verdict, listed};

/// Values by name.
pub(crate) type Vars = BTreeMap<String, String>;

/// A line that is being judged.
pub(crate) struct Lab<'a> {
    pub(crate) root: &'a Path,
    /// The folder for files of the line.
    pub(crate) folder: PathBuf,
    pub(crate) quick: bool,
    /// The claim of the line itself.
    pub(crate) text: &'static str,
    set: Vars,
    pub(crate) findings: Vec<Finding>,
}

impl<'a> Lab<'a> {
    pub(crate) fn new(
        root: &'a Path,
        name: &str,
        text: &'static str,
        quick: bool,
        set: Vars,
    ) -> Result<Self> {
        let folder = root.join("target/accept").join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(Self { root, folder, quick, text, set, findings: Vec::new() })
    }

    /// Returns the value for a full or a quick run.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Returns the value with this name: that of the command line, of the line, or the given one for
    /// a full or a quick run.
    pub(crate) fn var(&self, name: &str, full: &str, quick: &str) -> String {
        self.set.get(name).map_or_else(|| self.pick(full, quick).to_owned(), Clone::clone)
    }

    /// Returns a value as a number.
    pub(crate) fn number<T: FromStr + ToString>(&self, name: &str, full: T, quick: T) -> Result<T> {
        let Some(text) = self.set.get(name) else { return Ok(self.pick(full, quick)) };
        text.parse().map_err(|_| anyhow!("--set {name}={text}: must be a number"))
    }

    /// Sets a value for the function of another line, unless the command line or the line sets it.
    pub(crate) fn preset(&mut self, name: &str, value: String) {
        self.set.entry(name.to_owned()).or_insert(value);
    }

    /// Judges a claim about figures.
    pub(crate) fn check(
        &mut self,
        claim: impl Into<String>,
        figures: impl Into<Figures>,
        bound: impl std::borrow::Borrow<Bound>,
    ) {
        let (figure, verdict) = bound.borrow().judge(&figures.into().0);
        self.findings.push(Finding { claim: claim.into(), figure, verdict });
    }

    /// Judges the claim of the line itself.
    pub(crate) fn check_line(
        &mut self,
        figures: impl Into<Figures>,
        bound: impl std::borrow::Borrow<Bound>,
    ) {
        self.check(self.text, figures, bound);
    }

    /// Judges a claim that is true or false. `figure` is printed.
    #[expect(clippy::needless_pass_by_value, reason = "figures are literals or temporary values")]
    pub(crate) fn holds(&mut self, claim: impl Into<String>, figure: impl ToString, holds: bool) {
        let verdict = if holds { Verdict::Holds } else { Verdict::Broken };
        self.findings.push(Finding { claim: claim.into(), figure: figure.to_string(), verdict });
    }

    /// Judges a claim about texts: there is at least one, and the condition holds for each.
    pub(crate) fn all(
        &mut self,
        claim: impl Into<String>,
        texts: &[String],
        holds: impl Fn(&str) -> bool,
    ) {
        let good = !texts.is_empty() && texts.iter().all(|text| holds(text));
        self.holds(claim, listed(texts), good);
    }

    /// Records that a claim was not judged.
    pub(crate) fn skip(&mut self, claim: impl Into<String>, why: impl Into<String>) {
        let (claim, figure) = (claim.into(), why.into());
        self.findings.push(Finding { claim, figure, verdict: Verdict::Skipped });
    }

    /// Returns why a requirement is not met, after an attempt to install what is missing.
    pub(crate) fn lacking(&self, need: &str) -> Option<String> {
        install::lacking(self.root, &[need])
    }

    /// Returns the path of a file in `lab/accept/files`.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.root.join("lab/accept/files").join(name)
    }

    /// Copies a file from `lab/accept/files` into the folder of the line, with `{name}` replaced by
    /// its value, and `{folder}` by the folder of the line. A value may contain the names of later
    /// ones. Returns the path of the copy.
    pub(crate) fn copy(&self, name: &str, values: &[(&str, &dyn ToString)]) -> Result<String> {
        let from = self.data(name);
        let mut text =
            std::fs::read_to_string(&from).with_context(|| from.display().to_string())?;
        for (name, value) in values {
            text = text.replace(&format!("{{{name}}}"), &value.to_string());
        }
        let to = self.folder.join(name);
        std::fs::write(&to, self.fill(&text))?;
        Ok(to.display().to_string())
    }

    /// Returns a command from words that are separated by spaces. `@NAME` is a program that is built
    /// or installed if necessary, and `{folder}` is the folder of the line. The command runs in the
    /// root of the repository.
    pub(crate) fn run(&self, words: impl AsRef<str>) -> Run {
        let mut words = words.as_ref().split_whitespace();
        let run = self.program(words.next().unwrap_or_default());
        words.fold(run, |run, word| run.program(self.resolve(word)))
    }

    /// Returns a command that runs a shell script. Words like those of [`run`](Self::run) are its
    /// `$0`, `$1`, ….
    pub(crate) fn sh(&self, script: &str, words: impl AsRef<str>) -> Run {
        let run = self.run("sh -c").arg(self.fill(script));
        let words = words.as_ref().split_whitespace();
        words.fold(run, |run, word| run.program(self.resolve(word)))
    }

    /// Returns a command without arguments.
    pub(crate) fn program(&self, name: &str) -> Run {
        let command = self.resolve(name).map(|program| {
            let mut command = match program.to_str() {
                Some("cargo") => cargo::command(self.root, &[]),
                _ => Command::new(program),
            };
            command.current_dir(self.root);
            command
        });
        Run { name: name.to_owned(), command, may_fail: false, shown: true }
    }

    fn resolve(&self, name: &str) -> Result<PathBuf> {
        match name.strip_prefix('@') {
            Some(name) => install::program(self.root, name),
            None => Ok(self.fill(name).into()),
        }
    }

    /// Runs `curtail sweep` with these words, and returns the points in its folder of results, which
    /// is relative to the root of the repository.
    pub(crate) fn sweep(&self, words: impl AsRef<str>, out: &str) -> Result<Vec<Value>> {
        let words = words.as_ref();
        self.run(format!("@curtail sweep {words} --out {out}")).quiet().finish(1)?;
        let file = self.root.join(out).join("results.jsonl");
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        documents(&text).with_context(|| file.display().to_string())
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{folder}", &self.folder.display().to_string())
    }

    /// Returns a server to start, from words like those of [`run`](Self::run). `{port}` stands for a
    /// free port of the loopback interface.
    pub(crate) fn server(&self, words: impl AsRef<str>) -> Result<ServerPlan<'_>> {
        let port = free_port()?;
        let words = words.as_ref().replace("{port}", &port.to_string());
        let mut words = words.split_whitespace().map(|word| self.resolve(word));
        let mut command = tied(words.next().context("a server has a program")??);
        command.args(words.collect::<Result<Vec<_>>>()?).current_dir(self.root);
        Ok(ServerPlan { lab: self, command, port })
    }

    /// Lets sides take turns in rounds, and returns the results by side and round. A round does not
    /// count, and is run again, if the hypervisor took time from the machine or if `is_sound` rejects
    /// a turn.
    pub(crate) fn rounds<T>(
        &self,
        sides: usize,
        wanted: usize,
        mut turn: impl FnMut(usize, usize) -> Result<T>,
        is_sound: impl Fn(&T) -> bool,
    ) -> Result<Vec<Vec<T>>> {
        let turn = |side, round: Round| {
            eprintln!("-- round {} of {wanted}", round.calm + 1);
            turn(side, round.number)
        };
        take_turns(sides, wanted, turn, is_sound)
    }
}

/// A command to run.
pub(crate) struct Run {
    name: String,
    command: Result<Command>,
    may_fail: bool,
    shown: bool,
}

/// What a command printed, and how it ended.
pub(crate) struct Ran {
    pub(crate) text: String,
    pub(crate) seconds: f64,
    /// Whether the command exited with 0.
    pub(crate) ok: bool,
}

impl Run {
    fn with(mut self, change: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        if let Ok(command) = &mut self.command {
            change(command);
        }
        self
    }

    /// Adds a program as an argument.
    fn program(mut self, program: Result<PathBuf>) -> Self {
        match program {
            Ok(program) => self.arg(program),
            Err(error) => {
                self.command = self.command.and(Err(error));
                self
            }
        }
    }

    pub(crate) fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.with(|command| command.arg(arg))
    }

    pub(crate) fn args(self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.with(|command| command.args(args))
    }

    pub(crate) fn env(self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.with(|command| command.env(name, value))
    }

    /// Removes variables from the environment.
    pub(crate) fn without(self, which: impl Fn(&str) -> bool) -> Self {
        self.with(|command| {
            cargo::forget(command, which);
            command
        })
    }

    /// Runs the command in this folder.
    pub(crate) fn within(self, folder: &Path) -> Self {
        self.with(|command| command.current_dir(folder))
    }

    /// Accepts every exit code.
    pub(crate) fn may_fail(self) -> Self {
        Self { may_fail: true, ..self }
    }

    /// Runs the command without showing its output.
    pub(crate) fn quiet(self) -> Self {
        Self { shown: false, ..self }
    }

    /// Runs the command, and returns its output.
    ///
    /// # Errors
    ///
    /// If the command exits with another code than 0, unless it may fail. [`Missing`] if it exits
    /// with 3, with which our programs report that this machine lacks something.
    pub(crate) fn output(self) -> Result<Ran> {
        self.finish(0)
    }

    /// Runs the command, and returns the JSON document that it prints. The exit code may be 1, with
    /// which our programs report a negative verdict.
    pub(crate) fn json(self) -> Result<Value> {
        let mut points = self.points()?;
        if points.len() != 1 {
            bail!("{} JSON documents instead of one", points.len());
        }
        Ok(points.swap_remove(0))
    }

    /// Runs the command, and returns the JSON documents that it prints. The points of a sweep, which
    /// are printed in the order in which they completed, are sorted.
    pub(crate) fn points(self) -> Result<Vec<Value>> {
        let name = self.name.clone();
        documents(&self.verdict()?.text).with_context(|| format!("{name} prints no JSON"))
    }

    /// Runs the command without showing its output. The exit code may be 1, with which our programs
    /// report a negative verdict.
    pub(crate) fn verdict(self) -> Result<Ran> {
        self.quiet().finish(1)
    }

    /// Runs the command, and returns the text after `marker` in each line that contains it.
    pub(crate) fn lines(self, marker: &str) -> Result<Vec<String>> {
        let text = self.output()?.text;
        let found = text.lines().filter_map(|line| Some(line.split_once(marker)?.1.to_owned()));
        Ok(found.collect())
    }

    /// Runs the command, and returns the words of the form `name=value` that it prints.
    pub(crate) fn fields(self) -> Result<Fields> {
        Ok(Fields::of(&self.output()?.text))
    }

    fn finish(self, most: i32) -> Result<Ran> {
        let mut command = self.command?;
        eprintln!("$ {}", shown(&command));
        let mut screen: Box<dyn Write> =
            if self.shown { Box::new(std::io::stderr()) } else { Box::new(std::io::sink()) };
        let (mut text, start) = (String::new(), Instant::now());
        let status = cargo::follow(&mut command, &mut screen, |line| text.push_str(line))?;
        let seconds = start.elapsed().as_secs_f64();
        match status.code().with_context(|| format!("a signal ended {}", self.name))? {
            code if code <= most || self.may_fail => Ok(Ran { text, seconds, ok: code == 0 }),
            3 => bail!(Missing(format!("{} lacks something: see above", self.name))),
            code => bail!("{} ended with {code}", shown(&command)),
        }
    }
}

/// Returns words in which a flag precedes each of these values, which are separated by spaces.
pub(crate) fn repeated(flag: &str, values: &str) -> String {
    let words = values.split_whitespace().map(|value| format!("{flag} {value}"));
    words.collect::<Vec<_>>().join(" ")
}

/// Parses the JSON documents of a text.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut values = values.collect::<Result<Vec<_>, _>>()?;
    values.sort_by_key(|value| value["point"].as_u64());
    Ok(values)
}

/// Returns false if a report of the load generator is invalid only because the generator fell
/// behind. Such a run may be repeated.
pub(crate) fn kept_up(report: &Value) -> bool {
    let reasons = report["invalid_because"].as_array().map_or(&[][..], Vec::as_slice);
    reasons.is_empty() || reasons.iter().any(|reason| reason["kind"] != "fell_behind")
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Words of the form `name=value`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vars);

impl Fields {
    pub(crate) fn of(text: &str) -> Self {
        let pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Returns a number. NaN if there is none with this name.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.0.get(name).and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
    }
}

/// A server to start.
pub(crate) struct ServerPlan<'a> {
    lab: &'a Lab<'a>,
    command: Command,
    pub(crate) port: u16,
}

/// A server that ends when this value is dropped.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl ServerPlan<'_> {
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds the path of a copy of a file, as [`Lab::copy`] makes it. `{port}` stands for the port.
    pub(crate) fn config(self, name: &str, values: &[(&str, &dyn ToString)]) -> Result<Self> {
        let port: (&str, &dyn ToString) = ("port", &self.port);
        let file = self.lab.copy(name, &[values, &[port]].concat())?;
        Ok(self.arg(file))
    }

    /// Starts a program of this repository, which prints its address.
    pub(crate) fn announced(self) -> Result<Server> {
        let mut process = self.start()?;
        let address = process.announced()?[0];
        Ok(Server { process, address })
    }

    /// Starts a program that listens on the free port.
    pub(crate) fn listening(self) -> Result<Server> {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let mut process = self.start()?;
        process.wait_until(|| std::net::TcpStream::connect(address).is_ok())?;
        Ok(Server { process, address })
    }

    fn start(self) -> Result<Process> {
        let name = format!("server{}", self.port);
        Process::start(&name, self.command, &self.lab.folder)
    }
}

impl Server {
    /// Waits until a path responds with 200.
    pub(crate) fn ready(mut self, path: &str) -> Result<Self> {
        self.process.wait_until(|| get(self.address, path).is_ok())?;
        Ok(self)
    }

    /// Returns the CPU time that the server has used so far, in ns.
    pub(crate) fn cpu_ns(&self) -> Result<f64> {
        Ok(self.process.cpu_ns()? as f64)
    }

    /// Requests a JSON document.
    pub(crate) fn json(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(&get(self.address, path)?)?)
    }

    /// Closes the server's stdin, and returns the JSON document that it prints when it ends.
    pub(crate) fn last_words(self) -> Result<Value> {
        Ok(serde_json::from_str(&self.process.finish()?)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_flag_is_repeated() {
        assert_eq!(repeated("--policy", "psq c3"), "--policy psq --policy c3");
        assert_eq!(repeated("--policy", ""), "");
    }

    #[test]
    fn a_run_is_repeated_only_if_the_generator_fell_behind_and_nothing_failed() {
        let (behind, short) = (json!({"kind": "fell_behind"}), json!({"kind": "fell_short"}));
        assert!(!kept_up(&json!({"invalid_because": [behind]})));
        assert!(kept_up(&json!({"invalid_because": [behind, short]})));
        assert!(kept_up(&json!({"invalid_because": []})) && kept_up(&json!({})));
    }

    #[test]
    fn commands_and_files_name_the_folder_of_the_line() {
        let root = tempfile::tempdir().expect("a folder");
        let lab = Lab::new(root.path(), "none", "", false, Vars::new()).expect("a folder");
        let words = lab.sh(r#"echo "$0 $1 {folder}""#, "{folder} {other}").output().expect("words");
        let folder = lab.folder.display();
        assert_eq!(words.text, format!("{folder} {{other}} {folder}\n"));
        std::fs::create_dir_all(root.path().join("lab/accept/files")).expect("a folder");
        std::fs::write(lab.data("a.conf"), "{listen} {folder}").expect("a file");
        let server = lab.server("cat").expect("a port");
        let port = server.port;
        server.config("a.conf", &[("listen", &"on {port} in {folder}")]).expect("a copy");
        let text = std::fs::read_to_string(lab.folder.join("a.conf")).expect("a copy");
        assert_eq!(text, format!("on {port} in {folder} {folder}"));
    }
}
