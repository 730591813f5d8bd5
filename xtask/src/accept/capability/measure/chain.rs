//! Line 6: the commands of the page about the chain, in full: what was predicted is what is measured.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::tools::{json, number};
use crate::accept::finding::Finding;
use crate::cargo::{self, Profile};
use crate::page;

pub(in super::super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let curtail = cargo::curtail(root, Profile::Release)?;
    let programs = curtail.parent().context("a program is in a folder")?;
    let folder = cargo::target_folder(root)?.join("accept-chain");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let text = std::fs::read_to_string(root.join("docs/chain.md"))?;
    let commands = page::commands(&text, &[]);
    let all = page::run(&commands, &folder, programs)?;
    for ran in &all {
        eprintln!("$ {}\n{}", ran.command, ran.printed);
        let measured = ran.command.starts_with("curtail load");
        let done = ran.code == Some(0) || measured && ran.code == Some(1);
        ensure!(done, "{} ended with {:?}: {}", ran.command, ran.code, ran.said);
    }
    // The same question once more has the same answer.
    let asked = commands.iter().find(|command| command.starts_with("curtail advise"));
    let asked = asked.context("the page asks for no advice")?;
    let asked = asked.split(" --write-config").next().unwrap_or_default();
    let shell = format!("{asked} --json").replacen("curtail", &curtail.display().to_string(), 1);
    let output = Command::new("sh").arg("-c").arg(shell).current_dir(&folder).output()?;
    let predicted: Value = serde_json::from_slice(&output.stdout).context("advise says no JSON")?;
    let runs = ["before", "after"].map(|run| folder.join(run).display().to_string());
    let measured = json(&curtail, &["report", &runs[0], &runs[1], "--json"])?;
    Ok(judged(&predicted, &measured["runs"]))
}

fn judged(predicted: &Value, runs: &Value) -> Vec<Finding> {
    let pair = |of: &Value| [0, 1].map(|at| of[at].as_f64().unwrap_or(f64::NAN));
    let (gain, [low, high]) =
        (number(predicted, &["gain", "p99"]), pair(&predicted["gain_ci95"]["p99"]));
    let after = &runs[1];
    // The least ratio is the largest gain.
    let [ours_high, ours_low] = pair(&after["ratio_ci95"]["p99"]).map(|ratio| 1.0 - ratio);
    let ours = 1.0 - number(after, &["ratio_to_first", "p99"]);
    let apart = ours - gain;
    // Of the two sides that face each other.
    let sure = if apart < 0.0 {
        (gain - low).hypot(ours_high - ours)
    } else {
        (high - gain).hypot(ours - ours_low)
    };
    let percent = |share: f64| share * 100.0;
    let ms = |at: usize| number(&runs[at], &["latency_ns", "p99"]) / 1e6;
    let figure = format!(
        "{} predicted {:.1} % ({:.1} to {:.1} %), measured {:.1} % ({:.1} to {:.1} %): p99 {:.2} to {:.2} ms; \
         {:+.1} apart, ±{:.1} is chance",
        predicted["policy"].as_str().unwrap_or("?"),
        percent(gain),
        percent(low),
        percent(high),
        percent(ours),
        percent(ours_low),
        percent(ours_high),
        ms(0),
        ms(1),
        percent(apart),
        percent(sure)
    );
    let valid = (0..2).all(|at| runs[at]["valid"] == true);
    vec![
        Finding::new(
            "both loads are valid",
            if valid { "they are" } else { "they are not" },
            valid,
        ),
        Finding::new("the measured gain at p99 is the predicted one", figure, apart.abs() <= sure),
    ]
}
