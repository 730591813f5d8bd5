//! The name of each policy, and its look in charts: a color that color-blind readers can distinguish,
//! and a marker and a dash that work without color.

use std::fmt::Write as _;

/// The names of a policy.
pub struct PolicyName {
    /// The name for a table or a line.
    pub short: String,
    /// The name for a sentence.
    pub noun: String,
    /// What the policy does. May be empty.
    pub does: String,
}

/// Names a policy. An unknown policy keeps the name that the command line uses.
pub fn policy(name: &str) -> PolicyName {
    match name.split_once('+') {
        None | Some(("laedge:cc", "pc")) => bare(name),
        Some((hedge, pick)) if PICKS.contains(&pick) => over(&bare(hedge), &bare(pick)),
        // The gate, the rate or the pick is another one, perhaps one's own.
        Some(_) => {
            PolicyName { short: name.to_owned(), noun: name.to_owned(), does: String::new() }
        }
    }
}

/// Names a policy whose name has one part.
fn bare(name: &str) -> PolicyName {
    let of = |short: &str, noun: &str, does: &str| PolicyName {
        short: short.to_owned(),
        noun: noun.to_owned(),
        does: does.to_owned(),
    };
    let (kind, rest) = name.split_once(':').unwrap_or((name, ""));
    match (kind, rest) {
        ("random", "") => of("Random", "random choice", "a replica at random; no hedging"),
        ("round-robin", "") => of("Round robin", "round robin", "the replicas in turn; no hedging"),
        ("least-outstanding", "") => of(
            "Least outstanding",
            "least outstanding",
            "the replica with the fewest queries; no hedging",
        ),
        ("two-choices", "") => {
            of("Two choices", "two choices", "the less busy of two replicas at random; no hedging")
        }
        ("psq", "") => of(
            "PSQ",
            "per-shard queuing",
            "one queue per shard, from which a replica with a free slot takes the next query; no \
             hedging",
        ),
        ("naive", loser @ ("" | "cc")) => of(
            format!("Naive hedge {}", loser.to_uppercase()).trim_end(),
            "naive hedging",
            "every query to two replicas at once; the first response counts",
        ),
        ("clone", "") => {
            of("Clone", "cloning", "every query to all replicas at once; the first response counts")
        }
        ("das", variant) => of(
            format!("DAS {}", variant.replace('-', " ")).trim_end(),
            "DAS",
            "every query to two replicas at once, the second copy at low priority; the first \
             response purges the other copy",
        ),
        ("probabilistic", args) if args.contains(':') => {
            let (delay, probability) = args.split_once(':').unwrap_or((args, ""));
            let delay = spaced(delay);
            let does = format!(
                "a second copy of a query without a response after {delay}, with probability \
                 {probability}"
            );
            of(&format!("Probabilistic {delay}, {probability}"), "probabilistic hedging", &does)
        }
        ("app-timeout", delay) if !delay.is_empty() => {
            let delay = spaced(delay);
            let does =
                format!("a query without a response after {delay} restarts on another replica");
            of(&format!("App time-out {delay}"), "application time-outs", &does)
        }
        ("delayed", args) if !args.is_empty() => delayed(args),
        ("laedge", variant) => of(
            format!("LÆDGE {}", variant.to_uppercase()).trim_end(),
            "LÆDGE",
            "per-shard queuing, and a second copy only for a replica that would be idle otherwise",
        ),
        ("rescue", variant) => {
            let name = format!("Rescue {}", variant.replace('-', " "));
            of(name.trim_end(), "Rescue", &rescue(variant))
        }
        _ => of(name, name, ""),
    }
}

/// The picks whose names are plain words. Any other text after a hedge is part of the hedge's name.
const PICKS: [&str; 4] = ["random", "round-robin", "least-outstanding", "two-choices"];

/// The text between the name of a hedge and that of its pick.
const OVER: &str = ", over ";

/// Splits a short name into two lines; the second may be empty.
pub fn two_lines(short: &str) -> [&str; 2] {
    short.find(OVER).map_or([short, ""], |at| [&short[..=at], &short[at + 2..]])
}

/// Returns the name of a hedge combined with a pick, which chooses the replicas for the hedge's
/// copies.
fn over(hedge: &PolicyName, pick: &PolicyName) -> PolicyName {
    let where_to = pick.does.trim_end_matches("; no hedging");
    let does = match &*hedge.does {
        "" => String::new(),
        does => format!("{does}; copies go to {where_to}"),
    };
    PolicyName {
        short: format!("{}{OVER}{}", hedge.short, pick.noun),
        noun: format!("{} over {}", hedge.noun, pick.noun),
        does,
    }
}

/// Returns the name of a `delayed` hedge, whose delay is either fixed or a learned percentile.
fn delayed(args: &str) -> PolicyName {
    let (delay, cancels) = args.split_once(':').map_or((args, false), |(delay, _)| (delay, true));
    let (delay, after, noun) = match delay.strip_prefix('p') {
        Some(nth) => {
            let after = format!("percentile {nth} of recent ages, which it learns");
            (delay.to_owned(), after, "the learned delay")
        }
        None => (spaced(delay), spaced(delay), "delayed hedging"),
    };
    let (cancelling, stops) = match cancels {
        true => (", cancelling", "; the first response stops the other copy"),
        false => ("", ""),
    };
    PolicyName {
        short: format!("Delayed {delay}{cancelling}"),
        noun: noun.to_owned(),
        does: format!("a second copy of every query without a response after {after}{stops}"),
    }
}

/// Describes a variant of rescue.
fn rescue(variant: &str) -> String {
    let besides = match variant {
        "preempt" => "; besides, one of every query where a replica is idle",
        "no-cancel" => "; no copy is ever stopped",
        _ => "",
    };
    format!(
        "per-shard queuing, and a second copy of queries that are probably stuck, before any that \
         waits; from which age on that pays, it learns while it is measured, and keeps from load to \
         load{besides}"
    )
}

/// Puts a no-break space before the unit: `15ms` becomes `15 ms`.
fn spaced(duration: &str) -> String {
    match duration.find(|char: char| char.is_alphabetic()) {
        Some(unit) if unit > 0 => format!("{}\u{a0}{}", &duration[..unit], &duration[unit..]),
        _ => duration.to_owned(),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_names_and_unknown_ones_keep_theirs() {
        assert_eq!(policy("laedge:cc").short, "LÆDGE CC");
        let unknown = policy("new:1+random");
        assert_eq!((&*unknown.short, &*unknown.does), ("new:1, over random choice", ""));
        assert_eq!(policy("delayed:15ms").short, "Delayed 15\u{a0}ms");
        let fair = policy("delayed:15ms:cc+least-outstanding");
        assert_eq!(fair.short, "Delayed 15\u{a0}ms, cancelling, over least outstanding");
        assert_eq!(fair.noun, "delayed hedging over least outstanding");
        let lines = ["Delayed 15\u{a0}ms, cancelling,", "over least outstanding"];
        assert_eq!(two_lines(&fair.short), lines);
        assert_eq!(two_lines("PSQ"), ["PSQ", ""]);
        let learned = policy("delayed:p95:cc+least-outstanding");
        assert_eq!(learned.short, "Delayed p95, cancelling, over least outstanding");
        assert!(learned.does.contains("percentile 95 of recent ages"), "{}", learned.does);
        assert!(learned.does.ends_with("copies go to the replica with the fewest queries"));
        for name in ["laedge+bounded:2", "laedge:cc+own", "delayed:5ms+own", "own:5ms+own"] {
            assert_eq!((&*policy(name).short, &*policy(name).does), (name, ""));
        }
        assert_eq!(policy("laedge:cc+pc+random").short, "laedge:cc+pc+random");
        assert_eq!(policy("probabilistic:5ms:0.1").short, "Probabilistic 5\u{a0}ms, 0.1");
        assert_eq!(policy("app-timeout:5ms").noun, "application time-outs");
        assert_eq!(policy("rescue").short, "Rescue");
        assert_eq!(policy("rescue:no-cancel").short, "Rescue no cancel");
        assert_eq!(policy("clone").short, "Clone");
        assert_eq!(policy("delayed:").noun, "delayed:");
        assert_eq!(policy("prequal").short, "prequal");
    }
}
