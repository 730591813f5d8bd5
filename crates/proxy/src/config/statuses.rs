//! The statuses that an outcome lists.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use curtail_http::grpc::CODES;
use curtail_kernel::STATUSES;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// A range of statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statuses {
    Http(RangeInclusive<u16>),
    /// A status code of gRPC.
    Grpc(u16),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Number(i64),
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
        let wrong = || D::Error::custom(format_args!("is not a status; {}", Self::FIX));
        let text = match Written::deserialize(deserializer).map_err(|_| wrong())? {
            Written::Text(text) => text,
            Written::Number(status) => status.to_string(),
        };
        Self::read(&text).ok_or_else(wrong)
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
