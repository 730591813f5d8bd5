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

mod cells;
mod check;
mod flow;
mod model;
mod notes;
mod raw;
mod resolve;
mod service;
mod shards;
mod statuses;
mod tls;
mod tunnels;
mod upstream;

use std::path::Path;

use curtail_config::Report;
use schemars::Schema;
use schemars::transform::RecursiveTransform;
use serde_json::Value;

pub(crate) use cells::CellConfig;
pub use curtail_config::{ConfigError, ConfigErrors};
pub use model::{Config, Log, LogFormat, LogLevel};
pub(crate) use model::{Flow, FlowRole, Key, Route, Service, Shard, ShardBy, Throttle};

/// Reads and checks a configuration file.
///
/// # Errors
/// Fails if the file cannot be read. Otherwise returns every error that [`parse`] finds.
pub fn load(path: &Path) -> Result<Config, ConfigErrors> {
    parse(&path.display().to_string(), &curtail_config::read_text(path)?)
}

/// Parses and checks the text of a configuration file. Errors refer to the file as `name`.
///
/// # Errors
/// Returns every error in the file, each with its line and the fix.
pub fn parse(name: &str, text: &str) -> Result<Config, ConfigErrors> {
    let mut report = Report::new(name, text).help("'curtail proxy --schema' lists them");
    let raw = curtail_config::deserialize(&mut report);
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

/// Removes `null` from the types and defaults of optional keys, because TOML has no null.
fn without_null(schema: &mut Schema) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
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
mod misfits;
#[cfg(test)]
mod tests;
