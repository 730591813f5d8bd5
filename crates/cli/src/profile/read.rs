//! Saved profiles.

use std::path::{Path, PathBuf};

use curtail_dist::read_text;
use curtail_probe::profile::{Profile, Traced};

use crate::exit::Stop;
use crate::say;

/// The file of a saved profile in its directory.
pub(super) const PROFILE: &str = "profile.json";

/// Reads a profile, from its file or from the directory that it is in.
pub(super) fn profile(path: &Path) -> Result<Profile, Stop> {
    let file = file(path);
    let text = read_text(&file).map_err(|error| match path.is_dir() && !file.exists() {
        true => Stop::BadInput(format!(
            "{}: there is no {PROFILE} in it; give the directory of curtail profile --out",
            path.display()
        )),
        false => Stop::BadInput(error.to_string()),
    })?;
    parsed(&text).map_err(|why| {
        Stop::BadInput(format!(
            "{}: {why}; give what curtail profile --out has written",
            file.display()
        ))
    })
}

/// The file of a profile.
pub(super) fn file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(PROFILE) } else { path.to_owned() }
}

/// What is in a file, or why it is no profile.
fn parsed(text: &str) -> Result<Profile, String> {
    let profile: Profile =
        serde_json::from_str(text).map_err(|error| format!("it is not a profile: {error}"))?;
    profile.check().map_err(|why| format!("it does not fit together: {why}"))?;
    match profile.windows.is_empty() {
        true => Err("it has no windows, and so no requests".to_owned()),
        false => Ok(plain(profile)),
    }
}

/// Without what a terminal would obey: names come from files, processes and traces.
pub(super) fn plain(mut profile: Profile) -> Profile {
    let reasons = profile.lost.iter_mut().map(|lost| &mut lost.reason);
    let reasons = reasons.chain(profile.traces.iter_mut().flat_map(Traced::texts));
    let names = profile.stages.iter_mut().chain(reasons).chain([&mut profile.target]);
    names.for_each(|name| *name = say::plain(&name.replace('\n', " ")));
    profile
}
