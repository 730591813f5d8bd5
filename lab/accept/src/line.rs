//! The lines that define a capability. A line runs commands and judges claims about their output.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::install;
use crate::lab::{Lab, Vars};
use crate::verdict::{Finding, Verdict};

/// One of the lines that define a capability, a benchmark, or a part of a comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// The approximate duration in full and quick runs. 0 leaves the line out of runs of that kind.
    pub(crate) seconds: u32,
    pub(crate) quick_seconds: u32,
    /// Requirements, such as `program:valgrind`, `apt:nginx` or `cores:2`.
    pub(crate) needs: &'static [&'static str],
    /// Values that replace those of [`Lab::var`], but not those of the command line.
    pub(crate) set: &'static [(&'static str, &'static str)],
    pub(crate) judge: fn(&mut Lab<'_>) -> Result<()>,
}

impl Line {
    /// A line without a name, requirements or values. Every other member must be set.
    pub(crate) const NEW: Self = Self {
        number: 0,
        name: "",
        text: "",
        seconds: 0,
        quick_seconds: 0,
        needs: &[],
        set: &[],
        judge: |_| anyhow::bail!("the line judges nothing"),
    };
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
    /// Set a variable of the line, such as rounds=3
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

/// Parses a variable set on the command line, as `name=value`.
fn pair(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').context("--set takes NAME=VALUE")?;
    ensure!(!name.is_empty(), "--set takes NAME=VALUE");
    Ok((name.to_owned(), value.to_owned()))
}

/// Judges lines. Returns false if the claims of any line do not hold. `only` selects lines by
/// number or name; empty means all. `file` names the folder of the lines' files.
pub(crate) fn run(
    root: &Path,
    file: &str,
    lines: &[Line],
    only: &[String],
    options: &Options,
) -> Result<bool> {
    let lines = chosen(lines, only)?;
    if options.list {
        print!("{}", list(&lines));
        return Ok(true);
    }
    let mut findings = Vec::new();
    let mut report = String::new();
    for line in lines.iter().filter(|line| options.quick || line.seconds > 0) {
        eprintln!("== {} {}", line.number, line.name);
        let start = Instant::now();
        let found = judge(root, file, line, options);
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

/// Judges a line. If it cannot be judged, its claim is broken, after the findings so far.
fn judge(root: &Path, file: &str, line: &Line, options: &Options) -> Vec<Finding> {
    let whole = |figure: String, verdict| Finding { claim: line.text.to_owned(), figure, verdict };
    if options.quick && line.quick_seconds == 0 {
        return vec![whole("not in a quick run".to_owned(), Verdict::Skipped)];
    }
    if let Some(why) = install::lacking(root, line.needs) {
        return vec![whole(why, Verdict::Skipped)];
    }
    let of_line = line.set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let set: Vars = of_line.chain(options.set.iter().cloned()).collect();
    let folder = format!("{file}-{}{}", line.number, line.name);
    let judged = Lab::new(root, &folder, line.text, options.quick, set).map(|mut lab| {
        let judged = (line.judge)(&mut lab);
        (lab.findings, judged)
    });
    let (mut findings, judged) = match judged {
        Ok(judged) => judged,
        Err(error) => (Vec::new(), Err(error)),
    };
    match judged {
        Ok(()) if findings.is_empty() => {
            findings.push(whole("it judges nothing".to_owned(), Verdict::Broken));
        }
        Ok(()) => {}
        Err(error) if error.is::<install::Missing>() => {
            findings.push(whole(format!("{error:#}"), Verdict::Skipped));
        }
        Err(error) => findings.push(whole(format!("{error:#}"), Verdict::Broken)),
    }
    findings
}

fn chosen(lines: &[Line], only: &[String]) -> Result<Vec<Line>> {
    let is = |line: &Line, of: &String| *of == line.number.to_string() || *of == line.name;
    for of in only {
        let known: Vec<String> = lines
            .iter()
            .map(|line| match line.name {
                "" => line.number.to_string(),
                name => name.to_owned(),
            })
            .collect();
        let there = lines.iter().any(|line| is(line, of));
        ensure!(there, "{of}: no such line; use one of {}", known.join(", "));
    }
    let wanted = |line: &&Line| only.is_empty() || only.iter().any(|of| is(line, of));
    Ok(lines.iter().filter(wanted).copied().collect())
}

/// Formats the lines with their durations.
fn list(lines: &[Line]) -> String {
    let mut text = String::new();
    for Line { number, name, text: claim, seconds, quick_seconds, .. } in lines {
        let quick = match quick_seconds {
            0 => "   —  ".to_owned(),
            quick => format!("{quick:>4} s"),
        };
        text += &format!("{number:>2} {name:<15} {seconds:>4} s, quick {quick}  {claim}\n");
    }
    let [whole, quick] = plan(lines).map(|seconds| f64::from(seconds) / 60.0);
    text + &format!("{whole:.1} minutes in all, quick {quick:.1}\n")
}

/// Returns the seconds that all lines take, in a full and in a quick run.
pub(crate) fn plan(lines: &[Line]) -> [u32; 2] {
    [lines.iter().map(|line| line.seconds).sum(), lines.iter().map(|line| line.quick_seconds).sum()]
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
    use crate::verdict::most;

    const HONEST: Line = Line { number: 1, name: "honest", judge: honest, ..Line::NEW };

    fn honest(lab: &mut Lab<'_>) -> Result<()> {
        lab.check("kept", 1.0, most(lab.number("bound", 2.0, 3.0)?));
        anyhow::bail!("then it fails")
    }

    #[test]
    fn verdicts_are_counted() {
        let verdicts = [Verdict::Holds, Verdict::Skipped, Verdict::Explained, Verdict::Broken];
        assert_eq!(tally(&verdicts), "2 hold, 1 BROKEN, 1 SKIPPED");
        assert_eq!(tally(&[]), "0 hold, 0 BROKEN, 0 SKIPPED");
        let verdicts = [Verdict::Contradicts, Verdict::Holds];
        assert_eq!(tally(&verdicts), "1 hold, 1 CONTRADICT the source, 0 BROKEN, 0 SKIPPED");
    }

    #[test]
    fn a_line_that_fails_or_judges_nothing_is_broken() {
        let folder = tempfile::tempdir().expect("a folder");
        let verdicts = |line: &Line, options: &Options| -> Vec<(String, Verdict)> {
            let found = judge(folder.path(), "none", line, options);
            found.into_iter().map(|found| (found.figure, found.verdict)).collect()
        };
        let text = |text: &str| text.to_owned();
        let broken = (text("then it fails"), Verdict::Broken);
        let all = Options::default();
        assert_eq!(
            verdicts(&HONEST, &all),
            [(text("1 (at most 2)"), Verdict::Holds), broken.clone()]
        );
        let set = Options { set: vec![(text("bound"), text("0.5"))], ..Options::default() };
        assert_eq!(verdicts(&HONEST, &set)[0].1, Verdict::Broken);
        let of_line = Line { set: &[("bound", "0.5")], ..HONEST };
        assert_eq!(verdicts(&of_line, &all)[0].1, Verdict::Broken);
        let preset = |lab: &mut Lab<'_>| {
            lab.preset("bound", "0.5".to_owned());
            honest(lab)
        };
        let preset = Line { judge: preset, ..HONEST };
        assert_eq!(verdicts(&preset, &all)[0].1, Verdict::Broken);
        let set = Options { set: vec![(text("bound"), text("2"))], ..Options::default() };
        assert_eq!(verdicts(&preset, &set)[0].1, Verdict::Holds);
        let nothing = Line { judge: |_| Ok(()), ..HONEST };
        assert_eq!(verdicts(&nothing, &all), [(text("it judges nothing"), Verdict::Broken)]);
        let quick = Options { quick: true, ..Options::default() };
        assert_eq!(verdicts(&HONEST, &quick)[0].1, Verdict::Skipped);
        let lacking = Line { needs: &["program:no-such-program"], ..HONEST };
        assert_eq!(verdicts(&lacking, &all)[0].1, Verdict::Skipped);
    }

    #[test]
    fn lines_are_chosen_by_number_or_name() {
        let lines = [HONEST, Line { number: 2, name: "", ..HONEST }];
        let of = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            chosen(&lines, &only).map(|lines| lines.len())
        };
        assert_eq!(
            (of(&["honest"]).unwrap(), of(&["1", "2"]).unwrap(), of(&[]).unwrap()),
            (1, 2, 2)
        );
        let error = of(&["paper-9"]).expect_err("none").to_string();
        assert!(error.contains("use one of honest, 2"), "{error}");
    }
}
