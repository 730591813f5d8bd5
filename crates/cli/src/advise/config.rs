//! The file of `--write-config`.

use std::path::Path;

use curtail_proxy::config;

use super::Args;
use crate::exit::Stop;
use crate::say;

/// Before minutes of work: a file that is there is somebody's.
pub(super) fn may_be_written(args: &Args) -> Result<(), Stop> {
    match &args.write_config {
        Some(path) if path.symlink_metadata().is_ok() && !args.force => {
            Err(Stop::BadInput(format!(
                "--write-config {}: it is there already; give another file, or --force to overwrite it",
                path.display()
            )))
        }
        _ => Ok(()),
    }
}

/// Writes the configuration where one was asked for, and lets the proxy check it.
pub(super) fn write(args: &Args, text: &str) -> Result<(), Stop> {
    let Some(path) = &args.write_config else { return Ok(()) };
    std::fs::write(path, text).map_err(|error| unwritten(path, &error))?;
    config::load(path).map_err(|errors| Stop::BadConfig(errors.to_string()))?;
    say::aside(format_args!("configuration: {}", path.display()));
    Ok(())
}

fn unwritten(path: &Path, error: &std::io::Error) -> Stop {
    let path = path.display();
    Stop::Lacking(format!("cannot write {path}: {error}; give another --write-config"))
}
