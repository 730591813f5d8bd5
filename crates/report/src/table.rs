//! Tables, as text for a terminal or as HTML for a page. A column is as wide as its longest cell.
//!
//! `comfy-table` has neither headings between rows nor rows that continue below their name, so this
//! writer is our own.

use std::fmt::{Display, Write as _};

use anstyle::{AnsiColor, Style};

use crate::page::{self, escape};

/// Emphasis of a cell.
#[derive(Clone, Copy, PartialEq)]
pub enum Tone {
    Plain,
    Heading,
    Best,
    Faint,
    /// Small on a page; has no effect on a terminal.
    Quiet,
}

impl Tone {
    /// The style of text on a terminal, with or without color.
    pub fn style(self, color: bool) -> Style {
        match self {
            _ if !color => Style::new(),
            Tone::Plain | Tone::Quiet => Style::new(),
            Tone::Heading => Style::new().bold(),
            Tone::Best => AnsiColor::Green.on_default().bold(),
            Tone::Faint => Style::new().dimmed(),
        }
    }
}

/// The text of a cell, and its emphasis.
#[derive(Clone)]
pub struct Cell {
    pub text: String,
    pub tone: Tone,
}

impl Cell {
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

impl<T: Display> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.to_string(), tone: Tone::Plain }
    }
}

/// A group of rows below a heading. The heading may be empty.
#[derive(Default)]
struct Group {
    heading: String,
    rows: Vec<Vec<Cell>>,
}

/// A table. The first column contains the names of the rows.
pub struct Table {
    /// The names of the columns, and their units.
    head: [Vec<String>; 2],
    groups: Vec<Group>,
    /// The minimum width of a column behind the first, with the gap before it.
    least: usize,
    /// The text after each row, which belongs to no column.
    notes: bool,
}

/// The number of spaces between columns.
const GAP: usize = 2;

impl Table {
    /// A table whose columns have these names.
    pub fn new(head: impl IntoIterator<Item = impl Display>) -> Self {
        let names: Vec<String> = head.into_iter().map(|name| name.to_string()).collect();
        let units = vec![String::new(); names.len()];
        Self { head: [names, units], groups: vec![Group::default()], least: 0, notes: false }
    }

    /// A table whose columns have names and units.
    pub fn with_units<'a>(head: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let (names, units) = head.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned())).unzip();
        Self { head: [names, units], ..Self::new([""; 0]) }
    }

    /// Makes columns, with the gap before them, at least this wide, so that several tables look
    /// alike.
    #[must_use]
    pub fn at_least(self, width: usize) -> Self {
        Self { least: width, ..self }
    }

    /// Makes the last column a text: flush left, and not counted in the width of the table.
    #[must_use]
    pub fn with_notes(self) -> Self {
        Self { notes: true, ..self }
    }

    /// Adds a row. It may have fewer cells than there are columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        let cells = cells.into_iter().map(Into::into).collect();
        if let Some(group) = self.groups.last_mut() {
            group.rows.push(cells);
        }
    }

    /// Adds a row with a name and a text, which extends over all columns.
    pub fn remark(&mut self, name: impl Display, text: impl Display) {
        self.row([format!("{name}\t{text}")]);
    }

    /// Begins a group of rows below a heading.
    pub fn group(&mut self, heading: impl Into<String>) {
        let group = Group { heading: heading.into(), rows: Vec::new() };
        match &self.groups[..] {
            [first] if first.rows.is_empty() && first.heading.is_empty() => {
                self.groups = vec![group];
            }
            _ => self.groups.push(group),
        }
    }

    fn widths(&self) -> Vec<usize> {
        let head = self.head.iter().map(|line| line.iter().map(Cell::from).collect::<Vec<_>>());
        let rows: Vec<Vec<Cell>> =
            head.chain(self.groups.iter().flat_map(|group| group.rows.clone())).collect();
        let long = |cell: &Cell| {
            let text = cell.text.split('\t').next().unwrap_or_default();
            text.lines().map(|line| line.chars().count()).max()
        };
        let width = |at| {
            let least = if at == 0 { 0 } else { self.least.saturating_sub(GAP) };
            rows.iter().filter_map(|row| long(row.get(at)?)).max().unwrap_or(0).max(least)
        };
        (0..self.head[0].len()).map(width).collect()
    }

    /// A line, and what continues below it.
    fn line(&self, row: &[Cell], widths: &[usize], color: bool) -> String {
        let (mut line, mut below) = (String::new(), String::new());
        for (at, (Cell { text, tone }, width)) in row.iter().zip(widths).enumerate() {
            let (text, more) = text.split_once('\n').unwrap_or((text, ""));
            below.extend(more.lines().map(|more| format!("{more}\n")));
            let (text, remark) = text.split_once('\t').unwrap_or((text, ""));
            let style = tone.style(color);
            let pad = " ".repeat(width.saturating_sub(text.chars().count()));
            let _ = match at {
                0 => write!(line, "{style}{text}{style:#}{pad}"),
                _ if self.notes && at + 1 == widths.len() => {
                    write!(line, "   {style}{text}{style:#}")
                }
                _ => write!(line, "  {pad}{style}{text}{style:#}"),
            };
            if !remark.is_empty() {
                let _ = write!(line, "  {remark}");
            }
        }
        line.trim_end().to_owned() + "\n" + &below
    }

    /// Renders the table without rules and emphasis. A heading has an empty line above it.
    pub fn bare(&self) -> String {
        let widths = self.widths();
        let line = |row: &[Cell]| self.line(row, &widths, false);
        let mut text = match &self.head[0] {
            names if names.iter().all(String::is_empty) => String::new(),
            names => line(&names.iter().map(Cell::from).collect::<Vec<_>>()),
        };
        for group in &self.groups {
            if !group.heading.is_empty() {
                let _ = writeln!(text, "\n{}", group.heading);
            }
            text.extend(group.rows.iter().map(|row| line(row)));
        }
        text
    }

    /// Renders the table with a rule above each group: the first column flush left, the others flush
    /// right. A name may have several lines.
    pub fn text(&self, color: bool) -> String {
        let widths = self.widths();
        let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let faint = Tone::Faint.style(color);
        let mut text = String::new();
        for (cells, tone) in self.head.iter().zip([Tone::Heading, Tone::Faint]) {
            let cells: Vec<Cell> = cells.iter().map(|cell| Cell::new(cell, tone)).collect();
            if tone == Tone::Heading || cells.iter().any(|cell| !cell.text.is_empty()) {
                text += &self.line(&cells, &widths, color);
            }
        }
        for group in &self.groups {
            let heading = match &group.heading[..] {
                "" => String::new(),
                heading => format!("── {heading} "),
            };
            let _ = writeln!(text, "{faint}{heading:─<total$}{faint:#}");
            text.extend(group.rows.iter().map(|row| self.line(row, &widths, color)));
        }
        // Replace no-break spaces, because people copy from terminals and search in logs.
        text.replace('\u{a0}', " ")
    }

    /// Renders the table for a page. `caption` is HTML, and `id` must be unique on the page.
    pub fn html(&self, id: &str, caption: &str) -> String {
        let [names, units] = &self.head;
        let head = names.iter().zip(units).map(|(name, unit)| {
            let unit = match &unit[..] {
                "" => String::new(),
                unit => format!("<span>{}</span>", escape(unit)),
            };
            format!(r#"<th scope="col">{}{unit}</th>"#, escape(name))
        });
        let mut body = String::new();
        for group in &self.groups {
            body += "<tbody>";
            if !group.heading.is_empty() {
                let (columns, heading) = (names.len(), escape(&group.heading));
                let _ = write!(
                    body,
                    r#"<tr><th scope="rowgroup" colspan="{columns}">{heading}</th></tr>"#
                );
            }
            for row in &group.rows {
                let cells = row.iter().enumerate().map(|(at, Cell { text, tone })| {
                    let text = match tone {
                        Tone::Quiet if !text.is_empty() => {
                            format!(r#"<span class="quiet">{}</span>"#, escape(text))
                        }
                        _ => escape(text),
                    };
                    match tone {
                        _ if at == 0 => format!(r#"<th scope="row">{text}</th>"#),
                        Tone::Best => format!("<td><strong>{text}</strong></td>"),
                        Tone::Faint => format!(r#"<td class="unsound">{text}</td>"#),
                        Tone::Plain | Tone::Heading | Tone::Quiet => format!("<td>{text}</td>"),
                    }
                });
                let _ = write!(body, "<tr>{}</tr>", cells.collect::<String>());
            }
            body += "</tbody>";
        }
        page::table(id, caption, &head.collect::<String>(), &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let mut table = Table::new(["policy", "p50", "p99", ""]).at_least(6).with_notes();
        table.row(["psq", "1.00", "12345.67", "a note"]);
        table.remark("laedge:cc", "unstable: overload");
        table.group("more");
        table.row(["b", "–"]);
        let lines = [
            "policy      p50       p99",
            "psq        1.00  12345.67   a note",
            "laedge:cc  unstable: overload",
            "",
            "more",
            "b             –",
        ];
        assert_eq!(table.bare().lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn groups_have_rules_and_units_a_line() {
        let mut table = Table::with_units([("policy", ""), ("p99", "ms")]);
        table.group("30\u{a0}%");
        table.row([Cell::from("Rescue,\n  over psq"), Cell::new("9.5", Tone::Best)]);
        let text =
            "policy      p99\n             ms\n── 30 % ───────\nRescue,     9.5\n  over psq\n";
        assert_eq!(table.text(false), text);
        assert!(table.text(true).contains("\u{1b}[1m"), "{}", table.text(true));
        let html = table.html("t", "All.");
        assert!(html.contains("<td><strong>9.5</strong></td>"), "{html}");
        assert!(html.contains(r#"colspan="2">30"#), "{html}");
    }
}
