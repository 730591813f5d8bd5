//! Decide before you deploy: the simulator, the models and the advisor.

use anyhow::Result;

use crate::bench;
use crate::figures::{at, first_numbers, list, text, texts};
use crate::lab::Lab;
use crate::line::Line;
use crate::papers;
use crate::verdict::{above, listed, most, near};

/// The samples of the claims of documents 000 and 001.
const SIZES: &[(&str, &str)] = &[("sizes", "--requests 50000"), ("long", "--requests 250000")];

pub(crate) const LINES: &[Line] = &[
    Line { seconds: 240, quick_seconds: 0, set: SIZES, ..papers::CLAIMS_1 },
    Line { seconds: 1, quick_seconds: 0, set: SIZES, ..papers::CROSSINGS_1 },
    Line { seconds: 1, quick_seconds: 0, set: SIZES, ..papers::GAPS_1 },
    Line { seconds: 1, quick_seconds: 0, set: SIZES, ..papers::BALANCES_1 },
    Line { seconds: 0, set: &[("sizes", "--requests 20000 --replications 4")], ..papers::CLAIMS_1 },
    // Table 5.1 is redrawn: its cells are within 6 points and half of the published value on our
    // grid, or on a comparable one.
    Line {
        number: 1,
        seconds: 280,
        quick_seconds: 0,
        set: &[
            ("maps", "--requests {requests} --replications 1 --grid utilization=0.05..0.95:0.1"),
            ("suffix", "-decide"),
        ],
        ..papers::TABLE_5_1_12
    },
    LINE_2,
    LINE_3,
    // Speed of the simulator, compared with the practical limit.
    Line { seconds: 100, quick_seconds: 30, ..bench::SIM_4 },
    Line { number: 4, seconds: 1, quick_seconds: 1, ..bench::SIM_5 },
    LINE_5,
    LINE_6,
    LINE_7,
];

const LINE_2: Line = Line {
    number: 2,
    text: "a live service and the simulator: simulated and measured agree in all cells, or in \
           all but one",
    seconds: 480,
    quick_seconds: 60,
    judge: live,
    ..Line::NEW
};

const LINE_3: Line = Line {
    number: 3,
    text: "simulator and sockets make the same decisions in the same order",
    seconds: 40,
    quick_seconds: 40,
    judge: conformance,
    ..Line::NEW
};

const LINE_5: Line = Line {
    number: 5,
    text: "advice is right in ten services, and hiccups are found in samples",
    seconds: 75,
    quick_seconds: 75,
    judge: advice,
    ..Line::NEW
};

const LINE_6: Line = Line {
    number: 6,
    text: "the Python package installs into a fresh environment, and its tests pass",
    seconds: 100,
    needs: &["python:3.10", "registry:iniconfig"],
    judge: python,
    ..Line::NEW
};

const LINE_7: Line = Line {
    number: 7,
    text: "the tutorial's takeaways 4 (H2/H2/1) and 7 (variance is worth a longer mean)",
    seconds: 30,
    quick_seconds: 30,
    judge: takeaways,
    ..Line::NEW
};

fn live(lab: &mut Lab<'_>) -> Result<()> {
    let size = lab.var("size", "--repetitions 5", "--smoke");
    let results = lab.run(format!("@xtask eval search --compare-sim --json {size}")).json()?;
    lab.holds(lab.text, text(&results, "/holds"), results["holds"] == true);
    let cells = list(&results["cells"]);
    let apart = cells.iter().filter(|cell| cell["agrees_with_overhead"] == false);
    let (cells, apart) = (texts(cells, "/text"), texts(apart, "/text").join("; "));
    lab.holds(
        "each cell is within 15 % of the simulated value, if necessary with the measured overhead",
        format!("{} [{apart}]", listed(&cells)),
        !cells.is_empty() && cells.iter().all(|cell| cell.contains("measured")),
    );
    Ok(())
}

fn conformance(lab: &mut Lab<'_>) -> Result<()> {
    let test = "cargo test -p curtail-runtime --test conformance -- --nocapture";
    let scenarios = lab.run(test).lines("conformance: ")?;
    lab.all(lab.text, &scenarios, |scenario| scenario.contains(" agree"));
    let count = scenarios.len() as f64;
    lab.check("written and random scenarios over three wires", count, most(6.0).least(6.0));
    Ok(())
}

fn advice(lab: &mut Lab<'_>) -> Result<()> {
    let mut results = Vec::new();
    for tests in ["--test it advise::", "--lib advise"] {
        let test = format!("cargo test -p curtail-sim {tests}");
        let run = lab.run(test).env("CURTAIL_SERVICES", "10");
        results.extend(run.lines("test result: ")?);
    }
    lab.all(lab.text, &results, |result| result.contains("ok."));
    lab.check("tests that ran", first_numbers(&results), above(0.0));
    Ok(())
}

fn python(lab: &mut Lab<'_>) -> Result<()> {
    let test = "::test_a_sweep_on_ray_gives_the_same_bytes ";
    let sweeps = lab.run("@xtask python").lines(test)?;
    // The command exits with an error if a test fails.
    lab.holds(lab.text, true, true);
    let claim = "a sweep on Ray gives the same bytes as a local one";
    lab.all(claim, &sweeps, |sweep| sweep.contains("PASSED"));
    Ok(())
}

fn takeaways(lab: &mut Lab<'_>) -> Result<()> {
    let tests = lab.run("cargo test -p curtail-queueing --test it h2h21::");
    let results = tests.lines("test result: ")?;
    let passed = |result: &str| result.contains("ok.");
    lab.all("tests against Lindley's recursion, M/M/1 and M/H2/1", &results, passed);
    lab.check("tests that ran", first_numbers(&results), above(5.0));
    for (claim, gaps, service, bound) in [
        (
            "H2/H2/1, mean wait by the cubic of its poles",
            "h2:2:2",
            "h2:1:2",
            near(4.04415, 0.00001),
        ),
        ("H2/H2/1 of exponentials is M/M/1: mean wait", "exp:2", "exp:1", near(1.0, 0.000001)),
    ] {
        let model = format!("--gaps {gaps} --service-time {service} --model h2h21");
        let fitted = lab.run(format!("@curtail model queue --json {model}")).json()?;
        lab.check(claim, at(&fitted, "/wait/mean"), bound);
    }
    let service = "--service-time h2:5ms:2 --arrival-rate 100";
    let map = lab.run(format!("@curtail model variability --json {service}")).json()?;
    lab.check(
        "without variance: the share by which the mean may rise",
        at(&map, "/break_even/3/rise"),
        near(0.46887, 0.0001),
    );
    lab.check(
        "the map's latency at that point, equal to today's, ms",
        at(&map, "/heat_map/mean_sojourn/0/6"),
        near(17.5, 0.000001),
    );
    Ok(())
}
