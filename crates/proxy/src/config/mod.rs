//! The configuration file.
//!
//! Two stages: the private module `raw` is the file as serde sees it, the types re-exported here are
//! what the program uses. Between them stands everything that can be wrong, said as
//! `FILE:LINE: VALUE: what is wrong; the fix`, all of it at once. Only where the file is not even
//! TOML is the first error the only one.
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
mod upstream;
mod values;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use schemars::Schema;
use schemars::transform::RecursiveTransform;
use serde_json::Value;

pub(crate) use cells::Cell;
pub use model::{Config, Log, LogFormat, LogLevel};
pub(crate) use model::{Flow, FlowRole, Key, Service, ShardBy, Throttle};
pub use report::{ConfigError, ConfigErrors};
pub use values::parse_size;

/// The longest file that is read. A thousand shards of ten replicas take a third of it.
const BYTES_MAX: u64 = 1 << 20;

/// Reads and checks a configuration file.
///
/// # Errors
/// A file that cannot be read, and everything that [`parse`] finds.
pub fn load(path: &Path) -> Result<Config, ConfigErrors> {
    let name = path.display().to_string();
    let bytes = read(path).map_err(|why| ConfigErrors::unreadable(&name, &why))?;
    match String::from_utf8(bytes) {
        Ok(text) => parse(&name, &text),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes());
            // What comes before is valid, so the position is the same in both.
            let at = valid..valid + char::REPLACEMENT_CHARACTER.len_utf8();
            let mut report = report::Report::new(&name, &text);
            report.misshapen(&at, "is not UTF-8; save the file as UTF-8");
            Err(report.finish().expect_err("something was just reported"))
        }
    }
}

/// All of a file, but no device that never ends.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        let limit = BYTES_MAX >> 20;
        return Err(io::Error::other(format!("it is longer than the limit of {limit} MiB")));
    }
    Ok(bytes)
}

/// Checks the text of a configuration file; `name` is what errors call it.
///
/// # Errors
/// Everything that is wrong, each with its line and the fix.
pub fn parse(name: &str, text: &str) -> Result<Config, ConfigErrors> {
    let mut report = report::Report::new(name, text);
    let raw = shape::read(&mut report);
    let resolved = raw.map(|raw| resolve::file(&raw, &mut report));
    let warnings = report.finish()?;
    // Where there is no file, something was reported.
    let config = resolved.expect("a file without errors resolves");
    Ok(Config { warnings, ..config })
}

/// The JSON schema of the file, for editors and for machines that write it.
pub fn schema() -> Value {
    let settings = schemars::generate::SchemaSettings::default();
    let settings = settings.with_transform(RecursiveTransform(without_null));
    settings.into_generator().into_root_schema_for::<raw::File>().to_value()
}

/// What may be left out may be null for serde, but TOML has no null.
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
