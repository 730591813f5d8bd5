//! The table of figures for a terminal and for the page, and the text that accompanies it on a
//! terminal.

use std::fmt::Write as _;

use curtail_report::number::{NONE, count, or_none, three, three_or_none, utilization};
use curtail_report::policy::{policy, two_lines};
use curtail_report::table::{Cell, Table, Tone};

use super::findings::{Headline, View, copies_per_query, headline, interval, needed};
use super::results::{LoadPoint, Results};
use crate::say;

/// Minor columns of the table are left out on a terminal with fewer columns than this.
const WIDTH_FULL: usize = 72;

/// Where the table is shown, which determines its columns.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(super) enum Room {
    Narrow,
    Wide,
    Page,
}

/// A column of figures.
struct Column {
    name: &'static str,
    unit: String,
    /// The narrowest place in which the column is shown.
    from: Room,
    of: fn(View<'_>, &str, &LoadPoint) -> String,
}

fn columns(view: View<'_>, room: Room) -> Vec<Column> {
    let over = view.baseline.map_or(String::new(), |name| format!("over {}", policy(name).short));
    let failed = view.results.policies.values().flatten().any(|cell| cell.errors > 0);
    let errors = if failed { Room::Narrow } else { Room::Page };
    let column = |name, unit: &str, from, of| Column { name, unit: unit.to_owned(), from, of };
    let all: [Column; 8] = [
        column("p50", "ms", Room::Wide, |_, _, cell| three_or_none(cell.p50_ms)),
        column("p99", "ms", Room::Narrow, |_, _, cell| three_or_none(cell.p99_ms)),
        column("p99.9", "ms", Room::Wide, |_, _, cell| three_or_none(cell.p999_ms)),
        column("copies", "per query", Room::Narrow, |_, _, cell| {
            three_or_none(copies_per_query(cell))
        }),
        column("gain in p99", &over, Room::Narrow, gain),
        column("offered", "requests/s", Room::Page, |_, _, cell| three(cell.offered_rate)),
        column("achieved", "requests/s", Room::Page, |_, _, cell| three(cell.achieved_rate)),
        column("errors", "requests", errors, |_, _, cell| count(cell.errors)),
    ];
    all.into_iter().filter(|column| column.from <= room).collect()
}

fn gain(view: View<'_>, name: &str, cell: &LoadPoint) -> String {
    if view.baseline == Some(name) {
        return "·".to_owned();
    }
    or_none(cell.p99_gain, interval)
}

/// Returns the table, and the reasons why some cells are not sound. The table has a group of rows
/// per load, with a row per policy.
pub(super) fn table(view: View<'_>, room: Room) -> (Table, Vec<String>) {
    let columns = columns(view, room);
    let head = columns.iter().map(|column| (column.name, &column.unit[..]));
    let mut table = Table::with_units([("policy", "")].into_iter().chain(head));
    let mut notes = Vec::new();
    for &load in &view.results.loads {
        let best = view.best(load);
        table.group(utilization(load));
        for name in view.results.policies() {
            let mut short = policy(name).short;
            let in_lines = |name: &str| match two_lines(name) {
                [first, ""] => first.to_owned(),
                [first, second] => format!("{first}\n  {second}"),
            };
            let Some(cell) = view.cell(name, load) else {
                let dash = columns.iter().map(|_| Cell::new(NONE, Tone::Faint));
                table.row([in_lines(&short).into()].into_iter().chain(dash));
                continue;
            };
            if cell.disturbed {
                // Disturbed cells are explained in the warning that precedes the figures.
                short += " *";
            } else if !cell.valid {
                let (mark, at) = (notes.len() + 1, utilization(load));
                let why = cell.invalid_because.join("; ");
                notes.push(format!("[{mark}] {short} is not sound at {at}: {why}."));
                let _ = write!(short, " [{mark}]");
            }
            let tone = |column: &Column| match cell.sound() {
                false => Tone::Faint,
                true if best == Some(name) && column.name == "p99" => Tone::Best,
                true => Tone::Plain,
            };
            let figure = |of: &Column| Cell::new((of.of)(view, name, cell), tone(of));
            let figures = columns.iter().map(figure);
            table.row([in_lines(&short).into()].into_iter().chain(figures));
        }
    }
    (table, notes)
}

/// Renders the finding and the table for a terminal with `width` columns.
pub(crate) fn render(results: &Results, width: usize, color: bool) -> String {
    let view = View::of(results);
    let Headline { first, more } = headline(results);
    let fill = |text: &str| say::filled(text, width);
    let bold = Tone::Heading.style(color);
    let mut text = String::new();
    for line in &first {
        let _ = writeln!(text, "{bold}{}{bold:#}", fill(line));
    }
    for more in more.iter().chain(&view.partial()) {
        let _ = writeln!(text, "{}", fill(more));
    }
    let room = if width < WIDTH_FULL { Room::Narrow } else { Room::Wide };
    let (table, notes) = table(view, room);
    let _ = writeln!(text, "\n{}", table.text(color));
    let mut below = notes;
    let lacks = |cell: &LoadPoint| cell.p99_ms.is_none() || cell.p999_ms.is_none();
    if results.policies.values().flatten().any(lacks) {
        below.push(format!(
            "{NONE}: a percentile needs at least 10 samples above it: p99 needs {} good responses, \
             p99.9 {} (--requests). p99.9 is not reported if the load generator was late too often.",
            needed(0.99),
            needed(0.999)
        ));
    }
    below.extend(Some(results.setup.strata.clone()).filter(|strata| !strata.is_empty()));
    // Describe the policies, because their names alone mean little to a newcomer.
    let known = results.policies().map(policy).filter(|name| !name.does.is_empty());
    below.extend(known.map(|name| format!("{}: {}.", name.short, name.does)));
    below.iter().for_each(|line| text += &(fill(line) + "\n"));
    // Replace no-break spaces, because people copy from terminals and search in logs.
    text.replace('\u{a0}', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::page::sample;

    #[test]
    fn it_fits_in_80_columns_and_narrower() {
        for width in [80, 60] {
            let text = render(&sample::results(), width, false);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest.is_some_and(|longest| longest <= width), "{text}");
            assert_eq!(text.contains("p99.9  "), width == 80, "{text}");
            for name in ["PSQ: one queue", "LÆDGE: per-shard", "Hiccups are drawn in strata."] {
                assert!(text.contains(name), "{text}");
            }
        }
        assert!(render(&sample::results(), 80, true).contains("\u{1b}["));
    }

    #[test]
    fn a_busy_machine_is_the_first_line_and_has_no_footnote_per_cell() {
        let mut results = sample::results();
        for cell in results.policies.values_mut().flatten() {
            let (others, stolen, stalled) = (0.8, 0.0, None);
            cell.machine = Some(curtail_machine::Taken { others, stolen, stalled });
            (cell.disturbed, cell.valid) = (true, false);
        }
        results.watch();
        results.compare();
        let text = render(&results, 100, false);
        assert!(text.starts_with("These figures are about this machine, not about"), "{text}");
        assert!(!text.contains("is not sound") && !text.contains("sure"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("PSQ *")).count(), 4, "{text}");
        let page = crate::demo::page::render(&results);
        let (_, headline) = page.split_once("<h1>").expect("a headline");
        assert!(headline.starts_with("These figures are about this machine"), "{page}");
    }

    #[test]
    fn missing_values_are_dashes_and_unsound_cells_have_a_reason() {
        let mut results = sample::results();
        results.loads.truncate(1);
        results.policies.values_mut().for_each(|cells| cells.truncate(1));
        assert!(!render(&results, 80, false).contains("good responses"), "nothing is missing");
        results.policies.remove("naive");
        let cell = &mut results.policies.get_mut("laedge").expect("in the sample")[0];
        (cell.p999_ms, cell.errors, cell.valid) = (None, 3, false);
        cell.invalid_because = vec!["fell behind".to_owned()];
        let text = render(&results, 80, false);
        for words in [
            "Partial: 2 of 3 cells.",
            "[1] LÆDGE is not sound at 10 %: fell behind.",
            "p99.9 10,000 (--requests)",
            "errors",
        ] {
            assert!(text.replace('\n', " ").contains(words), "no {words} in {text}");
        }
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or("");
        assert_eq!(row("Naive hedge").matches(NONE).count(), 6, "{text}");
        assert!(row("LÆDGE [1]").ends_with("3"), "{text}");
    }
}
