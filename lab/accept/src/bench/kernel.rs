//! Benchmarks of the kernel and of the simulator.

use anyhow::Result;

use crate::figures::{fastest, first_numbers, median, over};
use crate::lab::{Fields, Lab};
use crate::line::Line;
use crate::verdict::{least, most, noted};

pub(crate) const BOUND_1: Line = Line {
    number: 1,
    name: "bound",
    text: "instructions per arrive + finished pair, PSQ, r = 2",
    seconds: 10,
    quick_seconds: 10,
    needs: &["program:valgrind"],
    judge: bound,
    ..Line::NEW
};

pub(crate) const GROWTH_2: Line = Line {
    number: 2,
    name: "growth",
    text: "instructions grow with the logarithm of the queue length, and not with the number of replicas",
    seconds: 30,
    quick_seconds: 30,
    needs: &["program:valgrind"],
    judge: growth,
    ..Line::NEW
};

pub(super) const KERNEL_3: Line = Line {
    number: 3,
    name: "kernel",
    text: "instructions and nanoseconds per query in the kernel",
    seconds: 200,
    quick_seconds: 200,
    needs: &["program:valgrind"],
    judge: kernel,
    ..Line::NEW
};

pub(crate) const SIM_4: Line = Line {
    number: 4,
    name: "sim",
    text: "shard queries per second of the simulator",
    seconds: 140,
    quick_seconds: 22,
    judge: sim,
    ..Line::NEW
};

pub(crate) const SIM_5: Line = Line {
    number: 5,
    name: "sim",
    text: "memory of the simulator with ten times as many requests",
    seconds: 10,
    quick_seconds: 8,
    judge: memory,
    ..Line::NEW
};

pub(super) const SIM_POLICIES_6: Line = Line {
    number: 6,
    name: "sim-policies",
    text: "shard queries per second of other policies and loads",
    seconds: 120,
    quick_seconds: 30,
    judge: sim_policies,
    ..Line::NEW
};

pub(crate) const LEARNED_10: Line = Line {
    number: 10,
    name: "learned",
    text: "instructions of a delayed hedge whose delay is learned",
    seconds: 10,
    quick_seconds: 10,
    needs: &["program:valgrind"],
    judge: learned,
    ..Line::NEW
};

/// Returns the kernel's instructions per query of a cell: a policy, the number of replicas, and the
/// number of waiting queries. The count is the difference between a longer and a shorter run, so it
/// excludes the cost of filling the cell. It is exact and repeatable.
fn instructions(lab: &Lab<'_>, cell: &str, also: &str) -> Result<f64> {
    let count = |queries: u32| -> Result<f64> {
        let run = lab.run(format!(
            "valgrind --log-fd=1 --tool=callgrind --toggle-collect=*::Scheduler>::handle {also} \
             --callgrind-out-file=/dev/null @pair {cell} {queries}"
        ));
        Ok(first_numbers(&run.lines("Collected :")?).first().copied().unwrap_or(f64::NAN))
    };
    Ok((count(20_000)? - count(10_000)?) / 10_000.0)
}

fn bound(lab: &mut Lab<'_>) -> Result<()> {
    let per_query = instructions(lab, "psq 2 0", "")?;
    // The lower bound is there because callgrind accepts a pattern that matches no function.
    lab.check_line(per_query, most(250.0).least(50.0));
    Ok(())
}

fn growth(lab: &mut Lab<'_>) -> Result<()> {
    let psq = |lab: &Lab<'_>, cell: &str| instructions(lab, &format!("psq {cell}"), "");
    for replicas in [2, 512] {
        let ratio = psq(lab, &format!("{replicas} 100000"))? / psq(lab, &format!("{replicas} 10"))?;
        let claim = format!("instructions from 10 to 100,000 waiting, r = {replicas}");
        lab.check(claim, ratio, most(1.1));
    }
    let ratio = psq(lab, "512 0")? / psq(lab, "64 0")?;
    lab.check("instructions from r = 64 to 512", ratio, most(1.5));
    Ok(())
}

/// The count includes what the service learns in each epoch. With either delay, 3.6 % of the
/// queries get a second copy.
fn learned(lab: &mut Lab<'_>) -> Result<()> {
    let [learned, fixed] = ["p95", "2.48ms"].map(|delay| {
        let cell = format!("delayed:{delay}+least-outstanding 2 0");
        instructions(lab, &cell, "--toggle-collect=*Driver::learn")
    });
    let claim = "instructions per arrive + finished pair, delayed:p95 over delayed:2.48ms";
    lab.check(claim, learned? / fixed?, most(1.5).least(0.5));
    Ok(())
}

fn kernel(lab: &mut Lab<'_>) -> Result<()> {
    const CELLS: &str = "psq 2 0, psq 2 10, psq 2 100000, psq 8 0, psq 8 10, psq 64 0, psq 64 10, \
        psq 512 0, psq 512 10, psq 512 100000, random 2 0, two-choices 2 0, naive 2 0, laedge 2 0, \
        laedge 2 10, laedge 64 10, laedge 512 10, laedge:cc 2 0, laedge:cc+pc 2 10, rescue 2 0, \
        rescue 2 10, rescue 64 10, rescue+bounded:2 2 10";
    let claim = |cell: &str, what: &str| {
        let mut words = cell.split(' ');
        let [policy, replicas, waiting] = [(); 3].map(|()| words.next().unwrap_or_default());
        format!("{policy}, r = {replicas}, {waiting} waiting: {what}")
    };
    for cell in CELLS.split(", ") {
        lab.check(claim(cell, "instructions"), instructions(lab, cell, "")?, least(50.0));
    }
    for cell in CELLS.split(", ") {
        let timed = lab.run(format!("@pair {cell} 1000000")).fields()?;
        lab.check(claim(cell, "time"), timed.number("ns_per_query"), noted().unit("ns"));
    }
    Ok(())
}

/// Measures the speed of the simulator in worlds: a policy, the number of shards and of replicas,
/// the load, and the number of requests. Returns figures by world and round. All runs of a round
/// use the same core, and the next round uses the next core.
fn speeds(lab: &Lab<'_>, rounds: usize, worlds: &[String]) -> Result<Vec<Vec<Fields>>> {
    let turn = |world: usize, round| lab.run(format!("@speed {} {round}", worlds[world])).fields();
    lab.rounds(worlds.len(), rounds, turn, |_| true)
}

/// Returns the fastest rate in shard queries per second of processor time. If the physical core
/// behind a virtual one also works for a neighbor, the simulator runs at half its speed, but the
/// recursion is hardly slower. Therefore a share of the recursion's rate uses the fastest quarter
/// of all runs.
fn rate(of_world: &[Fields]) -> f64 {
    fastest(&of_world.iter().map(|fields| fields.number("per_second")).collect::<Vec<_>>())
}

/// Compares shard queries per second of one core with a Kiefer–Wolfowitz recursion in the same run,
/// which is the practical limit for per-shard queuing.
fn sim(lab: &mut Lab<'_>) -> Result<()> {
    const OTHERS: [(&str, u32); 4] =
        [("10 × 2", 250_000), ("500 × 2", 20_000), ("50 × 4", 50_000), ("50 × 8", 50_000)];
    let policies = ["psq", "laedge"];
    let world = |policy: &str, cell: &str, requests: u32| {
        format!("{policy} {} 0.3 {requests}", cell.replace(" × ", " "))
    };
    let mut worlds: Vec<String> =
        ["psq", "laedge", "recursion"].map(|of| world(of, "50 × 2", 50_000)).into();
    for policy in policies {
        worlds.extend(OTHERS.map(|(cell, requests)| world(policy, cell, requests)));
    }
    let found = speeds(lab, lab.number("rounds", 20, 3)?, &worlds)?;
    let [psq, laedge, recursion] = [0, 1, 2].map(|at| rate(&found[at]));
    lab.check("psq at 25 % of the recursion's rate or more", psq / recursion, least(0.25));
    lab.check("laedge at 15 % of the recursion's rate or more", laedge / recursion, least(0.15));
    lab.check("psq, millions of queries per second", psq / 1e6, noted());
    lab.check("the recursion, millions of queries per second", recursion / 1e6, noted());
    // Rates are compared per copy and not per query, because LÆDGE hedges more with more replicas.
    // Two worlds of the simulator slow down alike, so their ratio is the median over the rounds.
    let copies = |of_world: &[Fields]| -> Vec<f64> {
        let rate = |fields: &Fields| fields.number("per_second") * fields.number("copies");
        of_world.iter().map(rate).collect()
    };
    for (base, policy) in policies.into_iter().enumerate() {
        let others = &found[3 + base * OTHERS.len()..];
        for ((cell, _), other) in OTHERS.into_iter().zip(others) {
            let ratio = median(&over(&copies(other), &copies(&found[base])));
            lab.check(
                format!("{policy} at {cell} as fast per copy as at 50 × 2"),
                ratio,
                least(0.8),
            );
        }
    }
    Ok(())
}

fn memory(lab: &mut Lab<'_>) -> Result<()> {
    let peak = |requests: u32| -> Result<f64> {
        let run = lab.run(format!("@speed laedge 10 2 0.3 {requests}"));
        Ok(run.fields()?.number("peak_kb"))
    };
    lab.check_line(peak(1_000_000)? / peak(100_000)?, most(1.1));
    Ok(())
}

fn sim_policies(lab: &mut Lab<'_>) -> Result<()> {
    const LOADS: [&str; 3] = ["0.1", "0.3", "0.7"];
    let at_one_load = [
        "random",
        "least-outstanding",
        "bounded:2",
        "naive",
        "laedge:cc",
        "laedge:cc+pc",
        "idealized",
        "delayed:5",
    ];
    let mut policies = at_one_load.map(|policy| (policy, "0.3")).to_vec();
    policies.extend([("psq", "0.1"), ("psq", "0.7"), ("laedge", "0.1"), ("laedge", "0.7")]);
    let recursions = LOADS.map(|load| ("recursion", load));
    let worlds: Vec<String> = recursions
        .iter()
        .chain(&policies)
        .map(|(policy, load)| format!("{policy} 50 2 {load} 50000"))
        .collect();
    let found = speeds(lab, lab.number("rounds", 4, 1)?, &worlds)?;
    for ((policy, load), of_world) in policies.into_iter().zip(&found[LOADS.len()..]) {
        let limit = LOADS.iter().position(|of| *of == load).map_or(f64::NAN, |at| rate(&found[at]));
        let claim = format!("{policy} at {load}: share of the recursion's rate");
        lab.check(claim, rate(of_world) / limit, noted());
    }
    Ok(())
}
