//! What the study says, as text.

use std::fmt::Write as _;

use super::judge::{Beside, Excess, PERCENTILES, median};
use super::world::Tolerance;
use super::{Cell, Study};

/// So many worlds are listed.
const NEAREST: usize = 8;

/// A world and the judged policy, on one line.
pub(super) fn line(cell: &Cell, policy: &str) -> String {
    let beside = cell.policy(policy);
    let excess = |excess: &Option<Excess>| {
        excess.map_or("      n/a".into(), |Excess { seen, at_least }| {
            format!("{seen:+7.2} ({at_least:+7.2})")
        })
    };
    let excess: Vec<String> = beside.excess.iter().map(excess).collect();
    let closed = cell.closed(policy).map_or("   -".into(), |part| format!("{:3.0}%", 100.0 * part));
    let tolerance = cell.world.tolerance();
    let verdict = if beside.margin(tolerance) < 0.0 { "FAILS" } else { "" };
    let kind = if tolerance == Tolerance::Strict { 's' } else { 'l' };
    format!(
        "{:4} {kind} {} closes {closed} copies {:.3} {verdict:5} {}",
        cell.world.number,
        excess.join(" "),
        beside.copies,
        cell.world
    )
}

/// The whole study.
pub(super) fn render(study: &Study) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} worlds, {} more were overloaded; {} simulated again with four times the requests",
        study.cells.len(),
        study.overloaded,
        study.again
    );
    for (name, tolerance) in [("strict", Tolerance::Strict), ("loose", Tolerance::Loose)] {
        let (failed, of) = (study.failed(tolerance), study.worlds(tolerance));
        let _ = writeln!(text, "{name}: {failed} of {of} fail");
        text.push_str(&excesses(study, tolerance));
        text.push_str(&nearest(study, tolerance));
    }
    text.push_str(&kinds(study));
    text.push_str(&policies(study));
    if let (Some(closed), of) = study.median_closed() {
        let _ = writeln!(
            text,
            "up to 50 %, where hiccups matter and copies have their own: closes {:.0} % of the gap in p99 \
             (median of {of})",
            100.0 * closed,
        );
    }
    text
}

/// The judged policy, by what befalls the services.
fn kinds(study: &Study) -> String {
    let mut text = String::from(
        "hiccups                    worlds    p99 over psq's, %: median    least     most\n",
    );
    let mut kinds: Vec<&str> = study.cells.iter().map(|cell| cell.world.kind()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let these = || study.cells.iter().filter(|cell| cell.world.kind() == kind);
        let p99 = |cell: &Cell| cell.policy(&study.policy).excess[1].map(|excess| excess.seen);
        let seen = || these().filter_map(p99);
        let Some(middle) = median(seen()) else { continue };
        let (least, most) =
            (seen().fold(f64::INFINITY, f64::min), seen().fold(f64::NEG_INFINITY, f64::max));
        let worlds = these().count();
        let _ = writeln!(text, "{kind:<27}{worlds:>6}{middle:>+29.2}{least:>+9.2}{most:>+9.2}");
    }
    text
}

/// Each policy: the median world, the worlds in which it is worse than per-shard queuing, and what it
/// gains of what can be gained. One that does not keep up with the load is infinitely worse.
fn policies(study: &Study) -> String {
    let mut text = String::from(
        "                            median excess over psq, %   p99 above   gap in p99 closed   copies\n\
         policy                       p50       p99     p99.9    psq's, %  load <= 0.5    above\n",
    );
    let Some(first) = study.cells.first() else { return String::new() };
    for (name, _) in &first.policies {
        let cells = || study.cells.iter().map(|cell| cell.policy(name));
        let middle = |i: usize| {
            let seen = cells().filter_map(|cell| cell.excess[i].map(|excess| excess.seen));
            median(seen).unwrap_or(f64::NAN)
        };
        let [p50, p99, p999] = [0, 1, 2].map(middle);
        let is_worse = |cell: &&Beside| cell.excess[1].is_some_and(|excess| excess.at_least > 0.0);
        let worse = 100.0 * cells().filter(is_worse).count() as f64 / study.cells.len() as f64;
        let closed = |loads| {
            let middle = median(study.closed_by(name, loads));
            middle.map_or("-".to_owned(), |part| format!("{:.0}", 100.0 * part))
        };
        let (light, heavy) = (closed(0.0..=0.5), closed(0.5..=1.0));
        let copies = median(cells().map(|cell| cell.copies).filter(|copies| !copies.is_nan()));
        let copies = copies.unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "{name:<23}{p50:>+9.2} {p99:>+9.2} {p999:>+9.2} {worse:>11.1} {light:>12} {heavy:>8} {copies:>8.3}"
        );
    }
    text
}

/// By how much the percentiles are above those of per-shard queuing.
fn excesses(study: &Study, tolerance: Tolerance) -> String {
    let mut text = String::new();
    for (i, percentile) in PERCENTILES.iter().enumerate() {
        let excess = |cell: &Cell| cell.policy(&study.policy).excess[i].map(|excess| excess.seen);
        let seen = || study.of(tolerance).filter_map(excess);
        let Some(middle) = median(seen()) else { continue };
        let most = seen().fold(f64::NEG_INFINITY, f64::max);
        let _ = writeln!(text, "  {percentile}: median {middle:+.2} %, most {most:+.2} %");
    }
    text
}

/// The worlds in which the policy is nearest to failing.
fn nearest(study: &Study, tolerance: Tolerance) -> String {
    let mut nearest: Vec<&Cell> = study.of(tolerance).collect();
    nearest.sort_by(|a, b| a.margin(&study.policy).total_cmp(&b.margin(&study.policy)));
    let lines = nearest.iter().take(NEAREST).map(|cell| line(cell, &study.policy));
    lines.map(|line| format!("  {line}\n")).collect()
}
