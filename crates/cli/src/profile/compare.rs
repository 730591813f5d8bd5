//! `curtail profile --compare A B`: compares two profiles, before and after turning a knob.

use std::path::Path;
use std::process::ExitCode;

use curtail_probe::compare::{Change, Comparison, Verdict, Warning, compare};
use curtail_report::number::{and, count, or_none, three, three_or_none, whole_percent};
use curtail_report::table::{Cell, Table, Tone};
use serde::Serialize;

use super::Args;
use super::files::profile;
use super::table::Unit;
use crate::exit::{Stop, Typed, bad};
use crate::say;

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    a: Side,
    b: Side,
    #[serde(flatten)]
    compared: &'a Comparison,
    /// Verdict on the p99 of the total.
    verdict: Typed<Kind>,
    warnings: &'a [Typed<Warning>],
}

#[derive(Serialize)]
struct Side {
    profile: String,
    target: String,
    requests: u64,
    windows: usize,
}

#[derive(Serialize)]
struct Kind {
    kind: Verdict,
}

pub(super) fn run(a: &Path, b: &Path, args: &Args) -> Result<ExitCode, Stop> {
    let profiles = [profile(a)?, profile(b)?];
    let compared = compare(&profiles[0], &profiles[1], args.seed.seed).ok_or_else(|| {
        let (a, b, stages) =
            (a.display(), b.display(), profiles.each_ref().map(|of| of.stages.join(", ")));
        bad!(
            "{a} and {b} have no stage in common, so they cannot be compared: {a} has {}; {b} has \
             {}",
            stages[0],
            stages[1]
        )
    })?;
    let of_warning = |warning: &Warning| Typed::new(*warning, warning_text(warning));
    let warnings: Vec<_> = compared.warnings.iter().map(of_warning).collect();
    let kind = compared.total.p99_ns.verdict;
    let headline = headline(&compared);
    let [side_a, side_b] = [(a, &profiles[0]), (b, &profiles[1])].map(|(path, of)| Side {
        profile: path.display().to_string(),
        target: of.target.clone(),
        requests: of.requests(),
        windows: of.windows.len(),
    });
    if args.output.json {
        let verdict = Typed::new(Kind { kind }, headline);
        let (compared, warnings) = (&compared, &warnings[..]);
        let document = Document { a: side_a, b: side_b, compared, verdict, warnings };
        say::result(say::json(&document)?)?;
    } else {
        warnings.iter().for_each(|of| say::aside(format_args!("warning: {}", of.text)));
        let color = say::colored(&std::io::stdout());
        let sides = [('A', side_a), ('B', side_b)].map(|(name, of)| {
            let (requests, profile) = (count(of.requests), say::plain(&of.profile));
            format!("{name}: {profile}, {requests} requests to {}\n", of.target)
        });
        let table = table(&compared).text(color);
        let good = [(Verdict::Better, true), (Verdict::Worse, false)];
        let good = good.into_iter().find(|of| of.0 == kind).map(|of| of.1);
        let verdict = say::verdict(&headline, good);
        say::result(format_args!("{}\n{table}\n{}{verdict}", sides.concat(), notes(&compared)))?;
    }
    Ok(ExitCode::from(u8::from(kind == Verdict::Worse)))
}

fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifference => "no difference beyond chance",
        Verdict::Unknown => "too few windows to decide",
    }
}

fn headline(compared: &Comparison) -> String {
    let Change { a, b, ratio, ratio_ci95, verdict } = compared.total.p99_ns;
    let unit = Unit::of(compared.total.mean_ns.a);
    let interval = ratio_ci95.map_or(String::new(), |ends| format!(" ({})", interval(ends)));
    format!(
        "p99 of the total: {} in A, {} in B, {} times as long{interval}: {}.",
        unit.with(a),
        unit.with(b),
        three(ratio),
        words(verdict)
    )
}

fn interval(ends: [f64; 2]) -> String {
    ends.map(three).join(" to ")
}

/// Renders the total, then the stages.
fn table(compared: &Comparison) -> Table {
    let mut table = Table::new(["", "A", "B", "B over A", "95 % interval", "B is"]);
    for of in [&compared.total].into_iter().chain(&compared.stages) {
        let unit = Unit::of(of.mean_ns.a);
        table.group(&of.name);
        let figures =
            [("mean", of.mean_ns), ("sd", of.sd_ns), ("p50", of.p50_ns), ("p99", of.p99_ns)];
        for (name, change) in figures {
            let tone = match change.verdict {
                Verdict::Better => Tone::Best,
                Verdict::Worse => Tone::Heading,
                _ => Tone::Faint,
            };
            table.row([
                format!("{name}, {}", unit.name).into(),
                unit.bare(change.a).into(),
                unit.bare(change.b).into(),
                three_or_none(Some(change.ratio)).into(),
                or_none(change.ratio_ci95, interval).into(),
                Cell::new(words(change.verdict), tone),
            ]);
        }
    }
    table
}

/// Notes on stages that only one profile has, and on the error rate of the intervals.
fn notes(compared: &Comparison) -> String {
    let only = |name: &str, stages: &[String]| match stages {
        [] => String::new(),
        _ => format!("only {name} has {}\n", and(stages.iter().cloned())),
    };
    let intervals = 4 * (compared.stages.len() + 1);
    only("A", &compared.only_a)
        + &only("B", &compared.only_b)
        + &format!("on average, 1 in 20 of these {intervals} intervals misses the true value\n\n")
}

fn warning_text(warning: &Warning) -> String {
    match *warning {
        Warning::Same => "A and B are the same profile".to_owned(),
        Warning::FewRequests { profile, requests } => format!(
            "{profile} has {} requests, too few for a reliable p99: profile for longer",
            count(requests)
        ),
        Warning::SamplingDiffers { a, b } => {
            let of = |k: Option<u32>| k.map_or("no stamps".to_owned(), |k| format!("1/{k}"));
            format!(
                "sampling differs (A: {}, B: {}), so the cost of measuring differs: use the same \
                 sampling for both",
                of(a),
                of(b)
            )
        }
        Warning::RatesDiffer { a, b } => format!(
            "the loads differ by {} (A: {}/s, B: {}/s), which may explain the difference: offer \
             the same rate",
            whole_percent((a - b).abs() / a.max(b)),
            three(a),
            three(b)
        ),
    }
}
