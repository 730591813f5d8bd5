//! Numbers with a range and a default, and quantities with a unit.
//!
//! A type states the range and the default, so that the JSON schema and the messages read them from
//! the same place. Errors are predicates (`has no unit; write "5ms"`), because [`crate::read`] puts
//! the key in front of them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use curtail_kernel::duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

const HOUR_NS: u64 = 3_600_000_000_000;

/// The longest time, 100 days.
const LONGEST_NS: u64 = 100 * 24 * HOUR_NS;

/// A whole number from `LEAST` to `MOST`, by default `USUAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Count<const USUAL: u32, const LEAST: u32, const MOST: u32>(
    #[schemars(with = "u64", range(min = LEAST, max = MOST))] u32,
);

impl<const USUAL: u32, const LEAST: u32, const MOST: u32> Count<USUAL, LEAST, MOST> {
    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl<const USUAL: u32, const LEAST: u32, const MOST: u32> Default for Count<USUAL, LEAST, MOST> {
    fn default() -> Self {
        Self(USUAL)
    }
}

impl<'de, const USUAL: u32, const LEAST: u32, const MOST: u32> Deserialize<'de>
    for Count<USUAL, LEAST, MOST>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        let fits = u32::try_from(number).ok().filter(|number| (LEAST..=MOST).contains(number));
        fits.map(Self)
            .ok_or_else(|| D::Error::custom(format_args!("is out of range; use {LEAST} to {MOST}")))
    }
}

/// A fraction from 0 to 1, by default `PERCENT` hundredths. The range is up to [`Fraction::checked`],
/// so that the message can say what a fraction means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Fraction<const PERCENT: u32>(#[schemars(range(min = 0.0, max = 1.0))] f64);

impl<const PERCENT: u32> Fraction<PERCENT> {
    /// Returns the fraction, or `None` if it is out of range.
    #[must_use]
    pub fn checked(self) -> Option<f64> {
        Some(self.0).filter(|fraction| (0.0..=1.0).contains(fraction))
    }
}

impl<const PERCENT: u32> Default for Fraction<PERCENT> {
    fn default() -> Self {
        Self(f64::from(PERCENT) / 100.0)
    }
}

/// A time in nanoseconds, from `LEAST` to `MOST`, by default `USUAL`. A time of zero is out of range
/// unless `LEAST` is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Time<const USUAL: u64, const LEAST: u64 = 1, const MOST: u64 = LONGEST_NS>(
    #[serde(serialize_with = "write_time")]
    #[schemars(with = "String", extend("pattern" = r"^ *[0-9]*\.?[0-9]* *(ns|us|µs|ms|s|min|h) *$"))]
    u64,
);

fn write_time<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hours(*ns))
}

impl<const USUAL: u64, const LEAST: u64, const MOST: u64> Time<USUAL, LEAST, MOST> {
    /// Returns the time in nanoseconds.
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// Returns the time.
    #[must_use]
    pub const fn get(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// Parses a time in nanoseconds from `least` to `most`.
fn read_time(text: &str, usual: u64, least: u64, most: u64) -> Result<u64, String> {
    let written = duration::format;
    // The error is printed after the value, so it need not repeat the value.
    let ns = duration::parse(text).map_err(|error| error.why.to_string())?;
    match ns {
        0 if least == 1 => {
            let like = if usual == 0 { 500_000_000 } else { usual };
            Err(format!("is zero; use a longer duration, like \"{}\"", written(like)))
        }
        0 if least > 0 => Err(format!("is zero; use at least \"{}\"", written(least))),
        _ if ns < least => {
            let least = written(least);
            Err(format!("is shorter than {least}; use at least \"{least}\""))
        }
        _ if ns > LONGEST_NS => Err("is longer than 100 days; write at most \"2400h\"".to_owned()),
        _ if ns > most => Err(format!("is too long; use at most \"{}\"", hours(most))),
        _ => Ok(ns),
    }
}

/// Formats a time, in hours if it is a whole number of hours.
fn hours(ns: u64) -> String {
    match ns / HOUR_NS {
        hours if ns == hours * HOUR_NS && ns > 0 => format!("{hours}h"),
        _ => duration::format(ns).to_string(),
    }
}

impl<const USUAL: u64, const LEAST: u64, const MOST: u64> Default for Time<USUAL, LEAST, MOST> {
    fn default() -> Self {
        Self(USUAL)
    }
}

impl<'de, const USUAL: u64, const LEAST: u64, const MOST: u64> Deserialize<'de>
    for Time<USUAL, LEAST, MOST>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_any(Quantity {
            expected: "a duration in quotes, like \"500ms\"",
            fix: |bare| match bare {
                0.. => format!("write \"{bare}ms\" or \"{bare}s\", in quotes"),
                _ => "write a duration that is not negative, like \"500ms\"".to_owned(),
            },
        })?;
        read_time(&text, USUAL, LEAST, MOST).map(Self).map_err(D::Error::custom)
    }
}

/// A size in bytes, from `LEAST` to `MOST`, by default `USUAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Size<const USUAL: usize, const LEAST: usize, const MOST: usize>(
    #[serde(serialize_with = "write_size")]
    #[schemars(with = "String", extend("pattern" = r"^[0-9_]*\.?[0-9_]*(B|[kK]B|MB|GB|KiB|MiB|GiB)$"))]
    usize,
);

fn write_size<S: Serializer>(bytes: &usize, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&bytes_words(*bytes))
}

impl<const USUAL: usize, const LEAST: usize, const MOST: usize> Size<USUAL, LEAST, MOST> {
    /// Returns the number of bytes.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}

impl<const USUAL: usize, const LEAST: usize, const MOST: usize> Default
    for Size<USUAL, LEAST, MOST>
{
    fn default() -> Self {
        Self(USUAL)
    }
}

impl<'de, const USUAL: usize, const LEAST: usize, const MOST: usize> Deserialize<'de>
    for Size<USUAL, LEAST, MOST>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_any(Quantity {
            expected: "a size in quotes, like \"10MB\"",
            fix: |bare| match bare {
                1.. => format!("write \"{bare}B\" or \"{bare}KiB\", in quotes"),
                _ => "write a size above zero, like \"64KiB\"".to_owned(),
            },
        })?;
        let bytes = parse_size(&text).map_err(D::Error::custom)?;
        let fits = usize::try_from(bytes).ok().filter(|bytes| (LEAST..=MOST).contains(bytes));
        fits.map(Self).ok_or_else(|| {
            let (least, most) = (bytes_words(LEAST), bytes_words(MOST));
            D::Error::custom(format_args!("is out of range; use {least} to {most}"))
        })
    }
}

/// Reads a number with a unit as text.
struct Quantity {
    expected: &'static str,
    /// What to write in place of a number without a unit.
    fix: fn(i64) -> String,
}

impl Visitor<'_> for Quantity {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E: Error>(self, bare: i64) -> Result<String, E> {
        Err(E::custom(format_args!("has no unit; {}", (self.fix)(bare))))
    }
}

/// The units of sizes. `KB` is for parsing only.
const SIZES: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
    ("KB", 1_000),
];

/// Parses a size such as `10MB` or `64KiB`, and returns bytes.
///
/// # Errors
/// A predicate that includes the fix.
pub fn parse_size(text: &str) -> Result<u64, String> {
    const FIX: &str = "write a decimal number and one of B, kB, MB, GB, KiB, MiB, GiB, like 10MB";
    let numeric = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    let end = text.find(|c| !numeric(c)).unwrap_or(text.len());
    let (number, unit) = (text[..end].replace('_', ""), text[end..].trim_start());
    let Ok(value) = number.parse::<f64>() else {
        return Err(format!("is not a number with a unit; {FIX}"));
    };
    let Some(&(_, size)) = SIZES.iter().find(|(name, _)| *name == unit) else {
        let wrong = if unit.is_empty() { "has no unit" } else { "has an unknown unit" };
        return Err(format!("{wrong}; {FIX}"));
    };
    let bytes = value * size as f64;
    // A double can represent every integer up to this one (8 PiB).
    if bytes > 9_007_199_254_740_992.0 {
        return Err(format!("is too large; {FIX}"));
    }
    Ok(bytes.round() as u64)
}

/// Formats a size in the first unit of which it is a multiple.
fn bytes_words(bytes: usize) -> String {
    let bytes = bytes as u64;
    let unit = SIZES.iter().find(|(_, size)| bytes > 0 && bytes.is_multiple_of(*size));
    unit.map_or_else(|| "0B".to_owned(), |(name, size)| format!("{}{name}", bytes / size))
}

/// A whole number from `LEAST` to `MOST`, or `"auto"` for a number that the program finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoOr<const LEAST: u32, const MOST: u32> {
    /// The program finds the number.
    Auto,
    /// This number.
    Number(u32),
}

impl<'de, const LEAST: u32, const MOST: u32> Deserialize<'de> for AutoOr<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<const LEAST: u32, const MOST: u32>;

        impl<const LEAST: u32, const MOST: u32> Visitor<'_> for Reader<LEAST, MOST> {
            type Value = AutoOr<LEAST, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or \"auto\"")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
                let fits = u32::try_from(number).ok().filter(|n| (LEAST..=MOST).contains(n));
                fits.map(AutoOr::Number).ok_or_else(|| {
                    E::custom(format_args!("is out of range; use {LEAST} to {MOST}, or \"auto\""))
                })
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                match text {
                    "auto" => Ok(AutoOr::Auto),
                    _ => Err(E::custom(
                        "is not a number; write a number without quotes, or \"auto\"",
                    )),
                }
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

impl<const LEAST: u32, const MOST: u32> JsonSchema for AutoOr<LEAST, MOST> {
    fn schema_name() -> Cow<'static, str> {
        "AutoOr".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let number = json_schema!({ "type": "integer", "minimum": LEAST, "maximum": MOST });
        json_schema!({ "anyOf": [{ "const": "auto" }, number] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_all_units_and_read_back_as_printed() {
        for (text, bytes) in [
            ("7B", 7),
            ("64KiB", 65_536),
            ("10MB", 10_000_000),
            ("3kB", 3_000),
            ("1024GiB", 1 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            assert_eq!(bytes_words(bytes as usize), text);
        }
        assert_eq!(parse_size("0.5 MiB"), Ok(524_288));
        assert_eq!(parse_size("1_000KB"), Ok(1_000_000));
        assert_eq!(bytes_words(0), "0B");
    }

    #[test]
    fn defaults_are_written_as_in_a_file_and_schemas_have_the_range() {
        fn json(value: &impl Serialize) -> String {
            serde_json::to_string(value).expect("a value")
        }
        assert_eq!(json(&Count::<5, 1, 9>::default()), "5");
        assert_eq!(json(&Time::<HOUR_NS>::default()), "\"1h\"");
        assert_eq!(json(&Time::<60_000_000_000>::default()), "\"60s\"");
        assert_eq!(json(&Size::<1_000_000, 0, 9>::default()), "\"1MB\"");
        assert_eq!(json(&Fraction::<5>::default()), "0.05");
        let schema = schemars::schema_for!(Count<5, 1, 9>);
        assert_eq!(schema.get("maximum").and_then(serde_json::Value::as_u64), Some(9));
    }
}
