//! Formats numbers, loads and policies consistently in all reports.

/// The placeholder for a value that was not measured.
pub const NONE: &str = "—";

/// Formats a number with three significant digits: `0.0123`, `1.23`, `12.3`, `123`, `1,230`.
pub fn three(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    // The rounding error in the difference between two numbers that should be equal.
    if value.abs() < 1e-12 {
        return "0".to_owned();
    }
    // Round first: 9.996 becomes 10.0, not 10.00.
    let step = |value: f64| 10f64.powi(value.abs().log10().floor() as i32 - 2);
    let rounded = (value / step(value)).round() * step(value);
    let decimals = -step(rounded).log10().round() as i32;
    let text = format!("{:.*}", usize::try_from(decimals).unwrap_or(0), rounded.abs());
    format!("{}{}", if rounded < 0.0 { "−" } else { "" }, grouped(&text))
}

/// Formats a number with three significant digits, or returns the placeholder if there is no
/// number.
pub fn three_or_none(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), three)
}

/// Formats a tick of an axis without trailing zeros: `20`, `1.25`.
pub fn tick(value: f64) -> String {
    let text = three(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Formats a whole number: `6,000`.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// Formats a count with its noun: `1 point`, `6 points`.
pub fn counted(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// Inserts commas into the integer part.
fn grouped(digits: &str) -> String {
    let (integer, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut text = String::with_capacity(digits.len() + 4);
    for (i, digit) in integer.chars().enumerate() {
        if i > 0 && (integer.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

/// Formats copies per query with one decimal, which is enough in a sentence.
pub fn copies(value: f64) -> String {
    format!("{value:.1}")
}

/// Formats a fraction in percent, without decimals: `41 %`. The space is a no-break space.
pub fn whole_percent(fraction: f64) -> String {
    let percent = (fraction * 100.0).round();
    let sign = if percent < 0.0 { "−" } else { "" };
    format!("{sign}{}\u{a0}%", grouped(&format!("{:.0}", percent.abs())))
}

/// Formats a load: `10 %`, or `12.5 %` if it is not whole.
pub fn utilization(load: f64) -> String {
    let percent = load * 100.0;
    let decimals = usize::from((percent - percent.round()).abs() > 0.05);
    format!("{percent:.decimals$}\u{a0}%")
}

/// Formats a share down to a few per million: `10 %`, `0.1 %`.
pub fn share(fraction: f64) -> String {
    format!("{}\u{a0}%", tick(fraction * 100.0))
}

/// Formats a duration: `48 s`, `4 min 12 s`.
pub fn elapsed(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match seconds / 60 {
        0 => format!("{seconds}\u{a0}s"),
        minutes => format!("{minutes}\u{a0}min {}\u{a0}s", seconds % 60),
    }
}

/// Joins a list: `a`, `a and b`, `a, b, and c`.
pub fn and(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    match &items[..] {
        [] => String::new(),
        [only] => only.clone(),
        [first, second] => format!("{first} and {second}"),
        [most @ .., last] => format!("{}, and {last}", most.join(", ")),
    }
}

/// Escapes text for HTML and SVG, for elements and quoted attributes. Control characters, which XML
/// does not allow, become spaces.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            char if char.is_control() => escaped.push(' '),
            char => escaped.push(char),
        }
    }
    escaped
}

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
    let of = |short: &str, noun: &str, does: &str| PolicyName {
        short: short.to_owned(),
        noun: noun.to_owned(),
        does: does.to_owned(),
    };
    if let Some((hedge, pick)) = name.split_once('+')
        && PICKS.contains(&pick)
    {
        return over(&policy(hedge), &policy(pick));
    }
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
pub fn two_lines(short: &str) -> (&str, &str) {
    short.find(OVER).map_or((short, ""), |at| (&short[..=at], &short[at + 2..]))
}

/// Returns the name of a hedge combined with a pick, which chooses the replicas for the hedge's
/// copies.
fn over(hedge: &PolicyName, pick: &PolicyName) -> PolicyName {
    let where_to = pick.does.trim_end_matches("; no hedging");
    PolicyName {
        short: format!("{}{OVER}{}", hedge.short, pick.noun),
        noun: format!("{} over {}", hedge.noun, pick.noun),
        does: format!("{}; copies go to {where_to}", hedge.does),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let cases = [
            (2.053e-16, "0"),
            (-1e-13, "0"),
            (0.012_34, "0.0123"),
            (1.2, "1.20"),
            (9.996, "10.0"),
            (99.96, "100"),
            (123.4, "123"),
            (1234.0, "1,230"),
            (9_996.0, "10,000"),
            (0.0, "0"),
            (-2.5, "−2.50"),
            (f64::NAN, NONE),
        ];
        for (value, text) in cases {
            assert_eq!(three(value), text, "{value}");
        }
    }

    #[test]
    fn percentages_are_whole_unless_a_load_is_not() {
        assert_eq!(whole_percent(0.412), "41\u{a0}%");
        assert_eq!(whole_percent(-0.001), "0\u{a0}%");
        assert_eq!(whole_percent(-21.34), "−2,134\u{a0}%");
        assert_eq!(utilization(0.3), "30\u{a0}%");
        assert_eq!(utilization(0.125), "12.5\u{a0}%");
        assert_eq!(share(0.001), "0.1\u{a0}%");
        assert_eq!(share(1.0), "100\u{a0}%");
    }

    #[test]
    fn policies_have_names_and_unknown_ones_keep_theirs() {
        assert_eq!(policy("laedge:cc").short, "LÆDGE CC");
        assert_eq!(policy("delayed:15ms").short, "Delayed 15\u{a0}ms");
        let fair = policy("delayed:15ms:cc+least-outstanding");
        assert_eq!(fair.short, "Delayed 15\u{a0}ms, cancelling, over least outstanding");
        assert_eq!(fair.noun, "delayed hedging over least outstanding");
        let lines = ("Delayed 15\u{a0}ms, cancelling,", "over least outstanding");
        assert_eq!(two_lines(&fair.short), lines);
        assert_eq!(two_lines("PSQ"), ("PSQ", ""));
        let learned = policy("delayed:p95:cc+least-outstanding");
        assert_eq!(learned.short, "Delayed p95, cancelling, over least outstanding");
        assert!(learned.does.contains("percentile 95 of recent ages"), "{}", learned.does);
        assert!(learned.does.ends_with("copies go to the replica with the fewest queries"));
        assert_eq!(policy("laedge+bounded:2").short, "laedge+bounded:2");
        assert_eq!(policy("probabilistic:5ms:0.1").short, "Probabilistic 5\u{a0}ms, 0.1");
        assert_eq!(policy("app-timeout:5ms").noun, "application time-outs");
        assert_eq!(policy("rescue").short, "Rescue");
        assert_eq!(policy("rescue:no-cancel").short, "Rescue no cancel");
        assert_eq!(policy("clone").short, "Clone");
        assert_eq!(policy("delayed:").noun, "delayed:");
        assert_eq!(policy("prequal").short, "prequal");
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(escape("<a b='c'>&\"\u{0}"), "&lt;a b=&#39;c&#39;&gt;&amp;&quot; ");
    }
}
