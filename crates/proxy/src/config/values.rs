//! The types of values in the file, as serde deserializes them.
//!
//! Errors are predicates (`has no unit; write "5ms"`), because [`super::shape`] puts the key in
//! front of them.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Range, RangeInclusive};

use curtail_http::grpc::CODES;
use curtail_kernel::{STATUSES, duration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use toml::Spanned;

/// A value and its position in the file.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Given<T>(Spanned<T>);

impl<T> Given<T> {
    pub(super) fn get(&self) -> &T {
        self.0.get_ref()
    }

    pub(super) fn span(&self) -> Range<usize> {
        self.0.span()
    }
}

/// How a number with a unit is written.
pub(super) trait Unit {
    /// Pattern for the JSON schema.
    const PATTERN: &'static str;
    /// Example for `expecting` texts.
    const EXAMPLE: &'static str;
    /// Parses a text. The error is a predicate and includes the fix.
    fn read(text: &str) -> Result<u64, String>;
    /// Returns the fix for a number without a unit.
    fn fix(bare: i64) -> String;
}

/// Time, in nanoseconds.
#[derive(Debug)]
pub(super) struct Time;

const SPAN_NS_MAX: u64 = 100 * 24 * 3_600_000_000_000;

/// Memory, in bytes.
#[derive(Debug)]
pub(super) struct Bytes;

/// A number with a unit, converted to the smallest unit.
#[derive(Debug)]
pub(super) struct Quantity<U>(pub(super) u64, PhantomData<U>);

/// A span of time, in nanoseconds.
pub(super) type Span = Quantity<Time>;

/// A size, in bytes.
pub(super) type Size = Quantity<Bytes>;

impl Unit for Time {
    const PATTERN: &'static str = r"^ *[0-9]*\.?[0-9]* *(ns|us|µs|ms|s|min|h) *$";
    const EXAMPLE: &'static str = "a duration in quotes, like \"500ms\"";

    fn read(text: &str) -> Result<u64, String> {
        // The error is printed after the value, so it need not repeat the value.
        match duration::parse(text) {
            Ok(ns) if ns > SPAN_NS_MAX => {
                Err("is longer than 100 days; write at most \"2400h\"".to_owned())
            }
            Ok(ns) => Ok(ns),
            Err(error) => Err(error.why.to_string()),
        }
    }

    fn fix(bare: i64) -> String {
        match bare {
            0.. => format!("write \"{bare}ms\" or \"{bare}s\", in quotes"),
            _ => "write a duration that is not negative, like \"500ms\"".to_owned(),
        }
    }
}

impl Unit for Bytes {
    const PATTERN: &'static str = r"^[0-9_]*\.?[0-9_]*(B|[kK]B|MB|GB|KiB|MiB|GiB)$";
    const EXAMPLE: &'static str = "a size in quotes, like \"10MB\"";

    fn read(text: &str) -> Result<u64, String> {
        parse_size(text)
    }

    fn fix(bare: i64) -> String {
        match bare {
            1.. => format!("write \"{bare}B\" or \"{bare}KiB\", in quotes"),
            _ => "write a size above zero, like \"64KiB\"".to_owned(),
        }
    }
}

/// Parses a size such as `10MB` or `64KiB`, and returns bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 8] = [
        ("B", 1.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ];
    const FIX: &str = "write a decimal number and one of B, kB, MB, GB, KiB, MiB, GiB, like 10MB";
    let numeric = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    let end = text.find(|c| !numeric(c)).unwrap_or(text.len());
    let (number, unit) = (text[..end].replace('_', ""), text[end..].trim_start());
    let Ok(value) = number.parse::<f64>() else {
        return Err(format!("is not a number with a unit; {FIX}"));
    };
    let Some(&(_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let wrong = if unit.is_empty() { "has no unit" } else { "has an unknown unit" };
        return Err(format!("{wrong}; {FIX}"));
    };
    let bytes = value * size;
    // A double can represent every integer up to this one (8 PiB).
    if bytes > 9_007_199_254_740_992.0 {
        return Err(format!("is too large; {FIX}"));
    }
    Ok(bytes.round() as u64)
}

impl<'de, U: Unit> Deserialize<'de> for Quantity<U> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => {
                U::read(&text).map(|value| Quantity(value, PhantomData)).map_err(D::Error::custom)
            }
            toml::Value::Integer(bare) => {
                Err(D::Error::custom(format_args!("has no unit; {}", U::fix(bare))))
            }
            _ => Err(D::Error::invalid_type(Unexpected::Other("value"), &U::EXAMPLE)),
        }
    }
}

/// One table, or a list of them.
#[derive(Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(super) enum OneOrMany<T> {
    One(T),
    Many(Vec<Given<T>>),
}

/// Returns each table and its position.
pub(super) fn each<T>(list: Option<&Given<OneOrMany<T>>>) -> Vec<(&T, Range<usize>)> {
    let Some(list) = list else { return Vec::new() };
    match list.get() {
        OneOrMany::One(table) => vec![(table, list.span())],
        OneOrMany::Many(many) => many.iter().map(|item| (item.get(), item.span())).collect(),
    }
}

/// Whether a key is present and true.
pub(super) fn is_set(given: Option<&Given<bool>>) -> bool {
    given.is_some_and(|given| *given.get())
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table, or a list of tables")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(OneOrMany::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMany::Many)
            }
        }

        deserializer.deserialize_any(Reader(PhantomData))
    }
}

/// A value, or `false` to turn it off.
#[derive(Debug)]
pub(super) enum OrFalse<T> {
    Off,
    On(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrFalse<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = OrFalse<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of the documented form, or false")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<Self::Value, E> {
                if on {
                    return Err(E::custom("is true; remove it for the default, or write false"));
                }
                Ok(OrFalse::Off)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                T::deserialize(StrDeserializer::new(text)).map(OrFalse::On)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(OrFalse::On)
            }
        }

        deserializer.deserialize_any(Reader(PhantomData))
    }
}

/// A number, or `"auto"` for a number that the proxy finds.
#[derive(Clone, Copy, Debug)]
pub(super) enum AutoOr {
    Auto,
    Number(u64),
}

impl<'de> Deserialize<'de> for AutoOr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = AutoOr;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or \"auto\"")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<AutoOr, E> {
                u64::try_from(number)
                    .map(AutoOr::Number)
                    .map_err(|_| E::custom("is negative; use a number from 1, or \"auto\""))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<AutoOr, E> {
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

impl JsonSchema for AutoOr {
    fn schema_name() -> Cow<'static, str> {
        "AutoOr".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "auto" }, { "type": "integer", "minimum": 1 }] })
    }
}

/// A range of statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statuses {
    Http(RangeInclusive<u16>),
    /// A status code of gRPC.
    Grpc(u16),
}

impl Statuses {
    const FIX: &'static str = "write a status from 100 to 599, a text like \"4xx\" or \"502-599\", or a code of gRPC \
         like \"UNAVAILABLE\"";

    /// Parses `404`, `4xx`, `502-599` or `UNAVAILABLE`.
    fn read(text: &str) -> Option<Self> {
        if let Some(code) = CODES.iter().position(|name| *name == text) {
            return Some(Self::Grpc(code as u16));
        }
        let range = match text.strip_suffix("xx") {
            Some(class) => {
                let from = class.parse::<u16>().ok()?.checked_mul(100)?;
                from..=from.checked_add(99)?
            }
            None => {
                let (from, to) = text.split_once('-').unwrap_or((text, text));
                from.trim().parse().ok()?..=to.trim().parse().ok()?
            }
        };
        let fits = |status| STATUSES.contains(status);
        (fits(range.start()) && fits(range.end()) && !range.is_empty()).then_some(Self::Http(range))
    }
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => text,
            toml::Value::Integer(status) => status.to_string(),
            _ => return Err(D::Error::custom(format_args!("is not a status; {}", Self::FIX))),
        };
        Self::read(&text)
            .ok_or_else(|| D::Error::custom(format_args!("is not a status; {}", Self::FIX)))
    }
}

impl JsonSchema for Statuses {
    fn schema_name() -> Cow<'static, str> {
        "Statuses".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let text = json_schema!({ "type": "string", "pattern": "^([1-5]xx|[1-5][0-9]{2}(-[1-5][0-9]{2})?)$" });
        let status = json_schema!({ "type": "integer", "minimum": 100, "maximum": 599 });
        json_schema!({ "anyOf": [status, text, { "enum": CODES }] })
    }
}

impl<T: JsonSchema> JsonSchema for Given<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<U: Unit> JsonSchema for Quantity<U> {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": U::PATTERN })
    }
}

impl<T: JsonSchema> JsonSchema for OrFalse<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OrFalse{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let on = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [on, { "const": false }] })
    }
}
