//! Values that know where the file has them, and values of several shapes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::document::{ONE_OR_MANY, OR_FALSE, POSITION};

/// A value and its position in the file.
#[derive(Debug)]
pub struct Given<T> {
    value: T,
    span: Range<usize>,
}

impl<T> Given<T> {
    /// Returns the value.
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Returns the value without its position.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns the position in the text, in bytes.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Given<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of a file")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut bound = || Ok(map.next_key()?.unwrap_or_default());
                let span = bound()?..bound()?;
                Ok(Given { span, value: map.next_value()? })
            }
        }

        deserializer.deserialize_newtype_struct(POSITION, Reader(PhantomData))
    }
}

/// A value with a default, and its position if the file has it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Key<T> {
    value: T,
    #[serde(skip)]
    span: Option<Range<usize>>,
}

impl<T> Key<T> {
    /// Returns the value of the file, or else the default.
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Returns the position in the text, or `None` if the file does not have the key.
    pub fn span(&self) -> Option<Range<usize>> {
        self.span.clone()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Key<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Given::deserialize(deserializer)
            .map(|given| Self { span: Some(given.span), value: given.value })
    }
}

/// One table, or a list of them.
#[derive(Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub enum OneOrMany<T> {
    /// One table.
    One(T),
    /// A list of tables.
    Many(Vec<Given<T>>),
}

/// Returns each table and its position.
pub fn each<T>(list: Option<&Given<OneOrMany<T>>>) -> Vec<(&T, Range<usize>)> {
    let Some(list) = list else { return Vec::new() };
    match list.get() {
        OneOrMany::One(table) => vec![(table, list.span())],
        OneOrMany::Many(many) => many.iter().map(|item| (item.get(), item.span())).collect(),
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table, or a list of tables")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                one: D,
            ) -> Result<Self::Value, D::Error> {
                T::deserialize(one).map(OneOrMany::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMany::Many)
            }
        }

        deserializer.deserialize_newtype_struct(ONE_OR_MANY, Reader(PhantomData))
    }
}

/// A value, or `false` to turn it off.
#[derive(Debug)]
pub enum OrFalse<T> {
    /// The value is `false`.
    Off,
    /// The value.
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

            fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
                Ok(OrFalse::Off)
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                value: D,
            ) -> Result<Self::Value, D::Error> {
                T::deserialize(value).map(OrFalse::On)
            }
        }

        deserializer.deserialize_newtype_struct(OR_FALSE, Reader(PhantomData))
    }
}

/// Positions do not show in schemas. (Derived, each use would get a definition of its own.)
impl<T: JsonSchema> JsonSchema for Given<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<T: JsonSchema> JsonSchema for Key<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is used")]
    struct Table {
        plain: Inner,
        given: Given<Inner>,
        key: Key<Inner>,
        many: Given<OneOrMany<Inner>>,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is used")]
    struct Inner {
        number: Given<u32>,
    }

    #[test]
    fn a_schema_defines_a_table_once_whether_or_not_its_position_is_kept() {
        let schema = schemars::schema_for!(Table);
        let names: Vec<&String> =
            schema.as_value()["$defs"].as_object().expect("a map").keys().collect();
        assert_eq!(names, ["Inner"], "{schema:?}");
    }
}
