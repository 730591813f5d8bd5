//! Writes the proxy configuration that matches the advice.

use std::path::PathBuf;

use curtail_proxy::config;

use super::Args;
use crate::exit::Stop;
use crate::say;

/// Returns the path of the configuration, and the flag that sets it.
fn path(args: &Args) -> Option<(PathBuf, &'static str)> {
    match (&args.out, &args.write_config) {
        (Some(folder), _) => Some((folder.join("proxy.toml"), "--out")),
        (None, file) => Some((file.clone()?, "--write-config")),
    }
}

/// Checks that the file does not exist, unless it may be overwritten. Called first, so that a bad
/// path does not waste minutes of work.
pub(super) fn may_be_written(args: &Args) -> Result<(), Stop> {
    match path(args) {
        Some((path, flag)) if path.symlink_metadata().is_ok() && !args.force => {
            Err(Stop::BadInput(format!(
                "{flag} {}: it exists already; give another one, or --force to overwrite it",
                path.display()
            )))
        }
        _ => Ok(()),
    }
}

/// Writes the configuration, and checks it as the proxy does.
pub(super) fn write(args: &Args, text: &str) -> Result<(), Stop> {
    let Some((path, flag)) = path(args) else { return Ok(()) };
    let shown = path.display();
    let made = args.out.as_ref().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(&path, text)).map_err(|error| {
        Stop::Lacking(format!("cannot write {shown}: {error}; give another {flag}"))
    })?;
    config::load(&path).map_err(|errors| Stop::BadConfig(errors.to_string()))?;
    say::aside(format_args!("configuration: {shown}"));
    Ok(())
}
