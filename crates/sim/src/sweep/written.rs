//! The values of an axis as a file has them: a list, a range, or a text as in a flag.

use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::axis::{Axis, Range, Value};
use super::error::Error;

/// The values of an axis, as written in a file. The names of the values are not checked yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// A list.
    List(Vec<Value>),
    /// A range.
    Range(Range),
    /// A text with the format of a flag.
    Text(String),
}

impl Written {
    /// Returns the axis.
    pub fn axis(&self, key: &str) -> Result<Axis, Error> {
        match self {
            Self::List(values) => Axis::new(key, values.clone()),
            Self::Range(range) => Axis::range(key, range),
            Self::Text(text) => Axis::parse(key, text.trim()),
        }
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list, a range, or a text as in the flag --grid")
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Written, E> {
                self.visit_f64(number as f64)
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Written, E> {
                Err(E::custom(format_args!("is one number; give a list, such as [{number}]")))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Written, E> {
                Ok(Written::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Written, A::Error> {
                let items = Vec::<Item>::deserialize(SeqAccessDeserializer::new(list))?;
                Ok(Written::List(items.into_iter().map(|Item(value)| value).collect()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
                Range::deserialize(MapAccessDeserializer::new(map)).map(Written::Range)
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// A number, a text or a list. A list of numbers is a value of `speeds`, and a list of texts is a
/// value of `change`.
struct Item(Value);

const NO_ITEM: &str = "must be a number or a string; write numbers as 0.1, and texts in quotes";

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Any {
            Whole(i64),
            Number(f64),
            Text(String),
            List(Vec<Item>),
        }

        let wrong = || D::Error::custom(NO_ITEM);
        Ok(Self(match Any::deserialize(deserializer).map_err(|_| wrong())? {
            Any::Whole(whole) => Value::Whole(whole),
            Any::Number(number) => Value::number(number),
            Any::Text(text) => Value::Text(text),
            Any::List(items) => {
                let texts = items.iter().filter(|Item(item)| item.as_number().is_none()).count();
                if texts > 0 && texts < items.len() {
                    return Err(wrong());
                }
                let texts: Vec<_> = items.iter().map(|Item(item)| item.to_string()).collect();
                Value::Text(texts.join(","))
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_value_of_a_file_may_be_a_list() {
        let axis = |text: &str| {
            let file = curtail_config::parse("f", &format!("key = {text}"));
            file.map(|file: BTreeMap<String, Written>| file["key"].axis("key").expect(text))
        };
        let values = |text: &str| axis(text).expect(text).values().to_vec();
        let texts = |texts: &[&str]| texts.iter().map(|text| Value::Text((*text).into())).collect();
        let both: Vec<Value> = texts(&["jitter=none", "jitter=exp:1,speeds=1,0.5"]);
        assert_eq!(values(r#"["jitter=none", ["jitter=exp:1", "speeds=1,0.5"]]"#), both);
        let both: Vec<Value> = texts(&["1,1", "1,0.5"]);
        assert_eq!(values("[[1, 1], [1, 0.5]]"), both);
        for (text, wrong) in [
            (r#"["a", ["jitter=none", 1]]"#, "key must be a number or a string"),
            ("[true]", "f:1: true: key must be a number or a string"),
            ("0.1", "f:1: 0.1: key is one number; give a list, such as [0.1]"),
            ("{ from = 1, to = 2, stop = 1 }", "f:1: stop: unknown key; did you mean step?"),
            ("{ from = 1 }", "to is missing; add it"),
        ] {
            let why = axis(text).expect_err(text).to_string();
            assert!(why.contains(wrong), "{why}");
        }
    }
}
