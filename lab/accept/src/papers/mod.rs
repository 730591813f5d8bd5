//! Compares the published results of documents 000 and 001 with our simulations. Utilization is
//! defined as in the thesis: λ·P̄/r.
//!
//! The running example has 50 × 2 replicas, exponential P with mean 1, and hiccups of 15 with
//! probability 10⁻³. Latencies are 99th percentiles of requests, in multiples of P̄.

mod claims;
mod curves;
mod tables;

use anyhow::Result;

pub(crate) use self::claims::{BALANCES_1, CLAIMS_1, CROSSINGS_1, GAPS_1};
pub(crate) use self::tables::TABLE_5_1_12;
use crate::lab::Lab;
use crate::line::Line;
use crate::{c3, das};

pub(crate) const LINES: &[Line] = &[
    CLAIMS_1,
    CROSSINGS_1,
    GAPS_1,
    BALANCES_1,
    curves::PAPER_2A_2,
    curves::PAPER_2B_3,
    curves::PAPER_4_4,
    curves::PAPER_7A_5,
    curves::PAPER_7B_6,
    curves::PAPER_7C_7,
    curves::THESIS_4_2_8,
    curves::THESIS_4_4_9,
    curves::THESIS_4_6_10,
    tables::THESIS_4_7_11,
    TABLE_5_1_12,
    // Chapter 4 of document 002: clients that share servers.
    Line { number: 4, ..c3::C3_1 },
    Line { number: 4, ..c3::C3_2 },
    Line { number: 4, ..c3::C3_3 },
    Line { number: 4, ..c3::C3_4 },
    Line { number: 4, ..c3::C3_5 },
    Line { number: 4, ..c3::C3_6 },
    Line { number: 4, ..c3::C3_7 },
    Line { number: 4, ..c3::C3_8 },
    Line { number: 4, ..c3::C3_9 },
    Line { number: 4, ..c3::C3_10 },
    // Document 003: duplication with priorities and purges.
    Line { number: 4, ..das::DAS_1 },
    Line { number: 4, ..das::DAS_1_SHAPE },
    Line { number: 4, ..das::DAS_1_FORMS },
    Line { number: 4, ..das::DAS_1_BEST },
    // C3 in the data plane.
    Line { number: 4, seconds: 660, quick_seconds: 175, ..c3::PROXY_9 },
    MEASURING_1,
];

const MEASURING_1: Line = Line {
    number: 1,
    name: "measuring",
    text: "the accuracy of measurements of microseconds (000 chapter 3), by four methods, under \
           four configurations",
    seconds: 900,
    quick_seconds: 60,
    judge: measuring,
    ..Line::NEW
};

fn measuring(lab: &mut Lab<'_>) -> Result<()> {
    let smoke = lab.var("smoke", "", "--smoke");
    let out = lab.root.join(results(lab, "measuring"));
    let ran = lab.run(format!("@measuring --out {} {smoke}", out.display())).verdict()?;
    lab.holds("everything was measured", ran.ok, ran.ok);
    Ok(())
}

/// Returns the folder for results, relative to the root of the repository.
fn results(lab: &Lab<'_>, name: &str) -> String {
    format!("out/papers/{name}{}", lab.var("suffix", "", "-smoke"))
}
