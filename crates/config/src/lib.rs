//! What all files and texts of configuration need: TOML whose errors are all reported, values with
//! units and ranges, and suggestions for unknown names.
//!
//! A key of a file is described once, by a field: its name, its type with unit, range and default,
//! and its doc comment. Parsing and the JSON schema read this description.
//!
//! ```
//! use curtail_config::{Count, Time, parse};
//!
//! #[derive(Default, serde::Deserialize)]
//! #[serde(deny_unknown_fields, default)]
//! struct Limits {
//!     /// Maximum number of waiting requests, from 0 to 1,000, by default 64.
//!     queue: Count<64, 0, 1_000>,
//!     /// Time until a request fails, at least 1 ms, by default a second.
//!     timeout: Time<1_000_000_000, 1_000_000>,
//! }
//!
//! let limits: Limits = parse("a.toml", "queue = 7").expect("valid");
//! assert_eq!((limits.queue.get(), limits.timeout.ns()), (7, 1_000_000_000));
//!
//! let errors = parse::<Limits>("a.toml", "quue = 7\ntimeout = \"5us\"").err().expect("errors");
//! assert_eq!(
//!     errors.to_string(),
//!     "a.toml:1: quue: unknown key; did you mean queue?\n\
//!      a.toml:2: \"5us\": timeout is shorter than 1ms; use at least \"1ms\""
//! );
//! ```
#![forbid(unsafe_code)]

mod document;
mod given;
mod number;
mod read;
mod report;
mod socket;
mod words;

pub use given::{Given, Key, OneOrMany, OrFalse, each};
pub use number::{AutoOr, Count, Fraction, Size, Time, parse_size};
pub use read::{deserialize, load, parse, read_bytes, read_text};
pub use report::{ConfigError, ConfigErrors, Report};
pub use socket::{Socket, SocketError, clash, reaches};
pub use words::{closest, distance, excerpt, instead, line_at};
