//! The look of each policy: a color that color-blind readers can distinguish, and a marker and a
//! dash that work without color.

use std::fmt::Write as _;

use super::format::{escape, policy};

/// How the line of a policy is drawn. Colors are in the style sheet, because they depend on the
/// color scheme.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// The number of the class that sets the color: `k0` for the baseline, `k1` for the subject.
    pub color: usize,
    pub dash: &'static str,
    pub width: f64,
}

/// The number of different looks.
const LOOKS: usize = 8;

/// The dash pattern of each look, except for the baseline and the subject, whose lines are solid.
const DASHES: [&str; LOOKS - 2] = ["7 4", "1.5 3.5", "10 3 2 3", "4 3", "14 4", "8 3 2 3 2 3"];

/// Assigns looks to the policies, in the given order. The baseline and the subject get solid lines.
pub fn looks<'a>(
    policies: impl Iterator<Item = &'a str>,
    baseline: Option<&str>,
    subject: Option<&str>,
) -> Vec<(&'a str, Look)> {
    let mut taken = Vec::new();
    let mut of = |name: &str| match name {
        name if Some(name) == baseline => look(0),
        name if Some(name) == subject => look(1),
        name => {
            let first = usual(name);
            let mut free = (first..LOOKS).chain(2..first).filter(|color| !taken.contains(color));
            let color = free.next().unwrap_or(first);
            taken.push(color);
            look(color)
        }
    };
    policies.map(|name| (name, of(name))).collect()
}

/// Returns the look for a color number, which is taken modulo the number of looks. The first two
/// looks have solid lines.
pub fn look(color: usize) -> Look {
    match color % LOOKS {
        0 => Look { color: 0, dash: "", width: 2.0 },
        1 => Look { color: 1, dash: "", width: 3.0 },
        color => Look { color, dash: DASHES[color - 2], width: 1.8 },
    }
}

/// The preferred color of a policy, so that reports use the same colors.
fn usual(policy: &str) -> usize {
    match policy.split(':').next() {
        Some("random" | "round-robin" | "least-outstanding" | "two-choices") => 2,
        Some("naive" | "clone") => 3,
        Some("delayed" | "probabilistic" | "tied" | "das") => 4,
        _ => 5,
    }
}

impl Look {
    /// The SVG attributes of a line in this look.
    pub fn stroke(self) -> String {
        let cap = if self.dash.starts_with("1.5") { "round" } else { "butt" };
        let mut attributes = format!(
            r#"fill="none" stroke="currentColor" stroke-width="{}" stroke-linejoin="round""#,
            self.width
        );
        if !self.dash.is_empty() {
            let _ =
                write!(attributes, r#" stroke-dasharray="{}" stroke-linecap="{cap}""#, self.dash);
        }
        attributes
    }

    /// The path data of this look's marker around a point.
    pub fn marker(self, x: f64, y: f64) -> String {
        const CORNERS: [&[(f64, f64)]; LOOKS - 1] = [
            &[(-4.2, -4.2), (4.2, -4.2), (4.2, 4.2), (-4.2, 4.2)],
            &[(0.0, -5.4), (5.0, 3.8), (-5.0, 3.8)],
            &[(0.0, -5.8), (5.8, 0.0), (0.0, 5.8), (-5.8, 0.0)],
            &[(0.0, 5.4), (5.0, -3.8), (-5.0, -3.8)],
            &[(0.0, -5.4), (5.1, -1.7), (3.2, 4.4), (-3.2, 4.4), (-5.1, -1.7)],
            &[(-5.6, -2.4), (5.6, -2.4), (5.6, 2.4), (-5.6, 2.4)],
            &[(-2.4, -5.6), (2.4, -5.6), (2.4, 5.6), (-2.4, 5.6)],
        ];
        let corners = match self.color {
            1 => {
                return format!("M{:.1} {y:.1}a4.6 4.6 0 1 0 9.2 0a4.6 4.6 0 1 0 -9.2 0Z", x - 4.6);
            }
            0 => CORNERS[0],
            other => CORNERS[other - 1],
        };
        let mut path = String::new();
        for (i, (dx, dy)) in corners.iter().enumerate() {
            let command = if i == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", x + dx, y + dy);
        }
        path + "Z"
    }
}

/// Returns a legend for a figure that shows policies. The legend is HTML outside the figure, so it
/// does not cover any data.
pub fn key(looks: &[(&str, Look)], class: &str) -> String {
    let named = looks.iter().map(|(name, look)| (policy(name).short, *look));
    key_of(&named.collect::<Vec<_>>(), class)
}

/// Returns a legend for curves with any names.
pub fn key_of(looks: &[(String, Look)], class: &str) -> String {
    let mut html = format!(r#"<ul class="key {class}">"#);
    for (name, look) in looks {
        let swatch = format!(
            r#"<svg class="k{}" viewBox="0 0 36 14" aria-hidden="true"><path d="M0 7H36" {}/><path class="mark" d="{}"/></svg>"#,
            look.color,
            look.stroke(),
            look.marker(18.0, 7.0)
        );
        let _ = write!(html, "<li>{swatch}{}</li>", escape(name));
    }
    html + "</ul>"
}
