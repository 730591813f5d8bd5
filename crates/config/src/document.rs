//! A parsed document as serde sees it: values that know their positions.
//!
//! The parser is that of `toml`, but not its deserializer. What serde derives is compiled anew for
//! each type that it reads from, and with `toml`'s way to pass positions these are several per
//! table. Here it is always [`Value`], which halves the code of the proxy's configuration.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::value::{CowStrDeserializer, U64Deserializer};
use serde::de::{
    DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Asks for a map whose keys are the start and the end of the value, in bytes, and that ends with
/// the value.
pub(crate) const POSITION: &str = "curtail_config::Given";

/// Asks for a sequence if the value is a list, and for the value itself if it is a table.
pub(crate) const ONE_OR_MANY: &str = "curtail_config::OneOrMany";

/// Asks for a boolean if the value is `false`, and for the value itself otherwise.
pub(crate) const OR_FALSE: &str = "curtail_config::OrFalse";

/// The message for a value that is not the name of a variant, because it is not a text.
pub(crate) const NO_NAME: &str = "wanted a name";

/// An error of serde, and the innermost key, entry or element that it is about. `None` stands for the
/// document itself. What hands out a key or a value adds its position.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) message: String,
    pub(crate) at: Option<Range<usize>>,
}

impl Wrong {
    fn at(mut self, position: &Range<usize>) -> Self {
        self.at.get_or_insert_with(|| position.clone());
        self
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Wrong {}

impl Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), at: None }
    }
}

/// A value and its position.
pub(crate) struct Value<'de> {
    value: DeValue<'de>,
    span: Range<usize>,
}

impl<'de> Value<'de> {
    /// The value that is the whole document.
    pub(crate) fn of(document: Spanned<DeTable<'de>>) -> Self {
        Self { span: document.span(), value: DeValue::Table(document.into_inner()) }
    }

    fn new(value: Spanned<DeValue<'de>>) -> Self {
        Self { span: value.span(), value: value.into_inner() }
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.value {
            DeValue::String(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            DeValue::String(Cow::Owned(text)) => visitor.visit_string(text),
            DeValue::Boolean(value) => visitor.visit_bool(value),
            DeValue::Integer(number) => {
                let (digits, radix) = (number.as_str(), number.radix());
                if let Ok(number) = i64::from_str_radix(digits, radix) {
                    visitor.visit_i64(number)
                } else if let Ok(number) = u64::from_str_radix(digits, radix) {
                    visitor.visit_u64(number)
                } else {
                    let fix = "write fewer digits";
                    Err(Wrong::custom(format_args!(
                        "is not a whole number of at most 64 bits; {fix}"
                    )))
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(value) if !value.is_infinite() || number.as_str().contains("inf") => {
                    visitor.visit_f64(value)
                }
                _ => Err(Wrong::custom("is too large; use a number of at most 1e308")),
            },
            DeValue::Datetime(_) => Err(Wrong::invalid_type(Unexpected::Other("a date"), &visitor)),
            DeValue::Array(list) => visitor.visit_seq(List(list.into_iter())),
            DeValue::Table(table) => visitor.visit_map(Table::new(table)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match (name, &self.value) {
            (POSITION, _) => visitor.visit_map(Position::of(self)),
            (OR_FALSE, DeValue::Boolean(false)) => visitor.visit_bool(false),
            (ONE_OR_MANY, value) if !value.is_table() => self.deserialize_any(visitor),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    /// Only a table is a structure. serde would also read a list, in the order of the fields.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match self.value {
            DeValue::Table(table) => visitor.visit_map(Table::new(table)),
            _ => Err(Wrong::invalid_type(Unexpected::Other("value"), &visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match self.value {
            DeValue::String(name) => visitor.visit_enum(name.into_deserializer()),
            _ => Err(Wrong::custom(NO_NAME)),
        }
    }

    serde::forward_to_deserialize_any! {
        bool u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 char str string seq bytes byte_buf map unit
        ignored_any unit_struct tuple_struct tuple identifier
    }
}

struct List<'de>(<DeArray<'de> as IntoIterator>::IntoIter);

impl<'de> SeqAccess<'de> for List<'de> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Wrong> {
        let Some(item) = self.0.next() else { return Ok(None) };
        let span = item.span();
        seed.deserialize(Value::new(item)).map(Some).map_err(|wrong| wrong.at(&span))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Table<'de> {
    rest: <DeTable<'de> as IntoIterator>::IntoIter,
    /// The value whose key has been read.
    value: Option<Spanned<DeValue<'de>>>,
}

impl<'de> Table<'de> {
    fn new(table: DeTable<'de>) -> Self {
        Self { rest: table.into_iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for Table<'de> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Wrong> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        let span = key.span();
        let key: CowStrDeserializer<'_, Wrong> = key.into_inner().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|wrong| wrong.at(&span))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        let value = self.value.take().expect("serde asks for a key first");
        let span = value.span();
        seed.deserialize(Value::new(value)).map_err(|wrong| wrong.at(&span))
    }
}

/// A value as [`POSITION`] describes it. Start and end are keys, so that no code reads a number as
/// if it were the value.
struct Position<'de> {
    bounds: std::array::IntoIter<usize, 2>,
    value: Option<Value<'de>>,
}

impl<'de> Position<'de> {
    fn of(value: Value<'de>) -> Self {
        let bounds = [value.span.start, value.span.end].into_iter();
        Self { bounds, value: Some(value) }
    }
}

impl<'de> MapAccess<'de> for Position<'de> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Wrong> {
        let bound = self.bounds.next();
        bound.map(|bound| seed.deserialize(U64Deserializer::new(bound as u64))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        seed.deserialize(self.value.take().expect("serde asks once"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::parse;

    #[test]
    fn numbers_have_their_full_range() {
        let whole: BTreeMap<String, u64> =
            parse("f", "a = 0xffff_ffff_ffff_ffff").expect("64 bits");
        assert_eq!(whole["a"], u64::MAX);
        let small: BTreeMap<String, i64> =
            parse("f", "a = -9_223_372_036_854_775_808").expect("64 bits");
        assert_eq!(small["a"], i64::MIN);
        let text = "a = -inf\nb = 1_000.5e-3\nc = nan\nd = 2";
        let numbers: BTreeMap<String, f64> = parse("f", text).expect("they fit");
        assert_eq!([numbers["a"], numbers["b"], numbers["d"]], [f64::NEG_INFINITY, 1.0005, 2.0]);
        assert!(numbers["c"].is_nan());
        let wrong = parse::<BTreeMap<String, f64>>("f", "\na = 1e999").expect_err("too large");
        assert!(wrong.to_string().starts_with("f:2: 1e999: a is too large; use"), "{wrong}");
    }
}
