//! Runs and judges the lines of the capability files in `xtask/capabilities`. A line lists commands
//! to run and claims that must hold.
//!
//! `cargo xtask accept NAME` judges every line that defines a capability. Benchmarks and the
//! comparisons with the papers are lines of the same kind. A line is judged only by what it runs at
//! that moment; no earlier results are used. Lines take minutes, and some need an otherwise idle
//! machine.

mod check;
mod data;
mod install;
mod pointer;
mod run;
mod steps;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use serde_json::json;

use check::{Finding, Verdict};
use data::{File, Line, joined};

pub(crate) use data::{Step, Vars};
pub(crate) use install::{lacking, program};
pub(crate) use run::step;

/// The capabilities that can be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Capability {
    /// LÆDGE in front of a real sharded search service, in one command
    Main,
    /// The simulator, the models and the advisor
    Decide,
    /// Our own policy: second copies for stuck queries
    Rescue,
    /// The load generator and IQ-jitter
    Measure,
    /// Duplicates that cannot hurt
    Das,
    /// End-to-end flow control in graphs of services (002, chapter 5)
    Flow,
    /// The profiler that finds which stage of a request varies in its duration (004, part 2);
    /// requires root privileges
    Profile,
    /// HTTP/2, gRPC and TLS: conformance suites, costs and request smuggling
    Wire,
}

impl Capability {
    pub(crate) fn file(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Options for running lines.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Use smaller samples. The run then takes minutes, and verdicts are less certain
    #[arg(long, alias = "smoke")]
    pub(crate) quick: bool,
    /// Print the lines and their durations without running them
    #[arg(long)]
    list: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Set a variable of the file, such as rounds=3
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

/// Parses a variable set on the command line, as `name=value`.
pub(crate) fn pair(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').context("--set takes NAME=VALUE")?;
    ensure!(!name.is_empty(), "--set takes NAME=VALUE");
    Ok((name.to_owned(), value.to_owned()))
}

/// Judges the lines of a file. Returns false if the claims of any line do not hold. `only` selects
/// lines by number or name; empty means all.
pub(crate) fn run(root: &Path, file: &str, only: &[String], options: &Options) -> Result<bool> {
    let lines = chosen(read(root, file)?.line, only)?;
    if options.list {
        print!("{}", list(&lines));
        return Ok(true);
    }
    let mut findings = Vec::new();
    let mut report = String::new();
    for line in lines.iter().filter(|line| options.quick || line.seconds > 0) {
        eprintln!("== {} {}", line.number, line.name);
        let start = Instant::now();
        let found = judge(root, file, line, options).unwrap_or_else(|error| {
            let (claim, figure) = (line.text.clone(), format!("{error:#}"));
            vec![Finding { claim, figure, verdict: Verdict::Broken }]
        });
        let seconds = start.elapsed().as_secs_f64();
        let mut part = String::new();
        for finding in found {
            part += &format!("{}  {finding}\n", line.number);
            findings.push((line, finding, seconds));
        }
        let planned = if options.quick { line.quick_seconds } else { line.seconds };
        part += &format!("{}  took        {seconds:.0} s of {planned} s planned\n", line.number);
        // Findings are printed immediately, so that they are not lost if a later line is
        // interrupted.
        eprint!("{part}");
        report += &part;
    }
    if options.json {
        let document = findings.iter().map(|(line, finding, seconds)| {
            json!({
                "line": line.number, "name": line.name, "seconds": seconds,
                "claim": finding.claim, "figure": finding.figure, "verdict": finding.verdict.name(),
            })
        });
        println!("{:#}", document.collect::<serde_json::Value>());
    } else {
        let verdicts: Vec<Verdict> = findings.iter().map(|(_, found, _)| found.verdict).collect();
        print!("\n{report}{}\n", tally(&verdicts));
    }
    Ok(findings.iter().all(|(_, finding, _)| finding.verdict != Verdict::Broken))
}

/// Reads a file of lines, and makes sure that each check can fail.
fn read(root: &Path, name: &str) -> Result<File> {
    let file = File::read(root, name)?;
    for line in &file.line {
        let again = line.run.iter().flat_map(|run| run.again.iter().flat_map(|again| &again.check));
        for check in line.check.iter().chain(again) {
            let all = check::expand(check, &line.vars)?;
            let refused = all.iter().try_for_each(check::refuse_zeros);
            refused
                .with_context(|| format!("{name}.toml, line {} {:?}", line.number, line.name))?;
        }
    }
    Ok(file)
}

/// Returns the steps of continuous integration, or only the steps with the given names, together
/// with their variables.
pub(crate) fn steps(root: &Path, only: &[&str]) -> Result<(Vec<Step>, Vars)> {
    let File { mut step, vars, .. } = File::read(root, "ci")?;
    step.retain(|step| only.is_empty() || only.contains(&&*step.name));
    Ok((step, vars))
}

fn chosen(lines: Vec<Line>, only: &[String]) -> Result<Vec<Line>> {
    let is = |line: &Line, of: &String| *of == line.number.to_string() || *of == line.name;
    for of in only {
        let known = lines.iter().map(|line| match &*line.name {
            "" => line.number.to_string(),
            name => name.to_owned(),
        });
        let known: Vec<String> = known.collect();
        let there = lines.iter().any(|line| is(line, of));
        ensure!(there, "{of}: no such line; use one of {}", known.join(", "));
    }
    let wanted = |line: &Line| only.is_empty() || only.iter().any(|of| is(line, of));
    Ok(lines.into_iter().filter(wanted).collect())
}

/// Formats the lines with their durations.
fn list(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let Line { number, name, text: claim, seconds, quick_seconds, .. } = line;
        let quick = match quick_seconds {
            0 => "   —  ".to_owned(),
            seconds => format!("{seconds:>4} s"),
        };
        text += &format!("{number:>2} {name:<14} {seconds:>5} s, quick {quick}  {claim}\n");
    }
    let [whole, quick] = plan(lines).map(|seconds| f64::from(seconds) / 60.0);
    text + &format!("{whole:.1} minutes in all, quick {quick:.1}\n")
}

/// Returns the seconds that all lines take, in a full and in a quick run.
fn plan(lines: &[Line]) -> [u32; 2] {
    [lines.iter().map(|line| line.seconds).sum(), lines.iter().map(|line| line.quick_seconds).sum()]
}

fn judge(root: &Path, file: &str, line: &Line, options: &Options) -> Result<Vec<Finding>> {
    let skipped = |figure: String| {
        Ok(vec![Finding { claim: line.text.clone(), figure, verdict: Verdict::Skipped }])
    };
    if options.quick && line.quick_seconds == 0 {
        return skipped("not in a quick run".to_owned());
    }
    if let Some(why) = install::lacking(root, &line.needs) {
        return skipped(why);
    }
    let vars = vars(line, options);
    let document = run::line(root, file, line, &vars, options.quick)?;
    if let Some(why) = document["skipped"].as_str() {
        return skipped(why.to_owned());
    }
    let mut findings = Vec::new();
    for check in &line.check {
        for check in check::expand(check, &vars)? {
            let lacking = |needs: &[String]| install::lacking(root, needs);
            findings.push(check::judge(&check, &line.text, &document, lacking)?);
        }
    }
    Ok(findings)
}

fn vars(line: &Line, options: &Options) -> Vars {
    let quick = if options.quick { &line.quick } else { &Vars::new() };
    joined(&joined(&line.vars, quick), &options.set.iter().cloned().collect())
}

/// Counts the verdicts. Skipped lines are not failures, but they were not judged, so they are also
/// counted.
fn tally(verdicts: &[Verdict]) -> String {
    let count = |verdict| verdicts.iter().filter(|other| **other == verdict).count();
    let good = count(Verdict::Holds) + count(Verdict::Explained);
    let [broken, skipped] = [Verdict::Broken, Verdict::Skipped].map(count);
    let contradict = match count(Verdict::Contradicts) {
        0 => String::new(),
        many => format!("{many} CONTRADICT the source, "),
    };
    format!("{good} hold, {contradict}{broken} BROKEN, {skipped} SKIPPED")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 12] = [
        "main",
        "decide",
        "rescue",
        "measure",
        "das",
        "flow",
        "profile",
        "papers",
        "bench",
        "worlds",
        "cassandra",
        "wire",
    ];

    #[test]
    fn skipped_lines_are_counted() {
        let verdicts = [Verdict::Holds, Verdict::Skipped, Verdict::Explained, Verdict::Broken];
        assert_eq!(tally(&verdicts), "2 hold, 1 BROKEN, 1 SKIPPED");
        assert_eq!(tally(&[]), "0 hold, 0 BROKEN, 0 SKIPPED");
        let verdicts = [Verdict::Contradicts, Verdict::Holds];
        assert_eq!(tally(&verdicts), "1 hold, 1 CONTRADICT the source, 0 BROKEN, 0 SKIPPED");
    }

    #[test]
    fn every_line_of_every_file_can_be_read_and_judged() {
        let root = crate::repository().expect("inside a repository");
        let nothing = serde_json::json!({});
        for name in FILES {
            let file = read(root, name).unwrap_or_else(|error| panic!("{error:#}"));
            for line in &file.line {
                assert!(!line.check.is_empty(), "{name} {}: it has no checks", line.number);
                if let Some(step) = &line.step {
                    steps::of_document(step).expect(name);
                }
                let vars = vars(line, &Options::default());
                for check in &line.check {
                    for check in check::expand(check, &vars).expect(name) {
                        let found = check::judge(&check, &line.text, &nothing, |_| None);
                        let verdict = found.unwrap_or_else(|e| panic!("{name}: {e:#}")).verdict;
                        let known = [Verdict::Broken, Verdict::Noted, Verdict::Skipped];
                        assert!(known.contains(&verdict), "{name}: {check} matches no figure");
                    }
                }
            }
        }
    }

    #[test]
    fn a_file_with_a_tolerance_that_includes_zero_is_rejected() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("xtask/capabilities");
        std::fs::create_dir_all(&folder).expect("a folder");
        let text = r#"
            [[line]]
            number = 3
            [[line.check]]
            text = "{what}"
            near = ["{published}", 6]
            each = { columns = ["what", "published"], rows = [["large", 7], ["small", 0.2]] }
        "#;
        std::fs::write(folder.join("loose.toml"), text).expect("a file");
        let error = run(root.path(), "loose", &[], &Options::default()).expect_err("it is refused");
        let error = format!("{error:#}");
        assert!(error.contains(r#"loose.toml, line 3 "": "small": near = [0.2, 6]"#), "{error}");
    }

    #[test]
    fn a_capability_takes_at_most_half_an_hour_and_quick_five_minutes() {
        let root = crate::repository().expect("inside a repository");
        for name in &FILES[..4] {
            let [whole, quick] = plan(&File::read(root, name).expect(name).line);
            assert!(whole <= 1_800 && quick <= 300, "{name}: {whole} s, {quick} s");
        }
    }

    #[test]
    fn lines_are_chosen_by_number_or_name() {
        let root = crate::repository().expect("inside a repository");
        let lines = || File::read(root, "papers").expect("a file").line;
        let of = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            chosen(lines(), &only).map(|lines| lines.len())
        };
        assert_eq!(of(&["paper-2a", "paper-4"]).expect("lines"), 2);
        assert_eq!(of(&[]).expect("all"), lines().len());
        let error = of(&["paper-9"]).expect_err("none").to_string();
        assert!(error.contains("use one of claims, crossings"), "{error}");
    }
}
