//! LÆDGE in front of a real sharded search service, in one command.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;
use xtask::cargo;

use crate::bench;
use crate::figures::{at, each, first_numbers, list, mean, numbers, over, texts};
use crate::lab::{Lab, documents};
use crate::line::Line;
use crate::verdict::{above, below, least, most, noted};

pub(crate) const LINES: &[Line] = &[
    LINE_1,
    DEMO_1,
    LINE_2,
    LINE_3,
    PROMISES_4,
    // The cost of a query in the kernel.
    Line { number: 4, seconds: 15, quick_seconds: 0, ..bench::BOUND_1 },
    Line { number: 4, seconds: 1, quick_seconds: 0, ..bench::GROWTH_2 },
    Line { number: 4, seconds: 1, quick_seconds: 0, ..bench::LEARNED_10 },
    // p99 compared with other proxies.
    Line { number: 5, seconds: 250, quick_seconds: 60, judge: peers, ..bench::PROXY_7 },
    LINE_6,
];

const LINE_1: Line = Line {
    number: 1,
    text: "the first command of the README, on a fresh clone",
    seconds: 590,
    judge: readme,
    ..Line::NEW
};

const DEMO_1: Line = Line {
    number: 1,
    name: "demo",
    text: "the quick demo runs",
    quick_seconds: 75,
    judge: quick_demo,
    ..Line::NEW
};

const LINE_2: Line = Line {
    number: 2,
    text: "killed leaves and black holes: no request fails (the tests assert it), and the leaf \
           is used again within a second",
    seconds: 100,
    quick_seconds: 60,
    judge: faults,
    ..Line::NEW
};

const LINE_3: Line = Line {
    number: 3,
    text: "soak: every request is answered, no slot leaks, memory is flat",
    seconds: 130,
    quick_seconds: 50,
    judge: soak,
    ..Line::NEW
};

const PROMISES_4: Line = Line {
    number: 4,
    name: "promises",
    text: "the contract holds over random events and in all states of small cells",
    seconds: 30,
    quick_seconds: 20,
    judge: promises,
    ..Line::NEW
};

const LINE_6: Line = Line {
    number: 6,
    text: "`.ci/run` is green from a clean clone in under 12 minutes",
    seconds: 680,
    judge: ci,
    ..Line::NEW
};

/// Lets a function use a fresh clone of the committed tree, without build results.
fn in_clone<T>(lab: &Lab<'_>, judge: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let clone = lab.folder.join("clone");
    if clone.exists() {
        std::fs::remove_dir_all(&clone)?;
    }
    let git = |args: &[&str]| cargo::output(Command::new("git").args(args).current_dir(lab.root));
    if !git(&["status", "--porcelain"])?.is_empty() {
        eprintln!("note: only committed files are judged, and some changes are not committed");
    }
    let to = clone.to_str().context("the folder's name is not UTF-8")?;
    git(&["clone", "--quiet", "--no-hardlinks", ".", to])?;
    let judged = judge(&clone);
    std::fs::remove_dir_all(&clone)?;
    judged
}

/// Variables that the outer cargo sets for this program must not affect cargo in a clone.
fn is_of_cargo(name: &str) -> bool {
    name != "CARGO_HOME" && (name.starts_with("CARGO") || name.starts_with("CURTAIL_"))
}

/// A run of `curtail demo`.
struct Demo {
    seconds: f64,
    results: Value,
}

impl Demo {
    /// Runs the demo as the README shows it.
    fn run(lab: &Lab<'_>, clone: &Path, out: &str, flags: &str) -> Result<Self> {
        let command = lab.run(format!("cargo run --release -- demo {flags}"));
        let ran = command.without(is_of_cargo).within(clone).verdict()?;
        let text = std::fs::read_to_string(clone.join(out).join("results.json"))?;
        Ok(Self { seconds: ran.seconds, results: serde_json::from_str(&text)? })
    }

    fn cells(&self, policy: &str) -> &[Value] {
        list(&self.results["policies"][policy])
    }

    /// Returns the cells of a policy at loads in a range, ends included.
    fn within(&self, policy: &str, from: f64, to: f64) -> Vec<&Value> {
        self.cells(policy).iter().filter(|cell| (from..=to).contains(&at(cell, "/load"))).collect()
    }

    /// Divides the 99th percentiles of two policies.
    fn p99_over(&self, policy: &str, base: &str, from: f64, to: f64) -> Vec<f64> {
        let p99 = |policy| each(self.within(policy, from, to), "/p99_ms");
        over(&p99(policy), &p99(base))
    }
}

fn readme(lab: &mut Lab<'_>) -> Result<()> {
    let (built, [demo, quick, naive, pool]) = in_clone(lab, |clone| {
        let build = lab.run("cargo build --release").without(is_of_cargo).within(clone);
        let built = build.output()?.seconds;
        let demo = |out: &str, flags: &str| Demo::run(lab, clone, out, flags);
        let demos = [
            demo("out/demo", "")?,
            demo("out/quick", "--quick --out out/quick")?,
            demo("out/naive", "--loads 0.65 --policies psq,naive --out out/naive")?,
            demo("out/pool", "--loads 0.7 --policies psq,laedge --out out/pool --requests 20000")?,
        ];
        Ok((built, demos))
    })?;
    lab.check("a fresh clone compiles in under 200 s", built, below(200.0).unit("s"));
    lab.check(
        "`cargo run --release -- demo` runs in under 240 s",
        demo.seconds,
        below(240.0).unit("s"),
    );
    lab.check("`… demo --quick` runs in under 75 s", quick.seconds, below(75.0).unit("s"));
    for (name, policy) in [
        ("per-shard queuing", "psq"),
        ("LÆDGE", "laedge"),
        ("rescue", "rescue"),
        ("the learned delay", "delayed:p95:cc+least-outstanding"),
    ] {
        let cells = demo.cells(policy);
        let reasons = cells.iter().flat_map(|cell| list(&cell["invalid_because"]));
        let (valid, reasons) = (texts(cells, "/valid"), texts(reasons, "").join("; "));
        lab.holds(
            format!("the runs of {name} are valid"),
            format!("{} [{reasons}]", valid.join(", ")),
            !valid.is_empty() && valid.iter().all(|valid| valid == "true"),
        );
    }
    lab.check(
        "LÆDGE's p99 is at least 30 % below PSQ's on average over 20–35 %",
        mean(&demo.p99_over("laedge", "psq", 0.2, 0.35)),
        most(0.7),
    );
    collapses(lab, &naive);
    let valid = ["psq", "laedge"].map(|policy| texts(pool.cells(policy), "/valid")).concat();
    lab.all("the runs at 70 % are sound", &valid, |valid| valid == "true");
    lab.check(
        "over 20,000 requests at 70 % LÆDGE's p99 is within 15 % of PSQ's",
        pool.p99_over("laedge", "psq", 0.7, 0.7),
        most(1.15),
    );
    // A single run determines the ratio only to about 10 %.
    for (claim, end) in
        [("the lower end of the interval of its gain", "low"), ("the upper end", "high")]
    {
        let gain = each(pool.cells("laedge"), &format!("/p99_gain/{end}"));
        lab.check(claim, gain, noted());
    }
    Ok(())
}

/// Judges that naive hedging is slow or fails at a high load.
fn collapses(lab: &mut Lab<'_>, naive: &Demo) {
    let reasons = texts(naive.within("naive", 0.65, 0.65), "/invalid_because").concat();
    let failures = [
        "fell short: ",
        "failed: ",
        "dropped: ",
        " connections busy: use more",
        "does not sustain this rate",
    ];
    let ratios = naive.p99_over("naive", "psq", 0.65, 0.65);
    let ratio = ratios.first().copied().unwrap_or(f64::NAN);
    lab.holds(
        "naive hedging collapses beyond 50 %: at 65 % its p99 is 3 times PSQ's, or it does not \
         sustain the rate",
        format!("{ratio:.2} (at least 3) {reasons}"),
        ratio >= 3.0 || failures.iter().any(|failure| reasons.contains(failure)),
    );
}

fn quick_demo(lab: &mut Lab<'_>) -> Result<()> {
    let demo = lab.run("@curtail demo --quick --json --out").arg(lab.folder.join("demo"));
    let ran = demo.verdict()?;
    lab.check("in under 75 s", ran.seconds, below(75.0).unit("s"));
    let results = documents(&ran.text)?;
    let policies = results.first().and_then(|results| results["policies"].as_object());
    let policies = policies.context("the demo reports no policies")?;
    lab.check("every policy has cells", each(policies.values(), "/0/load"), above(0.0));
    Ok(())
}

fn faults(lab: &mut Lab<'_>) -> Result<()> {
    let test = "cargo test -p curtail-cli --test it faults:: -- --nocapture --test-threads 1";
    let faults = lab.run(test).lines("figure: ")?;
    let last = |fault: &String| numbers(fault).last().copied().unwrap_or(f64::NAN);
    let until_used: Vec<f64> = faults.iter().map(last).collect();
    lab.check_line(until_used, most(1000.0).unit("ms").show(faults.join("; ")));
    lab.check("six faults have figures", faults.len() as f64, least(6.0));
    Ok(())
}

fn soak(lab: &mut Lab<'_>) -> Result<()> {
    let minutes = lab.var("soak_minutes", "2", "0.7");
    let phases = lab.run(format!("@xtask soak --json --minutes {minutes}")).json()?;
    let phases = list(&phases);
    let passed = phases.iter().all(|phase| phase["passed"] == true);
    let what = texts(phases, "/text").join("; ");
    lab.holds(lab.text, what, passed && !phases.is_empty());
    for when in ["early", "late"] {
        let bytes = each(phases, &format!("/memory/{when}_bytes"));
        let mebibytes: Vec<f64> = bytes.iter().map(|bytes| bytes / 1_048_576.0).collect();
        let claim = format!("memory {when} in the run");
        lab.check(claim, mebibytes, above(0.0).unit("MiB"));
    }
    Ok(())
}

fn promises(lab: &mut Lab<'_>) -> Result<()> {
    let events = lab.var("events", "10000000", "500000");
    let test = lab.run("cargo test -p curtail-kernel --test it -- random_events:: small_cells::");
    let results = test.env("CURTAIL_EVENTS", events).lines("test result: ")?;
    lab.all(lab.text, &results, |result| result.contains("ok."));
    lab.check("tests that ran", first_numbers(&results), above(0.0));
    Ok(())
}

/// Compares the proxy with other proxies, in a smaller sample than the benchmark's.
fn peers(lab: &mut Lab<'_>) -> Result<()> {
    lab.preset("rounds", lab.var("peer_rounds", "4", "1"));
    lab.preset("requests", lab.var("peer_requests", "1200", "1000"));
    (bench::PROXY_7.judge)(lab)
}

fn ci(lab: &mut Lab<'_>) -> Result<()> {
    let ran = in_clone(lab, |clone| {
        let run = lab.program(&clone.join(".ci/run").display().to_string());
        run.without(is_of_cargo).within(clone).may_fail().output()
    })?;
    lab.holds("`.ci/run` is green from a clean clone", ran.ok, ran.ok);
    lab.check("in under 12 minutes", ran.seconds, below(720.0).unit("s"));
    let skipped = ran.text.lines().filter_map(|line| line.split_once(" s  SKIPPED: "));
    let skipped: Vec<&str> = skipped.map(|(step, _)| step.trim()).collect();
    let count = skipped.len() as f64;
    lab.check("steps that were skipped", count, noted().show(skipped.join("; ")));
    Ok(())
}
