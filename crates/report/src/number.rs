//! Formats numbers with their units, and lists. Each kind of figure has one format: three significant
//! digits on pages ([`three`]), four in models ([`figure`]), and latencies with the number of decimals
//! that distinguishes them ([`latency`]).

/// The placeholder for a value that is missing.
pub const NONE: &str = "–";

/// Formats a value, or returns the placeholder.
pub fn or_none<T>(value: Option<T>, shown: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), shown)
}

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
    or_none(value, three)
}

/// Formats a tick of an axis without trailing zeros: `20`, `1.25`.
pub fn tick(value: f64) -> String {
    trimmed(three(value))
}

/// Removes trailing zeros behind the decimal point.
fn trimmed(text: String) -> String {
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

/// Numbers at or above this are printed in scientific notation.
const HUGE: f64 = 1e9;
/// Numbers below this are printed as 0. For times in milliseconds this is one nanosecond, the
/// finest resolution that is measured. For multiples of a unit it covers the rounding error of a
/// difference between equal numbers.
const ZERO: f64 = 1e-6;

/// Formats nanoseconds as milliseconds with three digits, without the unit.
pub fn ms(ns: f64) -> String {
    three(if ns.abs() < 1.0 { 0.0 } else { ns / 1e6 })
}

/// The number of decimals that distinguishes latencies: two for values from 0.1 to 1,000, fewer for
/// larger values, and enough for three significant digits for smaller values.
fn decimals(value: f64) -> usize {
    match value.abs() {
        10_000.0.. => 0,
        1_000.0.. => 1,
        0.1.. => 2,
        small if small >= ZERO => (2.0 - small.log10().floor()) as usize,
        _ => 2,
    }
}

/// Formats a latency in any unit.
pub fn latency(value: f64) -> String {
    like(value, value)
}

/// Formats a latency and the half-width of its confidence interval, if there is one.
pub fn with_interval(value: f64, half: Option<f64>) -> String {
    let half = half.map_or(String::new(), |half| format!(" ±{}", like(half, value)));
    latency(value) + &half
}

/// Formats `value` with the number of decimals that `other` would have.
fn like(value: f64, other: f64) -> String {
    match value.abs() {
        ..ZERO => "0".to_owned(),
        HUGE.. => format!("{value:.3e}"),
        _ => format!("{value:.*}", decimals(other)),
    }
}

/// Formats a figure of a model with four significant digits, without trailing zeros.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    // Rounding error in the difference between two equal numbers.
    if size < 1e-12 {
        return "0".to_owned();
    }
    if !(1e-3..1e7).contains(&size) {
        return format!("{value:.3e}");
    }
    trimmed(format!("{value:.*}", (3 - size.log10().floor() as i32).clamp(0, 6) as usize))
}

/// The unit of a table's times, in words. `unit` is the document's unit.
pub fn unit_words(unit: &str) -> &'static str {
    if unit == "1" { "multiples of the unit of time" } else { "milliseconds" }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        assert_eq!(escape("<a b='c'>&\"\u{0}"), "&lt;a b=&#39;c&#39;&gt;&amp;&quot; ");
    }

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
    fn whole_numbers_have_commas() {
        assert_eq!([7, 999, 1_234_567].map(count), ["7", "999", "1,234,567"]);
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
    fn digits_fit_the_magnitude() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (0.000_000_878, "0"),
            (2.053e-16, "0"),
            (0.000_001_5, "0.00000150"),
            (0.001_234, "0.00123"),
            (0.05, "0.0500"),
            (0.5, "0.50"),
            (999.994, "999.99"),
            (6_597.64, "6597.6"),
            (25_158.03, "25158"),
            (2.171e12, "2.171e12"),
        ] {
            assert_eq!(latency(value), text);
        }
        assert_eq!(with_interval(14_579.4, Some(119.78)), "14579 ±120");
        assert_eq!(with_interval(0.012, Some(0.000_3)), "0.0120 ±0.0003");
        assert_eq!(with_interval(1.0, None), "1.00");
        assert_eq!(with_interval(1.0, Some(1e-17)), "1.00 ±0");
        assert_eq!(
            (ms(0.878), ms(1.5), ms(2.5e6)),
            ("0".into(), "0.00000150".into(), "2.50".into())
        );
    }
}
