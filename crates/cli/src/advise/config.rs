//! The configuration of the proxy that advice comes with.

use std::path::PathBuf;

use curtail_proxy::config;

use super::Args;
use crate::exit::Stop;
use crate::say;

/// Where it goes, and what to give in place of that.
fn path(args: &Args) -> Option<(PathBuf, &'static str)> {
    match (&args.out, &args.write_config) {
        (Some(folder), _) => Some((folder.join("proxy.toml"), "--out")),
        (None, file) => Some((file.clone()?, "--write-config")),
    }
}

/// Before minutes of work: a file that is there is somebody's.
pub(super) fn may_be_written(args: &Args) -> Result<(), Stop> {
    match path(args) {
        Some((path, flag)) if path.symlink_metadata().is_ok() && !args.force => {
            Err(Stop::BadInput(format!(
                "{flag} {}: it is there already; give another one, or --force to overwrite it",
                path.display()
            )))
        }
        _ => Ok(()),
    }
}

/// Writes the configuration where one was asked for, and lets the proxy check it.
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
