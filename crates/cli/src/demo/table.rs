//! The figures in a terminal.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use curtail_load::SAMPLES_ABOVE_MIN;

use super::findings::{View, answered, copies_per_query, headline, interval, is_withheld, needed};
use super::results::{Cell, Results};
use crate::plot::format::{NONE, and, count, policy, three_or_none, utilization};

/// Narrower than this the minor columns are left out.
const WIDTH_FULL: usize = 72;

/// Text is not set narrower or wider than this, whatever the terminal.
const TEXT_WIDTH: std::ops::RangeInclusive<usize> = 24..=100;

/// A column of figures.
struct Column {
    name: &'static str,
    unit: String,
    minor: bool,
    of: fn(View<'_>, &str, &Cell) -> String,
}

fn columns(view: View<'_>, width: usize) -> Vec<Column> {
    let baseline = view.baseline.map_or(String::new(), |name| policy(name).short);
    let column = |name, unit: &str, minor, of| Column { name, unit: unit.to_owned(), minor, of };
    let all: [Column; 5] = [
        column("p50", "ms", true, |_, _, cell| three_or_none(cell.p50_ms)),
        column("p99", "ms", false, |_, _, cell| three_or_none(cell.p99_ms)),
        column("p99.9", "ms", true, |_, _, cell| three_or_none(cell.p999_ms)),
        column("copies", "per query", false, |_, _, cell| three_or_none(copies_per_query(cell))),
        column("gain", &format!("over {baseline}"), false, gain),
    ];
    all.into_iter().filter(|column| width >= WIDTH_FULL || !column.minor).collect()
}

fn gain(view: View<'_>, name: &str, cell: &Cell) -> String {
    if view.baseline == Some(name) {
        return "·".to_owned();
    }
    view.gain(name, cell.load).map_or(NONE.to_owned(), interval)
}

/// A text in a place of the table, and whether it stands out.
struct Field {
    text: String,
    style: Style,
}

/// Renders the table, after the finding, for a terminal of that many columns.
pub(crate) fn render(results: &Results, width: usize, color: bool) -> String {
    let view = View::of(results);
    let styles = Styles::new(color);
    let headline = headline(results);
    let text_width = width.clamp(*TEXT_WIDTH.start(), *TEXT_WIDTH.end());
    let mut text = String::new();
    for line in wrap(&headline.finding, text_width) {
        let _ = writeln!(text, "{}{line}{:#}", styles.bold, styles.bold);
    }
    if !headline.but.is_empty() {
        text += &lines(&headline.but, text_width);
    }
    if !headline.also.is_empty() {
        text += &lines(&headline.also, text_width);
    }
    let (planned, measured) = view.cells();
    if results.partial || measured < planned {
        text += &lines(&format!("Partial: {measured} of {planned} cells."), text_width);
    }
    text.push('\n');
    let mut notes = Vec::new();
    text += &grid(view, width, &styles, &mut notes);
    if !notes.is_empty() {
        text.push('\n');
        for note in notes {
            text += &lines(&note, text_width);
        }
    }
    let told = [unanswered(view), missing(view, width), late(view, width)];
    for line in told.into_iter().flatten() {
        text += &format!("\n{}", lines(&line, text_width));
    }
    text += &legend(view, text_width);
    // Ordinary spaces: people copy from terminals, and search in logs.
    text.replace('\u{a0}', " ")
}

/// What the policies do: their names alone say little to who meets them first.
fn legend(view: View<'_>, width: usize) -> String {
    let known = view.policies().map(policy).filter(|name| !name.does.is_empty());
    let told = known.map(|name| lines(&format!("{}: {}.", name.short, name.does), width));
    let told: String = told.collect();
    if told.is_empty() { told } else { format!("\n{told}") }
}

/// Which cells leave requests out, for these have no latency, unless a reason says so already.
fn unanswered(view: View<'_>) -> Option<String> {
    let is_told = |cell: &Cell| {
        let told = format!("{} of {} requests have no good answer", cell.errors, cell.requests);
        cell.invalid_because.iter().any(|reason| reason.contains(&told))
    };
    let some = cells(view, |cell| cell.errors > 0 && !is_told(cell));
    let of = |(name, cell): (&str, &Cell)| {
        let (failed, all) = (count(cell.errors), count(cell.requests));
        format!("{} at {} ({failed} of {all})", policy(name).short, utilization(cell.load))
    };
    let those = and(some.into_iter().map(of));
    (!those.is_empty()).then(|| format!("Without a good answer, and in no percentile: {those}."))
}

/// The cells that are so, in the order of the table.
fn cells(view: View<'_>, is: impl Fn(&Cell) -> bool) -> Vec<(&str, &Cell)> {
    let at = |load: f64| {
        let cells = view.policies().filter_map(move |name| Some((name, view.cell(name, load)?)));
        cells.collect::<Vec<_>>()
    };
    let all = view.results.loads.iter().flat_map(|load| at(*load));
    all.filter(|(_, cell)| is(cell)).collect()
}

/// Where p99.9 is missing although there are enough answers for it.
fn late(view: View<'_>, width: usize) -> Option<String> {
    if !columns(view, width).iter().any(|column| column.name == "p99.9") {
        return None;
    }
    let name = |(name, cell): (&str, &Cell)| {
        format!("{} at {}", policy(name).short, utilization(cell.load))
    };
    let those = and(cells(view, is_withheld).into_iter().map(name));
    let why = "the load generator was late too often for it";
    (!those.is_empty()).then(|| format!("{NONE}: p99.9 is withheld where {why}: {those}."))
}

/// Why there is a dash where a percentile should be.
fn missing(view: View<'_>, width: usize) -> Option<String> {
    type Percentile = (&'static str, f64, fn(&Cell) -> Option<f64>);
    let percentiles: [Percentile; 3] = [
        ("p50", 0.5, |cell| cell.p50_ms),
        ("p99", 0.99, |cell| cell.p99_ms),
        ("p99.9", 0.999, |cell| cell.p999_ms),
    ];
    let columns = columns(view, width);
    let shown = |name| columns.iter().any(|column| column.name == name);
    let cells = || view.results.policies.values().flatten();
    let missing = percentiles.iter().filter(|(name, quantile, of)| {
        let lacks = |cell: &Cell| of(cell).is_none() && answered(cell) < needed(*quantile);
        shown(*name) && cells().any(lacks)
    });
    let needs = missing.map(|(name, quantile, _)| {
        format!("{name} takes {} good answers", count(needed(*quantile)))
    });
    let needs: Vec<String> = needs.collect();
    let least = SAMPLES_ABOVE_MIN;
    let rule = format!("{NONE}: with fewer than {least} samples above it a percentile is chance");
    (!needs.is_empty()).then(|| format!("{rule}; {}; see --requests.", needs.join(", ")))
}

/// What may stand out, or nothing without color.
struct Styles {
    bold: Style,
    best: Style,
    dim: Style,
}

impl Styles {
    fn new(color: bool) -> Styles {
        if !color {
            return Styles { bold: Style::new(), best: Style::new(), dim: Style::new() };
        }
        let best = Style::new().bold().fg_color(Some(AnsiColor::Green.into()));
        Styles { bold: Style::new().bold(), best, dim: Style::new().dimmed() }
    }
}

/// The table itself: a group of rows for each load, a row for each policy.
fn grid(view: View<'_>, width: usize, styles: &Styles, notes: &mut Vec<String>) -> String {
    let columns = columns(view, width);
    let plain = |text: &str| Field { text: text.to_owned(), style: Style::new() };
    let dim = |text: &str| Field { text: text.to_owned(), style: styles.dim };
    let bold = |text: &str| Field { text: text.to_owned(), style: styles.bold };
    let mut head = vec![bold("load"), bold("policy")];
    head.extend(columns.iter().map(|column| bold(column.name)));
    let mut units = vec![plain(""), plain("")];
    units.extend(columns.iter().map(|column| dim(&column.unit)));

    let mut groups = Vec::new();
    for load in &view.results.loads {
        let best = view.best(*load);
        let mut rows = Vec::new();
        for (i, name) in view.policies().enumerate() {
            let at = if i == 0 { utilization(*load) } else { String::new() };
            let mut row = vec![bold(&at), plain(&policy(name).short)];
            let Some(cell) = view.cell(name, *load) else {
                row.extend(columns.iter().map(|_| dim(NONE)));
                rows.push(row);
                continue;
            };
            if !cell.valid {
                let reasons = cell.invalid_because.join("; ");
                let mark = notes.len() + 1;
                let _ = write!(row[1].text, " [{mark}]");
                let note = format!("[{mark}] not sound at {}: {reasons}", utilization(*load));
                notes.push(note);
            }
            for column in &columns {
                let style = match (cell.valid, best == Some(name) && column.name == "p99") {
                    (false, _) => styles.dim,
                    (true, true) => styles.best,
                    (true, false) => Style::new(),
                };
                row.push(Field { text: (column.of)(view, name, cell), style });
            }
            rows.push(row);
        }
        groups.push(rows);
    }
    lay_out(&[head, units], &groups, styles)
}

/// Sets fields in columns: the first two to the left, the others to the right.
fn lay_out(head: &[Vec<Field>], groups: &[Vec<Vec<Field>>], styles: &Styles) -> String {
    let rows = || head.iter().chain(groups.iter().flatten());
    let count = head.first().map_or(0, Vec::len);
    let width = |i: usize| rows().map(|row| row[i].text.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let total = widths.iter().sum::<usize>() + 2 * count.saturating_sub(1);
    let line = |row: &Vec<Field>| {
        let mut text = String::new();
        for (i, (field, width)) in row.iter().zip(&widths).enumerate() {
            let gap = if i == 0 { "" } else { "  " };
            let pad = " ".repeat(width - field.text.chars().count());
            let (before, after) = if i < 2 { ("", &pad[..]) } else { (&pad[..], "") };
            let style = field.style;
            let _ = write!(text, "{gap}{before}{style}{}{style:#}{after}", field.text);
        }
        text.trim_end().to_owned() + "\n"
    };
    let rule = format!("{}{}{:#}\n", styles.dim, "─".repeat(total), styles.dim);
    let mut text: String = head.iter().map(line).collect();
    for group in groups {
        text += &rule;
        text.extend(group.iter().map(line));
    }
    text
}

fn lines(text: &str, width: usize) -> String {
    wrap(text, width).into_iter().map(|line| line + "\n").collect()
}

/// Breaks text at its spaces. A word that is longer than a line gets one of its own.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::report::sample;

    #[test]
    fn it_fits_in_80_columns_and_narrower() {
        for width in [80, 60] {
            let text = render(&sample::results(), width, false);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{longest:?} in {width}:\n{text}");
        }
    }

    #[test]
    fn color_highlights_the_best_and_nothing_without_it() {
        let plain = render(&sample::results(), 80, false);
        assert!(!plain.contains('\u{1b}'));
        let colored = render(&sample::results(), 80, true);
        let green = Style::new().bold().fg_color(Some(AnsiColor::Green.into()));
        assert_eq!(colored.matches(&green.to_string()).count(), 7, "one per load");
        assert!(colored.contains(&format!("{green}50.4{green:#}")));
    }

    #[test]
    fn it_says_the_finding_and_the_figures() {
        let text = render(&sample::results(), 80, false);
        assert!(text.starts_with("LÆDGE’s 99th percentile is 31 % below"), "{text}");
        let row = text.lines().find(|line| line.trim_start().starts_with("LÆDGE  ")).unwrap_or("");
        let fields: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(fields, ["LÆDGE", "22.6", "50.4", "81.9", "1.83", "45", "to", "51", "%"]);
    }

    #[test]
    fn it_says_what_each_policy_does() {
        let text = render(&sample::results(), 80, false);
        for name in &sample::results().order {
            let policy = policy(name);
            let first = policy.does.split(' ').next().unwrap_or_default();
            let start = format!("{}: {first}", policy.short).replace('\u{a0}', " ");
            let lines = text.lines().filter(|line| line.starts_with(&start));
            assert_eq!(lines.count(), 1, "{name}:\n{text}");
        }
    }

    #[test]
    fn what_is_missing_is_a_dash_and_what_is_unsound_has_its_reason() {
        let mut results = sample::results();
        results.loads.truncate(1);
        results.partial = true;
        results.policies.remove("random");
        let cell = &mut results.policies.get_mut("laedge").expect("in the sample")[0];
        (cell.p999_ms, cell.requests) = (None, 9_999);
        cell.valid = false;
        cell.invalid_because = vec!["fell behind".to_owned()];
        let text = render(&results, 80, false);
        assert!(text.contains("Partial: 4 of 5 cells."), "{text}");
        assert!(text.contains("[1] not sound at 10 %: fell behind"), "{text}");
        let line = text.replace('\n', " ");
        assert!(line.contains("p99.9 takes 10,000 good answers; see --requests."), "{text}");
        assert!(!line.contains("p99 takes"), "{text}");
        assert!(!render(&results, 60, false).contains("good answers"), "that column is not shown");
        assert!(
            !render(&sample::results(), 80, false).contains("good answers"),
            "nothing is missing"
        );
        let row = |name: &str| text.lines().find(|line| line.contains(name)).unwrap_or("");
        assert_eq!(row("Random").matches(NONE).count(), 5, "{text}");
        assert_eq!(row("LÆDGE [1]").matches(NONE).count(), 2, "{text}");
    }

    /// The table in one line, of the sample with one cell of LÆDGE's changed.
    fn told(change: impl Fn(&mut Cell)) -> String {
        let mut results = sample::results();
        change(&mut results.policies.get_mut("laedge").expect("in the sample")[0]);
        render(&results, 80, false).replace('\n', " ")
    }

    #[test]
    fn requests_without_a_good_answer_are_told_once() {
        let failed = "Without a good answer, and in no percentile: ";
        assert!(!told(|_| ()).contains(failed));
        let text = told(|cell| cell.errors = 3);
        assert!(text.contains(&format!("{failed}LÆDGE at 10 % (3 of 12,000).")), "{text}");
        let of = |reason: &'static str| {
            told(move |cell| {
                (cell.errors, cell.valid) = (30, false);
                cell.invalid_because = vec![reason.to_owned()];
            })
        };
        let text = of("fell behind");
        assert!(text.contains(&format!("{failed}LÆDGE at 10 % (30 of 12,000).")), "{text}");
        let text = of("left out: 30 of 12000 requests have no good answer");
        assert!(!text.contains(failed), "the note says it: {text}");
    }

    #[test]
    fn a_p99_9_that_is_withheld_is_not_said_to_lack_requests() {
        let text = told(|cell| cell.p999_ms = None);
        let why = "—: p99.9 is withheld where the load generator was late too often for it: LÆDGE at \
                   10 %.";
        assert!(text.contains(why), "{text}");
        assert!(!text.contains("good answers"), "{text}");
        let text = told(|cell| (cell.p999_ms, cell.errors) = (None, 2_001));
        assert!(!text.contains("withheld"), "there are 9,999 good answers: {text}");
        assert!(text.contains("p99.9 takes 10,000 good answers"), "{text}");
    }
}
