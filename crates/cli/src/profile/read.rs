//! Reads saved profiles.

use std::path::{Path, PathBuf};

use curtail_dist::read_text;
use curtail_probe::profile::{Profile, Traced};

use crate::exit::Stop;
use crate::say;

/// Name of the file of a saved profile.
pub(super) const PROFILE: &str = "profile.json";

/// Reads a profile from its file, or from the directory that contains it.
pub(super) fn profile(path: &Path) -> Result<Profile, Stop> {
    let file = file(path);
    let text = read_text(&file).map_err(|error| match path.is_dir() && !file.exists() {
        true => Stop::BadInput(format!(
            "{}: it contains no {PROFILE}; give the directory of curtail profile --out",
            path.display()
        )),
        false => Stop::BadInput(error.to_string()),
    })?;
    parsed(&text).map_err(|why| {
        Stop::BadInput(format!(
            "{}: {why}; give the output of curtail profile --out",
            file.display()
        ))
    })
}

/// Returns the path of a profile's file.
pub(super) fn file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(PROFILE) } else { path.to_owned() }
}

/// Parses a profile, or returns the reason why it is not one.
fn parsed(text: &str) -> Result<Profile, String> {
    let profile: Profile =
        serde_json::from_str(text).map_err(|error| format!("it is not a profile: {error}"))?;
    profile.check().map_err(|why| format!("it is inconsistent: {why}"))?;
    match profile.windows.is_empty() {
        true => Err("it has no windows, so it has no requests".to_owned()),
        false => Ok(plain(profile)),
    }
}

/// Escapes control characters, because names come from files, processes and traces.
pub(super) fn plain(mut profile: Profile) -> Profile {
    let reasons = profile.lost.iter_mut().map(|lost| &mut lost.reason);
    let reasons = reasons.chain(profile.traces.iter_mut().flat_map(Traced::texts));
    let names = profile.stages.iter_mut().chain(reasons).chain([&mut profile.target]);
    names.for_each(|name| *name = say::plain(&name.replace('\n', " ")));
    profile
}
