//! Tables, as text for a terminal or as HTML for a page.

use std::fmt::{Display, Write as _};

use anstyle::{AnsiColor, Style};

use crate::plot::format::escape;
use crate::plot::html;

/// A line of cells, each at least as wide as its column: flush right, or flush left if the width is
/// negative.
pub(crate) fn row(columns: &[isize], cells: impl IntoIterator<Item = impl Display>) -> String {
    let mut text = String::new();
    for (column, cell) in columns.iter().zip(cells) {
        let (cell, width) = (cell.to_string(), column.unsigned_abs());
        let _ = if *column < 0 {
            write!(text, "{cell:<width$}")
        } else {
            write!(text, "{cell:>width$}")
        };
    }
    text + "\n"
}

/// Emphasis of a cell.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Tone {
    Plain,
    Heading,
    Best,
    Faint,
}

impl Tone {
    /// The style of text on a terminal, with or without color.
    pub(crate) fn style(self, color: bool) -> Style {
        match self {
            _ if !color => Style::new(),
            Tone::Plain => Style::new(),
            Tone::Heading => Style::new().bold(),
            Tone::Best => AnsiColor::Green.on_default().bold(),
            Tone::Faint => Style::new().dimmed(),
        }
    }
}

pub(crate) type TableCell = (String, Tone);

/// A group of rows below a heading. The heading may be empty.
pub(crate) struct Group {
    pub(crate) heading: String,
    pub(crate) rows: Vec<Vec<TableCell>>,
}

/// A table whose first column contains the row names.
pub(crate) struct Table {
    /// Names of the columns, and their units.
    pub(crate) head: Vec<(String, String)>,
    pub(crate) groups: Vec<Group>,
}

impl Table {
    /// A table without headings or emphasis.
    pub(crate) fn plain<const N: usize>(head: [(&str, &str); N], rows: Vec<[String; N]>) -> Self {
        let head = head.map(|(name, unit)| (name.to_owned(), unit.to_owned()));
        let rows = rows.into_iter().map(|row| row.map(|text| (text, Tone::Plain)).to_vec());
        let groups = vec![Group { heading: String::new(), rows: rows.collect() }];
        Self { head: head.to_vec(), groups }
    }

    /// Renders the table for a terminal: the first column flush left, the others flush right. A
    /// name may have several lines.
    pub(crate) fn text(&self, color: bool) -> String {
        let line_of = |of: fn(&(String, String)) -> &String, tone| -> Vec<TableCell> {
            self.head.iter().map(|head| (of(head).clone(), tone)).collect()
        };
        let mut head = vec![line_of(|head| &head.0, Tone::Heading)];
        if self.head.iter().any(|head| !head.1.is_empty()) {
            head.push(line_of(|head| &head.1, Tone::Faint));
        }
        let rows = || head.iter().chain(self.groups.iter().flat_map(|group| &group.rows));
        let longest = |cell: &TableCell| cell.0.lines().map(|line| line.chars().count()).max();
        let width = |at: usize| rows().filter_map(|row| longest(&row[at])).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let line = |row: &Vec<TableCell>| {
            let (mut line, mut below) = (String::new(), String::new());
            for (at, ((text, tone), width)) in row.iter().zip(&widths).enumerate() {
                let (text, more) = text.split_once('\n').unwrap_or((text, ""));
                below.extend(more.lines().map(|more| format!("{more}\n")));
                let (style, pad) = (tone.style(color), " ".repeat(width - text.chars().count()));
                let _ = match at {
                    0 => write!(line, "{style}{text}{style:#}{pad}"),
                    _ => write!(line, "  {pad}{style}{text}{style:#}"),
                };
            }
            line.trim_end().to_owned() + "\n" + &below
        };
        let faint = Tone::Faint.style(color);
        let mut text: String = head.iter().map(line).collect();
        for group in &self.groups {
            let heading = match &group.heading[..] {
                "" => String::new(),
                heading => format!("── {heading} "),
            };
            let _ = writeln!(text, "{faint}{heading:─<total$}{faint:#}");
            text.extend(group.rows.iter().map(line));
        }
        // Replace no-break spaces, because people copy from terminals and search in logs.
        text.replace('\u{a0}', " ")
    }

    /// Renders the table for a page. `caption` is HTML, and `id` must be unique on the page.
    pub(crate) fn html(&self, id: &str, caption: &str) -> String {
        let head = self.head.iter().map(|(name, unit)| {
            format!(r#"<th scope="col">{}<span>{}</span></th>"#, escape(name), escape(unit))
        });
        let mut body = String::new();
        for group in &self.groups {
            body += "<tbody>";
            if !group.heading.is_empty() {
                let (columns, heading) = (self.head.len(), escape(&group.heading));
                let _ = write!(
                    body,
                    r#"<tr><th scope="rowgroup" colspan="{columns}">{heading}</th></tr>"#
                );
            }
            for row in &group.rows {
                let cells = row.iter().enumerate().map(|(at, (text, tone))| {
                    let text = escape(text);
                    match tone {
                        _ if at == 0 => format!(r#"<th scope="row">{text}</th>"#),
                        Tone::Best => format!("<td><strong>{text}</strong></td>"),
                        Tone::Faint => format!(r#"<td class="unsound">{text}</td>"#),
                        Tone::Plain | Tone::Heading => format!("<td>{text}</td>"),
                    }
                });
                let _ = write!(body, "<tr>{}</tr>", cells.collect::<String>());
            }
            body += "</tbody>";
        }
        html::table(id, caption, &head.collect::<String>(), &body)
    }
}
