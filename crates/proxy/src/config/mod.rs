//! The configuration file.
//!
//! Parsing has two stages. The private module `raw` contains the file as serde deserializes it. The
//! program uses the types that are re-exported here. The step between the two stages checks the
//! file and reports all of its errors together, each as `FILE:LINE: VALUE: what is wrong; the fix`.
//! However, if the file has a TOML syntax error, only that error is reported.
//!
//! ```
//! let config = curtail_proxy::config::parse(
//!     "curtail.toml",
//!     r#"
//!         [[service]]
//!         name = "search"
//!         policy = "laedge"
//!         slots = 1
//!
//!         [[service.shard]]
//!         name = "0"
//!         replicas = ["127.0.0.1:9001", "127.0.0.1:9002"]
//!     "#,
//! )?;
//! assert_eq!(config.summary(), "1 service(s), 1 shard(s), 2 server(s)");
//! # Ok::<(), curtail_proxy::config::ConfigErrors>(())
//! ```

mod address;
mod cells;
mod check;
mod flow;
mod model;
mod notes;
mod raw;
mod report;
mod resolve;
mod service;
mod shape;
mod shards;
mod tls;
mod tunnels;
mod upstream;
mod values;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use schemars::Schema;
use schemars::transform::RecursiveTransform;
use serde_json::Value;

pub(crate) use cells::CellConfig;
pub use model::{Config, Log, LogFormat, LogLevel};
pub(crate) use model::{Flow, FlowRole, Key, Route, Service, ShardBy, Throttle};
pub use report::{ConfigError, ConfigErrors};
pub use values::parse_size;

/// Size limit of the file, in bytes. A file with a thousand shards, each with ten replicas, has a
/// third of this size.
const BYTES_MAX: u64 = 1 << 20;

/// Reads and checks a configuration file.
///
/// # Errors
/// Fails if the file cannot be read. Otherwise returns every error that [`parse`] finds.
pub fn load(path: &Path) -> Result<Config, ConfigErrors> {
    let name = path.display().to_string();
    let bytes = read(path).map_err(|why| ConfigErrors::unreadable(&name, &why))?;
    match String::from_utf8(bytes) {
        Ok(text) => parse(&name, &text),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes());
            // The two texts are the same up to the invalid byte, so the position is also valid in
            // `text`.
            let at = valid..valid + char::REPLACEMENT_CHARACTER.len_utf8();
            let mut report = report::Report::new(&name, &text);
            report.misshapen(&at, "is not UTF-8; save the file as UTF-8");
            Err(report.finish().expect_err("something was just reported"))
        }
    }
}

/// Reads the whole file. Because of the size limit, reading also stops if the file is a device that
/// produces endless data.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        let limit = BYTES_MAX >> 20;
        return Err(io::Error::other(format!("it is longer than the limit of {limit} MiB")));
    }
    Ok(bytes)
}

/// Parses and checks the text of a configuration file. Errors refer to the file as `name`.
///
/// # Errors
/// Returns every error in the file, each with its line and the fix.
pub fn parse(name: &str, text: &str) -> Result<Config, ConfigErrors> {
    let mut report = report::Report::new(name, text);
    let raw = shape::read(&mut report);
    let resolved = raw.map(|raw| resolve::file(&raw, &mut report));
    let warnings = report.finish()?;
    // If `resolved` were `None`, the report would contain an error, and `finish` would have
    // returned it.
    let config = resolved.expect("a file without errors resolves");
    Ok(Config { warnings, ..config })
}

/// Returns the JSON schema of the file, for editors and for programs that generate the file.
pub fn schema() -> Value {
    let settings = schemars::generate::SchemaSettings::default();
    let settings = settings.with_transform(RecursiveTransform(without_null));
    settings.into_generator().into_root_schema_for::<raw::File>().to_value()
}

/// Removes `null` from the types of optional keys, because TOML has no null.
fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = &mut **kinds {
            let only = only.take();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
    }
}

#[cfg(test)]
mod manual;
#[cfg(test)]
mod tests;
