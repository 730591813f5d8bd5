//! Runs the commands of a line and collects their output in one document.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

use super::data::{Again, Line, Read, Run, Server, Step, Vars, fill, joined};
use super::pointer::figures;
use super::{check, install, steps};
use crate::cargo;
use crate::ci::Outcome;
use crate::process::{Process, free_port, get, tied};

/// The environment in which a line runs.
pub(super) struct Environment<'a> {
    pub(super) root: &'a Path,
    /// The folder for files of the line.
    pub(super) folder: PathBuf,
    /// The clone of the repository, if the line requires one.
    clone: Option<PathBuf>,
    pub(super) quick: bool,
}

/// Processes that run alongside a command.
struct Servers {
    processes: Vec<Process>,
    addresses: Vec<SocketAddr>,
}

/// Runs a line and returns its document.
pub(super) fn line(
    root: &Path,
    file: &str,
    line: &Line,
    vars: &Vars,
    quick: bool,
) -> Result<Value> {
    let target = cargo::target_folder(root)?;
    let folder = target.join("accept").join(format!("{file}-{}{}", line.number, line.name));
    std::fs::create_dir_all(&folder)?;
    let clone = line.clone.then(|| target.join("accept/clone"));
    let environment = Environment { root, folder, clone, quick };
    if let Some(clone) = &environment.clone {
        self::clone(root, clone)?;
    }
    let document = environment.rounds(line, vars);
    if let Some(clone) = &environment.clone {
        std::fs::remove_dir_all(clone)?;
    }
    let mut document = document?;
    if let Some(step) = &line.step {
        steps::of_document(step)?(&environment, &mut document)?;
    }
    std::fs::write(
        environment.folder.join("document.json"),
        serde_json::to_vec_pretty(&document)?,
    )?;
    Ok(document)
}

/// Runs a step of continuous integration.
pub(crate) fn step(root: &Path, step: &Step, vars: &Vars) -> Result<Outcome> {
    if let Some(why) = install::lacking(root, &step.needs) {
        return Ok(Outcome::Skipped(why));
    }
    let folder = cargo::target_folder(root)?;
    let target = Vars::from([("target".to_owned(), folder.display().to_string())]);
    let environment = Environment { root, folder, clone: None, quick: false };
    let vars = joined(vars, &target);
    for words in &step.run {
        let mut command = environment.command(words, &vars, false)?;
        command.envs(step.env.iter().map(|(name, value)| (name, fill(value, &vars))));
        if !cargo::succeeds(&mut command)? {
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Passed)
}

/// Makes a fresh clone of the committed tree, without build results.
fn clone(root: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    let git = |args: &[&str]| cargo::output(Command::new("git").args(args).current_dir(root));
    if !git(&["status", "--porcelain"])?.is_empty() {
        eprintln!("note: only committed files are judged, and some changes are not committed");
    }
    let to = to.to_str().context("the target folder's name is not UTF-8")?;
    git(&["clone", "--quiet", "--no-hardlinks", ".", to]).map(drop)
}

impl Environment<'_> {
    fn rounds(&self, line: &Line, vars: &Vars) -> Result<Value> {
        let vars = joined(vars, &self.places());
        self.copy(&line.files, &vars)?;
        let servers = self.servers(&line.server, &vars, Vec::new())?;
        let vars = servers.vars(&vars);
        let rounds = line.rounds.as_ref().map(|text| fill(text, &vars).parse::<usize>());
        let Some(wanted) = rounds.transpose()? else {
            self.prepare(&line.prepare, &vars)?;
            let mut document = Map::new();
            for run in &line.run {
                let part = self.run(run, &vars, &servers.addresses)?;
                if run.name.is_empty() {
                    return Ok(part);
                }
                document.insert(run.name.clone(), part);
            }
            return Ok(document.into());
        };
        let mut document = Map::new();
        let (mut counting, mut again) = (0, 0);
        while counting < wanted {
            eprintln!("-- round {} of {wanted}", counting + 1);
            let round = Vars::from([("round".to_owned(), (counting + again).to_string())]);
            let vars = joined(&vars, &round);
            self.prepare(&line.prepare, &vars)?;
            let mut parts = Map::new();
            let first = counting % line.run.len();
            for run in line.run[first..].iter().chain(&line.run[..first]) {
                let part = self.run(run, &vars, &servers.addresses)?;
                parts.insert(run.name.clone(), part);
            }
            let rows = || parts.values().flat_map(rows);
            if again < wanted && rows().any(lagged) && !rows().any(failed) {
                eprintln!("note: the load generator fell behind; the round is run again");
                again += 1;
                continue;
            }
            counting += 1;
            for (name, part) in parts {
                let all = document.entry(name).or_insert_with(|| json!([]));
                let all = all.as_array_mut().context("a list")?;
                match part {
                    Value::Array(parts) => all.extend(parts),
                    part => all.push(part),
                }
            }
        }
        Ok(document.into())
    }

    /// Returns the folder in which commands run.
    fn home(&self) -> &Path {
        self.clone.as_deref().unwrap_or(self.root)
    }

    fn places(&self) -> Vars {
        let data = self.root.join("xtask/capabilities/files");
        let places = [("root", self.root), ("folder", &self.folder), ("data", &data)];
        let mut vars =
            Vars::from(places.map(|(name, path)| (name.to_owned(), path.display().to_string())));
        vars.insert("blank".to_owned(), " ".to_owned());
        vars
    }

    fn copy(&self, files: &[String], vars: &Vars) -> Result<()> {
        for name in files {
            let from = self.root.join("xtask/capabilities/files").join(name);
            let text =
                std::fs::read_to_string(&from).with_context(|| from.display().to_string())?;
            std::fs::write(self.folder.join(name), fill(&text, vars))?;
        }
        Ok(())
    }

    fn prepare(&self, commands: &[Vec<String>], vars: &Vars) -> Result<()> {
        for words in commands {
            cargo::output(&mut self.command(words, vars, false)?)?;
        }
        Ok(())
    }

    /// Builds a command from words. `@NAME` is a program that is built or installed if necessary.
    fn command(&self, words: &[String], vars: &Vars, is_server: bool) -> Result<Command> {
        let folder = self.home();
        let resolved = split(words, vars).into_iter().map(|word| match word.strip_prefix('@') {
            Some(name) => Ok(install::program(self.root, name)?.display().to_string()),
            None => Ok(fill(&word, vars)),
        });
        let words = resolved.collect::<Result<Vec<String>>>()?;
        let (program, arguments) = words.split_first().context("a command has words")?;
        let mut command = match (&**program, is_server) {
            ("cargo", _) => cargo::command(folder, &[]),
            (_, true) => tied(program),
            // A program with a slash in its name is looked up in the folder, and all others are
            // looked up in the path.
            _ if program.contains('/') => Command::new(folder.join(program)),
            _ => Command::new(program),
        };
        command.args(arguments).current_dir(folder);
        if self.clone.is_some() {
            // Variables that the outer cargo sets for this program must not affect the inner cargo.
            cargo::forget(&mut command, |name| {
                name != "CARGO_HOME" && (name.starts_with("CARGO") || name.starts_with("CURTAIL_"))
            });
        }
        Ok(command)
    }

    /// Starts processes. Each server may refer to the addresses of the servers before it.
    fn servers(&self, of: &[Server], vars: &Vars, before: Vec<SocketAddr>) -> Result<Servers> {
        let mut servers = Servers { processes: Vec::new(), addresses: before };
        for server in of {
            let mut vars = servers.vars(vars);
            vars.insert("port".to_owned(), free_port()?.to_string());
            self.copy(&server.files, &vars)?;
            let mut command = self.command(&server.command, &vars, true)?;
            command.envs(&server.env);
            let name = format!("server{}", servers.addresses.len());
            let mut process = Process::start(&name, command, &self.folder)?;
            let address = match &server.listen {
                Some(listen) => {
                    let address = fill(listen, &vars).parse()?;
                    process.wait_until(|| std::net::TcpStream::connect(address).is_ok())?;
                    address
                }
                None => process.announced()?[0],
            };
            if let Some(path) = &server.ready {
                process.wait_until(|| get(address, path).is_ok())?;
            }
            servers.processes.push(process);
            servers.addresses.push(address);
        }
        Ok(servers)
    }

    /// Runs a command once, or once for each row.
    fn run(&self, run: &Run, vars: &Vars, beside: &[SocketAddr]) -> Result<Value> {
        let Some(each) = &run.each else { return self.once(run, vars, &Vars::new(), beside) };
        let once = |row: &Vars| {
            let vars = joined(vars, row);
            let part = self.once(run, &vars, row, beside)?;
            match &run.again {
                Some(again) if !again.holds(&part)? => {
                    self.once(run, &joined(&vars, &again.set), row, beside)
                }
                _ => Ok(part),
            }
        };
        each.vars(vars, self.quick)?.iter().map(once).collect()
    }

    fn once(&self, run: &Run, vars: &Vars, row: &Vars, beside: &[SocketAddr]) -> Result<Value> {
        let needs: Vec<String> = run.needs.iter().map(|need| fill(need, vars)).collect();
        if let Some(why) = install::lacking(self.root, &needs) {
            return Ok(json!({ "skipped": why }));
        }
        let mut servers = match self.servers(&run.server, vars, beside.to_vec()) {
            Err(error) if run.may_fail => {
                eprintln!("note: {}: {error:#}", run.name);
                return Ok(json!({ "failed": format!("{error:#}") }));
            }
            servers => servers?,
        };
        let vars = servers.vars(vars);
        let mut command = self.command(&run.command, &vars, false)?;
        command.envs(run.env.iter().map(|(name, value)| (name, fill(value, &vars))));
        let words: Vec<&str> = run.command.iter().map(String::as_str).collect();
        eprintln!("$ {}", fill(&words.join(" "), &vars));
        let cpu = |servers: &Servers| -> Result<Vec<u64>> {
            servers.processes.iter().map(Process::cpu_ns).collect()
        };
        let before = cpu(&servers)?;
        let start = Instant::now();
        let mut printed = String::new();
        let shown = !matches!(run.read, Read::Json) && run.server.is_empty();
        let mut shown: Box<dyn Write> =
            if shown { Box::new(std::io::stderr()) } else { Box::new(std::io::sink()) };
        let status = cargo::follow(&mut command, &mut shown, |line| printed.push_str(line))?;
        let status = status.code().context("a signal ended it")?;
        let seconds = start.elapsed().as_secs_f64();
        let after = cpu(&servers)?;
        let peaks = servers.processes.iter().map(Process::peak_bytes);
        let peaks = peaks.collect::<Result<Vec<_>>>()?;
        let mut part = Map::from_iter(row.iter().map(|(name, value)| {
            (name.clone(), value.parse::<f64>().map_or(json!(value), |number| json!(number)))
        }));
        let spent = after.iter().zip(before).map(|(after, before)| after.saturating_sub(before));
        part.extend([
            ("seconds".to_owned(), json!(seconds)),
            ("ok".to_owned(), json!(status == 0)),
            ("cpu_ns".to_owned(), spent.collect()),
            ("peak_bytes".to_owned(), json!(peaks)),
        ]);
        match (&*run.command[0], status) {
            ("@xtask" | "@measuring", 3) => {
                part.insert("skipped".into(), "something is missing: see above".into());
            }
            (_, 0) => {}
            (_, 1) if matches!(run.read, Read::Json) => {}
            _ if run.may_fail => {}
            _ => bail!("{command:?} ended with {status}"),
        }
        self.read(run, &vars, &printed, &mut part)?;
        if let Some(path) = &run.then_get {
            let address = *servers.addresses.last().context("no server")?;
            part.insert("stats".into(), serde_json::from_str(&get(address, &fill(path, &vars))?)?);
        }
        if let Some(last) = servers.processes.pop() {
            // The servers of this repository may print a document when they end.
            let is_ours = run.server.last().is_some_and(|server| server.listen.is_none());
            let text = if is_ours { last.finish()? } else { String::new() };
            part.extend(serde_json::from_str(&text).ok().map(|own: Value| ("said".into(), own)));
        }
        let mut part = Value::Object(part);
        if let Some(step) = &run.step {
            steps::of_document(step)?(self, &mut part)?;
        }
        Ok(part)
    }

    fn read(
        &self,
        run: &Run,
        vars: &Vars,
        printed: &str,
        part: &mut Map<String, Value>,
    ) -> Result<()> {
        let text = match &run.document {
            None => printed.to_owned(),
            Some(file) => {
                let file = self.home().join(fill(file, vars));
                std::fs::read_to_string(&file).with_context(|| file.display().to_string())?
            }
        };
        let no_json = || format!("{} prints no JSON: {text}", run.command[0]);
        let (name, value) = match &run.read {
            Read::Lines(marker) => ("lines", lines(&text, marker)),
            Read::Fields => ("fields", fields(&text)),
            Read::Json if part.contains_key("skipped") => return Ok(()),
            Read::Json => {
                let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
                let mut values = values.collect::<Result<Vec<_>, _>>().with_context(no_json)?;
                // The points of a sweep are printed one per line, in the order in which they
                // completed.
                values.sort_by_key(|value| value["point"].as_u64());
                let is_sweep = values.first().with_context(no_json)?["point"].is_u64();
                ("json", if is_sweep { values.into() } else { values.swap_remove(0) })
            }
        };
        part.insert(name.to_owned(), value);
        Ok(())
    }
}

impl Again {
    /// Whether a run is good and need not be repeated. An unknown figure is no reason to repeat the
    /// run.
    fn holds(&self, part: &Value) -> Result<bool> {
        // A list with one element, so that a check can select it by its values.
        let alone = json!([part]);
        for check in &self.check {
            let at = check["at"].as_str().unwrap_or_default();
            let known = figures(&alone, at).iter().any(Option::is_some);
            let verdict = check::judge(check, "again", &alone, |_| None)?.verdict;
            if known && verdict == check::Verdict::Broken {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Servers {
    /// Adds `{server0}`, `{server1}`, … and `{port0}`, `{port1}`, …, and `{address}` for the last
    /// server.
    fn vars(&self, vars: &Vars) -> Vars {
        let mut all = vars.clone();
        for (at, address) in self.addresses.iter().enumerate() {
            all.insert(format!("server{at}"), address.to_string());
            all.insert(format!("port{at}"), address.port().to_string());
        }
        all.extend(self.addresses.last().map(|last| ("address".to_owned(), last.to_string())));
        all
    }
}

/// Expands `{name*}` into the words of the variable.
fn split(words: &[String], vars: &Vars) -> Vec<String> {
    let several = |word: &String| {
        let name = word.strip_prefix('{')?.strip_suffix("*}")?;
        let words = vars.get(name)?.split_whitespace();
        Some(words.map(str::to_owned).collect::<Vec<_>>())
    };
    words.iter().flat_map(|word| several(word).unwrap_or_else(|| vec![word.clone()])).collect()
}

/// Whether the run is invalid only because the load generator fell behind.
fn lagged(part: &Value) -> bool {
    let reasons = part["json"]["invalid_because"].as_array().map_or(&[][..], Vec::as_slice);
    !reasons.is_empty() && reasons.iter().all(|reason| reason["kind"] == "fell_behind")
}

fn failed(part: &Value) -> bool {
    part["json"]["valid"] == false && !lagged(part)
}

/// Returns the parts of a run: a single part, or one part for each row.
fn rows(part: &Value) -> &[Value] {
    part.as_array().map_or(std::slice::from_ref(part), Vec::as_slice)
}

/// Returns the lines that contain a marker: the text before and after it, and the numbers after it.
fn lines(text: &str, marker: &str) -> Value {
    let found = text.lines().filter_map(|line| {
        let (before, rest) = line.split_once(marker)?;
        let words = rest.split(|c: char| !(c.is_ascii_digit() || c == '.'));
        let numbers: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
        Some(json!({
            "before": before.trim(), "text": rest.trim(),
            "last": numbers.last(), "numbers": numbers,
        }))
    });
    found.collect()
}

/// Returns the words of the form `name=value` as an object.
fn fields(text: &str) -> Value {
    let pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
    pairs
        .map(|(name, value)| {
            (name.to_owned(), value.parse::<f64>().map_or(json!(value), |number| json!(number)))
        })
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_lines_and_fields_become_documents() {
        let text = "test a ... figure: kill -9, psq: 0 of 600 failed, used again after 301 ms\nx\n";
        let lines = lines(text, "figure: ");
        assert_eq!(lines[0]["last"], 301.0);
        assert_eq!(lines[0]["text"], "kill -9, psq: 0 of 600 failed, used again after 301 ms");
        assert_eq!(lines.as_array().map(Vec::len), Some(1));
        let fields = fields("policy=psq per_second=1200 peak_kb=7\n");
        assert_eq!(fields, json!({"policy": "psq", "per_second": 1200.0, "peak_kb": 7.0}));
    }

    #[test]
    fn a_run_is_repeated_if_it_fails_but_not_if_its_figure_is_unknown() {
        let text = r#"check = [{ at = "/0/a over /0/b", most = 2, when = "/kind=x" }]"#;
        let again: Again = toml::from_str(text).expect("what is repeated");
        let holds = |kind: &str, a: Option<i32>| {
            again.holds(&json!({"kind": kind, "a": a, "b": 1})).expect("a check")
        };
        assert!(holds("x", Some(2)) && !holds("x", Some(3)) && holds("y", Some(3)));
        assert!(holds("x", None));
    }

    #[test]
    fn a_round_is_repeated_only_if_the_generator_fell_behind_and_nothing_failed() {
        let part = |reasons: Value| json!({"json": {"valid": false, "invalid_because": reasons}});
        let (behind, short) = (json!({"kind": "fell_behind"}), json!({"kind": "fell_short"}));
        assert!(lagged(&part(json!([behind]))) && !failed(&part(json!([behind]))));
        assert!(failed(&part(json!([behind, short]))) && !lagged(&part(json!([behind, short]))));
        assert!(!failed(&json!({"json": {"valid": true}})) && !lagged(&json!({})));
    }

    #[test]
    fn a_variable_may_expand_to_several_words() {
        let vars = Vars::from([("flags".into(), "--data get{blank}key".into())]);
        let words = ["load", "{flags*}", "{other*}"].map(str::to_owned);
        assert_eq!(split(&words, &vars), ["load", "--data", "get{blank}key", "{other*}"]);
    }
}
