//! `curtail load --calibrate`: the cost of each way of measuring on this machine.

use std::fmt::Write as _;
use std::process::ExitCode;

use curtail_load::calibrate::{Calibration, Found, Hardware, Measured, Method, calibrate};
use curtail_load::{Stamps, StampsBy};
use curtail_report::number::{NONE, or_none};
use curtail_report::table::Table;

use crate::args::Json;
use crate::exit::Stop;
use crate::run::Termination;
use crate::{run, say};

pub(super) fn run(output: &Json) -> Result<ExitCode, Stop> {
    let found = run::on_all_cores(async {
        let mut signals = Termination::listen_at_terminal()?;
        let bar = run::spinner();
        bar.set_message("measuring the cost of measuring");
        let found = tokio::select! {
            found = calibrate() => found.map_err(Stop::lacking),
            () = signals.next() => Err(Stop::Interrupted("before the calibration was done")),
        };
        bar.finish_and_clear();
        found
    })?;
    say::answer(output.json, &found, || text(&found))?;
    Ok(ExitCode::SUCCESS)
}

fn text(found: &Calibration) -> String {
    let mut text = format!(
        "reading the clock takes {:.0} ns, the system's clock {:.0} ns\n\n",
        found.clock_read_ns, found.system_clock_read_ns
    );
    let head = "echo (over loopback unless on veth)";
    let mut table =
        Table::new([head, "p50", "p99", "wire", "program", "lag p50", "lag p99"]).at_least(12);
    found.methods.iter().for_each(|method| figures(method, &mut table));
    text += &table.bare();
    for method in &found.methods {
        if let Found::Measured(measured) = &method.found
            && let Some(stamps) = &measured.stamped
        {
            let _ = write!(text, "\n{}: {}", name(method), covered(stamps));
        }
    }
    let _ = write!(text, "\n\n{}", hardware(&found.hardware));
    text + "\n\nwire: from the departure of the request to the arrival of the echo; with kernel \
            timestamps, this\nexcludes the program. program: the additional time in this program. \
            lag: the delay of sending"
}

fn covered(stamps: &Stamps) -> String {
    let [sent, came] = [stamps.sent_coverage, stamps.received_coverage].map(|share| share * 100.0);
    let of = format!("{sent:.1} % of the requests and {came:.1} % of the echoes");
    match stamps.past_stack {
        Some(_) => format!("{of} bypassed the network stack"),
        None => {
            let cost_us = stamps.cost_ns as f64 / 1e3;
            format!("{of} have timestamps, which cost {cost_us:.1} µs per packet")
        }
    }
}

fn name(method: &Method) -> String {
    let waiting = if method.spinning { "spinning" } else { "sleeping" };
    let stamps = match method.stamps {
        StampsBy::User => "user space",
        StampsBy::Kernel => "kernel",
        StampsBy::Hardware => "hardware",
        StampsBy::Xdp => "xdp",
    };
    let over = if method.over == "veth" { " on veth" } else { "" };
    format!("{}{over}, {stamps}, {waiting}", method.transport)
}

fn figures(method: &Method, table: &mut Table) {
    let name = name(method);
    let measured: &Measured = match &method.found {
        Found::Measured(measured) => measured,
        Found::Lacking(why) => return table.remark(name, format_args!("{NONE} {why}")),
    };
    let Measured { latency_ns, schedule_lag_ns, median_parts_ns, .. } = measured;
    let wire = median_parts_ns.map(|parts| parts.wire_to_wire);
    let beyond = median_parts_ns.map(|parts| parts.client_send + parts.client_wake_up);
    let cells =
        [latency_ns.p50, latency_ns.p99, wire, beyond, schedule_lag_ns.p50, schedule_lag_ns.p99];
    let cells = cells.map(|cell| or_none(cell, microseconds));
    table.row(std::iter::once(name).chain(cells));
}

/// Keeps more digits below one microsecond.
fn microseconds(ns: u64) -> String {
    let digits = if ns < 1_000 { 3 } else { 1 };
    format!("{:.digits$} µs", ns as f64 / 1e3)
}

fn hardware(found: &Hardware) -> String {
    let list = |names: &[String]| {
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    if found.clocks.is_empty() {
        return format!(
            "hardware timestamps: not available, because no network device has a PTP clock; \
             devices: {}",
            list(&found.devices)
        );
    }
    format!(
        "hardware timestamps: available on {} (PTP clock), with --stamps hardware; packets over \
         loopback do not get them",
        list(&found.clocks)
    )
}

#[cfg(test)]
mod tests {
    use curtail_load::Summary;

    use super::*;

    fn method(found: Found) -> Method {
        Method { transport: "udp", over: "loopback", stamps: StampsBy::User, spinning: true, found }
    }

    #[test]
    fn a_row_names_what_a_method_lacks() {
        let rows = |found| {
            let mut table = Table::new(["", "p50", "p99", "wire", "program", "lag p50", "lag p99"]);
            figures(&method(found), &mut table);
            table.bare().lines().nth(1).expect("a row").to_owned()
        };
        let lacking = Found::Lacking("one processor".to_owned());
        assert_eq!(rows(lacking), "udp, user space, spinning  – one processor");
        let latency_ns = Summary { p50: Some(12_345), ..Summary::default() };
        let measured = Measured {
            echoes: 7,
            latency_ns,
            schedule_lag_ns: Summary { p50: Some(22), ..Summary::default() },
            median_parts_ns: None,
            stamped: None,
        };
        let row = rows(Found::Measured(Box::new(measured)));
        let cells: Vec<&str> = row.split_whitespace().skip(4).collect();
        assert_eq!(cells, ["12.3", "µs", "–", "–", "–", "0.022", "µs", "–"]);
    }

    #[test]
    fn devices_that_could_stamp_are_named_and_otherwise_those_that_cannot() {
        let of = |clocks: &[&str], devices: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            hardware(&Hardware { clocks: owned(clocks), devices: owned(devices) })
        };
        assert!(of(&[], &["eth0", "lo"]).ends_with("devices: eth0, lo"));
        assert!(of(&[], &[]).ends_with("devices: none"));
        assert!(of(&["eth0"], &["eth0", "lo"]).contains("available on eth0"));
    }
}
