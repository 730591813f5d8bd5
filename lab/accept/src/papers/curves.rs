//! Figures of documents 000 and 001 that show latencies by load. Each is a sweep in `lab/papers`.

use anyhow::Result;

use super::claims::below_psq_at_60;
use super::results;
use crate::figures::{max, mean, min, over, with};
use crate::lab::Lab;
use crate::line::Line;
use crate::simulation::Points;
use crate::verdict::{Bound, above, below, least, most, near, noted};

/// Delayed hedges as in the sources, without and with cleanup cancellation.
const HEDGE: &str = "delayed:5ms";
const HEDGE_CC: &str = "delayed:5ms:cc";
/// The fair rival of our policies picks better than at random.
const RIVAL: &str = "delayed:5ms:cc+least-outstanding";
const RIVAL_TEXT: &str = "the fair rival, delayed:5:cc+least-outstanding";

const CURVES: Line = Line { seconds: 300, quick_seconds: 20, ..Line::NEW };

pub(super) const PAPER_2A_2: Line = Line {
    number: 2,
    name: "paper-2a",
    text: "001 Fig. 2a (000 Fig. 4.1a): balances and naive hedge",
    judge: |lab| {
        let points = sweep(lab, "paper-2a")?;
        balances_and_naive(lab, &points, "");
        Ok(())
    },
    ..CURVES
};

pub(super) const PAPER_2B_3: Line = Line {
    number: 3,
    name: "paper-2b",
    text: "001 Fig. 2b (000 Fig. 4.1b): balances and naive hedge without hiccups",
    judge: |lab| {
        let points = sweep(lab, "paper-2b")?;
        balances(lab, &points, "");
        let claim = "without hiccups naive is never better: p99 over psq's";
        lab.check(claim, points.ratio("naive", "psq"), above(0.99).optional());
        Ok(())
    },
    ..CURVES
};

pub(super) const PAPER_4_4: Line = Line {
    number: 4,
    name: "paper-4",
    text: "001 Fig. 4 (000 Fig. 4.5): Idealized Hedge",
    judge: idealized,
    ..CURVES
};

pub(super) const PAPER_7A_5: Line = Line {
    number: 5,
    name: "paper-7a",
    text: "001 Fig. 7a (000 Fig. 5.2, 5.3, 5.4a): LÆDGE",
    judge: laedge,
    ..CURVES
};

pub(super) const PAPER_7B_6: Line = Line {
    number: 6,
    name: "paper-7b",
    text: "001 Fig. 7b (000 Fig. 5.4b): LÆDGE with three replicas",
    judge: |lab| {
        let points = sweep(lab, "paper-7b")?;
        more_replicas(lab, &points, 0.0, near(0.72, 0.05));
        Ok(())
    },
    ..CURVES
};

pub(super) const PAPER_7C_7: Line = Line {
    number: 7,
    name: "paper-7c",
    text: "001 Fig. 7c (000 Fig. 5.4c): LÆDGE with six replicas",
    judge: |lab| {
        let points = sweep(lab, "paper-7c")?;
        more_replicas(lab, &points, 0.5, near(0.8, 0.05));
        let lowest = min(&points.p99("laedge"));
        let at_60 = |name| over(&points.at("utilization", 0.6).p99(name), &[lowest]);
        let bound = near(1.0, 0.1).published("1");
        lab.check(
            "laedge at 60 % over its lowest (001 §4.1, 000 §5.3)",
            at_60("laedge"),
            bound.clone().contradicts(near(1.17, 0.06)),
        );
        lab.check("idealized at 60 % over the same", at_60("idealized"), bound);
        Ok(())
    },
    ..CURVES
};

pub(super) const THESIS_4_2_8: Line = Line {
    number: 8,
    name: "thesis-4.2",
    text: "000 Fig. 4.2: balances and naive hedge with more replicas",
    seconds: 600,
    quick_seconds: 30,
    judge: |lab| {
        let points = sweep(lab, "thesis-4.2")?;
        for replicas in [3.0, 6.0] {
            let points = points.at("replicas", replicas);
            balances_and_naive(lab, &points, &format!(", {replicas} replicas"));
        }
        Ok(())
    },
    ..Line::NEW
};

pub(super) const THESIS_4_4_9: Line = Line {
    number: 9,
    name: "thesis-4.4",
    text: "000 Fig. 4.4: Idealized Hedge with more replicas",
    seconds: 600,
    quick_seconds: 30,
    judge: |lab| {
        let points = sweep(lab, "thesis-4.4")?.at("utilization", 0.6);
        let share = |replicas| points.at("replicas", replicas).ratio("idealized", "psq");
        for (more, fewer) in [(3.0, 2.0), (6.0, 3.0)] {
            lab.check(
                format!(
                    "idealized gains more at 60 % with {more} than with {fewer} replicas (000 \
                     §4.5): its share of psq's p99, over that"
                ),
                over(&share(more), &share(fewer)),
                below(1.0),
            );
        }
        Ok(())
    },
    ..Line::NEW
};

pub(super) const THESIS_4_6_10: Line = Line {
    number: 10,
    name: "thesis-4.6",
    text: "000 Fig. 4.6: delays",
    seconds: 400,
    quick_seconds: 30,
    judge: delays,
    ..Line::NEW
};

/// Runs a sweep of `lab/papers`.
fn sweep(lab: &Lab<'_>, name: &str) -> Result<Points> {
    let quick = "--requests 8000 --replications 2 --grid utilization=0.1..0.9:0.1";
    let sizes = lab.var("sweep", "", quick);
    let words = format!("--yes --file lab/papers/{name}.toml {sizes}");
    Ok(Points(lab.sweep(words, &results(lab, name))?))
}

fn balances(lab: &mut Lab<'_>, points: &Points, of: &str) {
    for name in ["bounded:2", "least-outstanding", "random"] {
        let claim = format!("psq is as good as {name}{of}: p99 over psq's");
        lab.check(claim, points.ratio(name, "psq"), least(0.99).optional());
    }
}

fn balances_and_naive(lab: &mut Lab<'_>, points: &Points, of: &str) {
    balances(lab, points, of);
    let claim = format!("naive is better at low loads, and crosses psq{of}");
    lab.check(claim, points.crossing("naive", "psq"), most(0.4).least(0.15));
}

fn idealized(lab: &mut Lab<'_>) -> Result<()> {
    let points = sweep(lab, "paper-4")?;
    let gap = max(&points.gap("psq", "idealized"));
    lab.check("idealized below psq, at most", gap, near(8.0, 0.5));
    below_psq_at_60(lab, &points);
    // 000 describes d-Hedge with cleanup cancellation (§4.2, §4.6). No single policy fits everything
    // that 000 and 001 state about its curve.
    lab.check(
        "d-Hedge with cleanup is below psq up to (001 §3.3)",
        points.crossing(HEDGE_CC, "psq"),
        near(0.45, 0.05).published("about 0.45"),
    );
    lab.check(
        "d-Hedge without cleanup is below psq up to (000 §4.6)",
        points.crossing(HEDGE, "psq"),
        near(0.3, 0.05).published("0.30"),
    );
    // The distance of the best policy from Idealized Hedge.
    let half = points.within("utilization", 0.0, 0.501);
    let distance = |hedge: &str| {
        let best = with(&half.p99("psq"), &half.p99("naive"), f64::min);
        let best = with(&best, &half.p99(hedge), f64::min);
        with(&best, &half.p99("idealized"), |best, idealized| best - idealized)
    };
    let [without, cleanup] = [HEDGE, HEDGE_CC].map(distance);
    let same = "the same, d-Hedge with cleanup";
    let bound = near(7.5, 0.5).published("7.5");
    lab.check(
        "the best of psq, naive and d-Hedge without cleanup above idealized, at most (000 §5.2)",
        max(&without),
        &bound,
    );
    lab.check(same, max(&cleanup), bound.contradicts(near(4.2, 0.9)));
    let bound = near(4.94, 0.4).published("4.94");
    lab.check(
        "the mean of that distance from 5 to 50 %, d-Hedge without cleanup (000 §5.2)",
        mean(&without),
        bound.clone().contradicts(near(4.2, 0.3)),
    );
    lab.check(same, mean(&cleanup), bound.contradicts(near(2.65, 0.4)));
    lab.check(
        "p-hedge over psq, at least (000 §4.6)",
        min(&points.ratio("probabilistic:auto", "psq")),
        above(1.0).published("above 1 at all loads").contradicts(near(0.56, 0.05)),
    );
    let to_70 = points.within("utilization", 0.0, 0.701);
    lab.check(
        "rescue over idealized, up to 70 %, at least (000 §4.6)",
        min(&to_70.ratio("rescue", "idealized")),
        least(0.99).published("no hedging is below idealized").contradicts(near(0.79, 0.05)),
    );
    lab.check(
        format!("{RIVAL_TEXT}, over idealized, up to 70 %, at least (ours)"),
        min(&to_70.ratio(RIVAL, "idealized")),
        most(1.05).least(0.9),
    );
    lab.check(
        "o1 bounds idealized at all loads (ours)",
        points.ratio("idealized", "o1"),
        above(0.99).optional(),
    );
    Ok(())
}

fn laedge(lab: &mut Lab<'_>) -> Result<()> {
    let points = sweep(lab, "paper-7a")?;
    let crossing = points.crossing("laedge", "psq");
    lab.check("laedge crosses psq at (000 §5.2)", crossing, most(0.58).least(0.48));
    for (name, bound) in [
        ("psq", near(0.6, 0.06)),
        ("laedge", near(0.61, 0.06)),
        ("laedge:cc", near(0.6, 0.06)),
        ("rescue", near(0.18, 0.08)),
    ] {
        let claim = format!("{RIVAL_TEXT}, crosses {name} at (ours)");
        lab.check(claim, points.crossing(RIVAL, name), bound);
    }
    let learned = "delayed:p95:cc+least-outstanding";
    lab.check(
        format!("with a learned delay, {learned}, it crosses laedge at (ours)"),
        points.crossing(learned, "laedge"),
        near(0.63, 0.07),
    );
    let worst = max(&points.ratio("rescue", "laedge"));
    lab.check("rescue over laedge, at most (ours)", worst, most(1.0));
    lab.check(
        "laedge:cc+pc crosses laedge:cc at (at the lowest loads, where both are alike, chance \
         decides)",
        points.within("utilization", 0.12, 1.0).crossing("laedge:cc+pc", "laedge:cc"),
        most(0.37).least(0.27),
    );
    Ok(())
}

/// Judges LÆDGE with more than two replicas. Its crossing with the rival is judged at loads of at
/// least `from`.
fn more_replicas(lab: &mut Lab<'_>, points: &Points, from: f64, crosses: Bound) {
    lab.check(
        "with more replicas laedge is better than psq up to more than 48 % (000 §5.3)",
        points.crossing("laedge", "psq"),
        most(1.0).least(0.48),
    );
    let beyond = if from > 0.0 { " beyond 50 %" } else { "" };
    lab.check(
        format!("{RIVAL_TEXT}, crosses laedge{beyond} at (ours)"),
        points.within("utilization", from, 1.0).crossing(RIVAL, "laedge"),
        crosses,
    );
    for (name, of) in [("the rival", RIVAL), ("rescue", "rescue")] {
        let claim = format!("laedge is better at low loads, and crosses {name} at (ours)");
        lab.check(claim, points.crossing("laedge", of), noted());
    }
    let worst = max(&points.ratio("rescue", "laedge"));
    lab.check("rescue over laedge, at most (ours)", worst, noted());
}

fn delays(lab: &mut Lab<'_>) -> Result<()> {
    let points = sweep(lab, "thesis-4.6")?;
    let ratio = |points: &Points, one: u32, other: u32| {
        points.ratio(&format!("delayed:{one}ms:cc"), &format!("delayed:{other}ms:cc"))
    };
    let at_60 = points.at("utilization", 0.6);
    lab.check(
        "with cleanup, as in the figure, a delay of 5 is good up to higher loads than one of 3: p99 \
         at 60 %, 3 over 5 (000 §4.6)",
        ratio(&at_60, 3, 5),
        above(1.0),
    );
    lab.check("the same for delays of 10 and 5: 5 over 10", ratio(&at_60, 5, 10), above(1.0));
    lab.check(
        "a long delay costs latency at low loads: 10 over 5 at the lowest load",
        ratio(&points, 10, 5).first().copied(),
        above(1.0),
    );
    Ok(())
}
