//! Draws line charts that show how a figure depends on a varied quantity, with one line per policy.

use std::fmt::Write as _;

use super::frame::{Caption, Frame, ROW_HEIGHT, Scale, Side, Size, begin, spread, text, ticks};
use crate::number::escape;
use crate::number::{three, tick};
use crate::policy::{Look, policy, two_lines};

/// Upper bound of a digit's width in the text of a plot, for any font.
const DIGIT_WIDTH: f64 = 8.0;

/// Upper bounds for the mean width of a letter in a name, and for the height of a line of text.
const LETTER_WIDTH: f64 = 7.0;
const NAME_HEIGHT: f64 = 18.0;

/// A measured value.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub x: f64,
    pub value: f64,
    /// Whether the measurement is sound. If not, its marker is hollow.
    pub sound: bool,
}

/// The line of a policy. A point that is `None` leaves a gap in the line.
pub struct Line<'a> {
    pub policy: &'a str,
    pub look: Look,
    pub points: Vec<Option<Point>>,
}

/// Returns n if every nth label of the x axis is drawn.
fn crowded(size: Size, places: usize) -> usize {
    let fit = match size.class {
        "small" => 5,
        "narrow" => 7,
        _ => 14,
    };
    places.div_ceil(fit).max(1)
}

/// A chart of lines.
pub struct Chart<'a> {
    pub caption: Caption,
    /// The name of the y axis, with its unit.
    pub name: &'a str,
    /// The unit of values in tooltips, or empty.
    pub unit: &'a str,
    /// The name of the x axis.
    pub x_name: &'a str,
    /// Formats a value of the x axis.
    pub x_text: &'a dyn Fn(f64) -> String,
    /// The values that may be labeled, ascending.
    pub xs: &'a [f64],
    pub lines: &'a [Line<'a>],
    /// The lower end of the y axis.
    pub floor: f64,
    /// The upper end of the y axis. Larger values are off the chart, so that a policy that
    /// collapses does not flatten the lines of the others.
    pub most: f64,
    /// A wide chart has the names next to the lines; otherwise they are in the legend.
    pub size: Size,
    /// The text of a chart without points.
    pub nothing: &'a str,
}

/// A chart with its scales.
struct Plot<'a> {
    chart: &'a Chart<'a>,
    frame: Frame,
    x: Scale,
    y: Scale,
}

/// Draws a chart. If there are no points, the chart consists of the axes and a remark.
pub fn draw(chart: &Chart<'_>) -> String {
    let values: Vec<f64> = points(chart.lines).map(|point| point.value).collect();
    let y_ticks = ticks(chart.floor, top(&values, chart.floor, chart.most), 5.0);
    let highest = y_ticks.last().copied().unwrap_or(1.0);
    let frame = frame(chart.size, longest_name(chart.lines));
    let (first, last) = bounds(chart.xs);
    let x = Scale { values: (first, last), positions: (frame.left, frame.plot_right()) };
    let notes = off_chart(chart, highest, x, frame.width);
    let frame = frame.with_rows(notes.iter().map(|note| note.row + 1).max().unwrap_or(0));
    let y = Scale { values: (chart.floor, highest), positions: (frame.plot_bottom(), frame.top) };
    let plot = Plot { chart, frame, x, y };

    let places = chart.xs.iter().step_by(crowded(chart.size, chart.xs.len()));
    let x_ticks: Vec<_> = places.map(|&place| (x.at(place), (chart.x_text)(place))).collect();
    let y_ticks: Vec<_> = y_ticks.iter().map(|value| (y.at(*value), tick(*value))).collect();
    let mut svg = begin(&plot.frame, &chart.caption, chart.size.class);
    let x_side = Side { name: chart.x_name, ticks: &x_ticks };
    svg += &plot.frame.axes(x_side, Side { name: chart.name, ticks: &y_ticks });
    for note in &notes {
        svg += &plot.note(note);
    }
    // Draw the compared policies last, on top of the others.
    let mut lines: Vec<_> = chart.lines.iter().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.look.color));
    for line in lines {
        svg += &plot.line(line);
    }
    if !chart.size.is_narrow() {
        svg += &plot.names();
    }
    if values.is_empty() {
        svg += &plot.nothing();
    }
    svg + "</svg>"
}

fn points<'a>(lines: &'a [Line<'a>]) -> impl Iterator<Item = Point> + 'a {
    lines.iter().flat_map(|line| line.points.iter().flatten().copied())
}

/// Returns the largest value that the y axis must cover.
fn top(values: &[f64], floor: f64, most: f64) -> f64 {
    let on_chart = values.iter().copied().filter(|value| *value <= most);
    on_chart.max_by(f64::total_cmp).filter(|top| *top > floor).unwrap_or(floor + 1.0)
}

/// Returns the ends of the x axis, which are slightly beyond the values to leave room for markers.
fn bounds(xs: &[f64]) -> (f64, f64) {
    let first = xs.iter().copied().fold(f64::INFINITY, f64::min);
    let last = xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match last - first {
        span if span > 0.0 => (first - span * 0.04, last + span * 0.03),
        0.0 => (first - 0.05, last + 0.05),
        _ => (0.0, 1.0),
    }
}

/// Returns the length of the longest line of a name.
fn longest_name(lines: &[Line<'_>]) -> usize {
    let lengths = lines.iter().map(|line| {
        let name = policy(line.policy).short;
        let [first, second] = two_lines(&name);
        first.chars().count().max(second.chars().count())
    });
    lengths.max().unwrap_or(0)
}

fn frame(size: Size, longest_name: usize) -> Frame {
    let names = (22.0 + LETTER_WIDTH * longest_name as f64).clamp(136.0, 320.0);
    let (width, height, left, right) = match size.class {
        "small" => (312.0, 250.0, 38.0, 12.0),
        "narrow" => (344.0, 360.0, 36.0, 12.0),
        _ => (960.0, 440.0, 46.0, names),
    };
    Frame { width, height, left, right, top: 28.0, bottom: 46.0 }
}

/// A value that is off the chart and is therefore written above it.
struct Note<'a> {
    line: &'a Line<'a>,
    point: Point,
    text: String,
    /// The center of the text.
    x: f64,
    /// The row of the text, counted from below.
    row: usize,
}

/// Returns the values that are off the chart, in the fewest rows in which their texts do not
/// overlap. In a small chart, there are only arrowheads and no texts.
fn off_chart<'a>(chart: &'a Chart<'_>, highest: f64, x: Scale, width: f64) -> Vec<Note<'a>> {
    let mut notes: Vec<Note<'_>> = Vec::new();
    if chart.size.class == "small" {
        return notes;
    }
    // The right end of the texts in each row.
    let mut rows: Vec<f64> = Vec::new();
    for place in chart.xs {
        for line in chart.lines {
            let here = |point: &&Point| point.x == *place && point.value > highest;
            for point in line.points.iter().flatten().filter(here) {
                let text = format!("↑{}", three(point.value));
                let half = text.chars().count() as f64 * DIGIT_WIDTH / 2.0;
                let x = x.at(*place).min(width - half);
                let free = rows.iter().position(|end| *end < x - half);
                let row = free.unwrap_or(rows.len());
                rows.resize(rows.len().max(row + 1), 0.0);
                rows[row] = x + half + DIGIT_WIDTH;
                notes.push(Note { line, point: *point, text, x, row });
            }
        }
    }
    notes
}

impl Plot<'_> {
    fn is_off(&self, point: Point) -> bool {
        point.value > self.y.values.1
    }

    /// Draws the line of a policy, with its markers and their tooltips.
    fn line(&self, line: &Line<'_>) -> String {
        let mut svg = format!(r#"<g class="k{}">"#, line.look.color);
        let (path, exits) = self.path(&line.points);
        let _ = write!(svg, r#"<path d="{path}" {}/>"#, line.look.stroke());
        for (x, slope) in exits {
            // Draws an arrowhead in the direction of the line, with its tip on the edge.
            let turn = 90.0 - slope.to_degrees();
            let top = self.frame.top;
            let _ = write!(
                svg,
                r#"<path class="head" d="M0 0L4.5 10L-4.5 10Z" transform="translate({x:.1} {top:.1}) rotate({turn:.1})"/>"#
            );
        }
        for point in line.points.iter().flatten().filter(|point| !self.is_off(**point)) {
            let mark = line.look.marker(self.x.at(point.x), self.y.at(point.value));
            svg += &self.mark(line, *point, &mark);
        }
        svg + "</g>"
    }

    fn mark(&self, line: &Line<'_>, point: Point, path: &str) -> String {
        let class = if point.sound { "mark" } else { "mark hollow" };
        let tip = self.tip(line, point);
        format!(r#"<path class="{class}" d="{path}"><title>{tip}</title></path>"#)
    }

    fn tip(&self, line: &Line<'_>, point: Point) -> String {
        let name = policy(line.policy).short;
        let unsound = if point.sound { "" } else { " (not sound)" };
        let at = (self.chart.x_text)(point.x);
        let tip = format!("{name} at {at}: {}{}{unsound}", three(point.value), self.chart.unit);
        escape(&tip)
    }

    /// Returns the path through the points, clipped at the upper edge. Also returns, for each point
    /// at which the line leaves the chart there, its x and the line's angle to the x axis.
    fn path(&self, points: &[Option<Point>]) -> (String, Vec<(f64, f64)>) {
        let (mut path, mut exits) = (String::new(), Vec::new());
        let mut pen = None;
        for pair in points.windows(2) {
            let [Some(from), Some(to)] = pair else { continue };
            let at = |point: &Point| (self.x.at(point.x), self.y.at(point.value));
            let (from_off, to_off) = (self.is_off(*from), self.is_off(*to));
            let (mut start, mut end) = (at(from), at(to));
            let part = (self.frame.top - start.1) / (end.1 - start.1);
            let edge = (start.0 + part * (end.0 - start.0), self.frame.top);
            match (from_off, to_off) {
                (true, true) => continue,
                (true, false) => start = edge,
                (false, true) => {
                    exits.push((edge.0, (start.1 - end.1).atan2(end.0 - start.0)));
                    end = edge;
                }
                (false, false) => {}
            }
            if pen != Some(start) {
                let _ = write!(path, "M{:.1} {:.1}", start.0, start.1);
            }
            let _ = write!(path, "L{:.1} {:.1}", end.0, end.1);
            pen = Some(end);
        }
        (path, exits)
    }

    /// Draws a value that is off the chart.
    fn note(&self, note: &Note<'_>) -> String {
        let y = self.frame.top - 12.0 - note.row as f64 * ROW_HEIGHT;
        let class = if note.point.sound { "off" } else { "off unsound" };
        format!(
            r#"<g class="k{}"><title>{}</title>{}</g>"#,
            note.line.look.color,
            self.tip(note.line, note.point),
            text(note.x, y, "middle", class, &note.text)
        )
    }

    /// Writes the remark in the middle, in lines that fit into a small chart.
    fn nothing(&self) -> String {
        let Frame { left, top, .. } = self.frame;
        let x = (left + self.frame.plot_right()) / 2.0;
        let middle = (top + self.frame.plot_bottom()) / 2.0;
        let lines = self.chart.nothing.split(": ").enumerate();
        lines
            .map(|(row, line)| text(x, middle + ROW_HEIGHT * row as f64, "middle", "name", line))
            .collect()
    }

    /// Writes the names of the policies next to the ends of their lines.
    fn names(&self) -> String {
        let end = |line: &Line<'_>| {
            let point = line.points.iter().flatten().last()?;
            Some((self.x.at(point.x), self.y.at(point.value).max(self.frame.top)))
        };
        let mut ends: Vec<_> =
            self.chart.lines.iter().filter_map(|line| Some((end(line)?, line))).collect();
        ends.sort_by(|a, b| a.0.1.total_cmp(&b.0.1));
        let mut places: Vec<f64> = ends.iter().map(|((_, y), _)| *y).collect();
        let names: Vec<String> = ends.iter().map(|(_, line)| policy(line.policy).short).collect();
        let two = names.iter().any(|name| !two_lines(name)[1].is_empty());
        let apart = if two { 2.0 * NAME_HEIGHT } else { NAME_HEIGHT };
        spread(&mut places, apart, self.frame.top..=self.frame.plot_bottom());
        let x = self.frame.plot_right() + 14.0;
        let mut svg = String::new();
        for (((end, line), place), name) in ends.iter().zip(places).zip(&names) {
            let color = line.look.color;
            let _ = write!(svg, r#"<g class="k{color}">"#);
            if end.1 > self.frame.top {
                let (from, to) = (end.0 + 7.0, x - 3.0);
                let _ = write!(
                    svg,
                    r#"<path class="leader" d="M{from:.1} {:.1}L{to:.1} {place:.1}"/>"#,
                    end.1
                );
            }
            let class = if color < 2 { "line-name strong" } else { "line-name" };
            let [first, second] = two_lines(name);
            svg += &text(x, place + 4.5, "start", class, first);
            if !second.is_empty() {
                svg += &text(x, place + 4.5 + 0.9 * NAME_HEIGHT, "start", class, second);
            }
            svg += "</g>";
        }
        svg
    }
}
