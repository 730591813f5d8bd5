//! Requirements of recipes that a machine may lack.

use std::path::PathBuf;
use std::process::Command;

use crate::cargo;

/// Checks whether python3 has at least this version and can create virtual environments.
const PYTHON: &str =
    r#"python3 -c "import sys, venv, ensurepip; sys.exit(sys.version_info < ($0))""#;
/// Downloads a small package to check whether packages are available at all.
const REGISTRY: &str = r#"folder=$(mktemp -d) && python3 -m venv "$folder" && "$folder/bin/pip" download \
    --quiet --no-deps --no-cache-dir "$0" --dest "$folder"; code=$?; rm -rf "$folder"; exit $code"#;

/// Returns what is missing if a requirement is not met: `cores:N`, `python:VERSION`,
/// `registry:PACKAGE` (of Python), or `program:NAME`.
pub fn lacking(need: &str) -> Option<String> {
    let (kind, name) = need.split_once(':').unwrap_or(("program", need));
    let (there, what) = match kind {
        "cores" => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let there = name.parse().is_ok_and(|wanted: usize| cores >= wanted);
            (there, format!("it needs {name} cores"))
        }
        "python" => {
            let there = sh(PYTHON, &name.replace('.', ", "));
            (there, format!("no python3 with venv, or older than {name}"))
        }
        "registry" => (sh(REGISTRY, name), "no package registry for Python".to_owned()),
        _ => (which(name).is_some(), format!("{name} is not installed")),
    };
    (!there).then_some(what)
}

fn sh(script: &str, argument: &str) -> bool {
    cargo::output(Command::new("sh").args(["-c", script, argument])).is_ok()
}

/// Finds a program in the path or in `/usr/sbin`. Debian keeps daemons in that folder, and not
/// every user's path contains it.
pub fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}
