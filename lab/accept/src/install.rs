//! Finds the programs that lines use. Programs of this repository are built, and others are
//! installed if they are missing.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use xtask::{cargo, envoy, needs};

/// A requirement that is missing on this machine, so that something cannot be judged.
#[derive(Debug)]
pub(crate) struct Missing(pub(crate) String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

const LAB: &str = "--manifest-path lab/Cargo.toml -p";
/// The programs of this repository that lines use. For each program, these are its name, the cargo
/// arguments that build it, and its path in the target folder. Without a path, a package of the lab
/// has the name of its program.
const PROGRAMS: [(&str, &str, &str); 13] = [
    ("stub", "curtail-tools --bin stub", "stub"),
    ("calls", "-p xtask --example calls", "examples/calls"),
    ("storm", "curtail-tools --bin storm", "storm"),
    ("streams", "curtail-tools --bin streams", "streams"),
    ("lateness", "curtail-tools --bin lateness", "lateness"),
    ("module", "-p curtail-envoy", "libcurtail_envoy.so"),
    ("pair", "-p curtail-kernel --example pair", "examples/pair"),
    ("speed", "-p curtail-sim --example speed", "examples/speed"),
    ("measuring", "curtail-measuring", ""),
    ("das", "curtail-das", ""),
    ("rivals", "curtail-rivals", ""),
    ("soa", "curtail-soa", ""),
    ("cassandra", "curtail-cassandra", ""),
];

/// Go programs that lines use. For each program, these are its name, its package, and the modules
/// whose versions are pinned. h2spec has no `go.mod`, so the versions of its dependencies are here.
const GO: [(&str, &str, &str); 4] = [
    (
        "h2spec",
        "github.com/summerwind/h2spec/cmd/h2spec",
        "github.com/summerwind/h2spec@v2.2.1+incompatible github.com/spf13/cobra@v1.10.2 \
         github.com/fatih/color@v1.19.0 golang.org/x/net@v0.62.0",
    ),
    ("grpc-client", "google.golang.org/grpc/interop/client", "google.golang.org/grpc@v1.85.0"),
    ("grpc-server", "google.golang.org/grpc/interop/server", "google.golang.org/grpc@v1.85.0"),
    (
        "xds",
        ".",
        "github.com/envoyproxy/go-control-plane@v0.14.0 \
         github.com/envoyproxy/go-control-plane/envoy@v1.40.0 google.golang.org/grpc@v1.84.0",
    ),
];

/// The source of a Go program of this repository, whose package is the folder in which it is built.
const XDS: &str = include_str!("../../tools/xds/main.go");

/// Returns the path of a tool or of a program of this repository. Programs of this repository are
/// built first.
pub(crate) fn program(root: &Path, name: &str) -> Result<PathBuf> {
    match name {
        "curtail" => return cargo::curtail(root),
        "xtask" => return xtask(root),
        "oha" => return Ok(tools(root)?.join("bin/oha")),
        "envoy" => return envoy::program(root)?.context("envoy is not installed"),
        _ if GO.iter().any(|(program, ..)| *program == name) => {
            return Ok(tools(root)?.join("go").join(name).join(name));
        }
        _ => {}
    }
    let ours = PROGRAMS.iter().find(|(program, ..)| *program == name);
    let (_, what, path) = ours.with_context(|| format!("unknown program @{name}"))?;
    let mut build = cargo::command(root, &["build", "--release", "--quiet", "--locked"]);
    let is_of_lab = !what.starts_with("-p ");
    build.args(LAB.split(' ').filter(|_| is_of_lab)).args(what.split(' '));
    ensure!(cargo::succeeds(&mut build)?, "{name} does not build");
    let path = if path.is_empty() { *what } else { path };
    Ok(cargo::target_folder(root)?.join("release").join(path))
}

fn xtask(root: &Path) -> Result<PathBuf> {
    let mut build = cargo::command(root, &["build", "--quiet", "-p", "xtask"]);
    ensure!(cargo::succeeds(&mut build)?, "xtask does not build");
    Ok(cargo::target_folder(root)?.join("debug/xtask"))
}

/// Returns a message about the first requirement that is missing and cannot be installed. Returns
/// `None` if all requirements are met. `apt:PACKAGE/PROGRAM` is a program that is named differently
/// than its package.
pub(crate) fn lacking(root: &Path, needs: &[&str]) -> Option<String> {
    needs.iter().find_map(|need| {
        let (kind, name) = need.split_once(':').unwrap_or(("program", need));
        let there = match kind {
            "apt" => {
                let (package, program) = name.split_once('/').unwrap_or((name, name));
                let is_there = || needs::which(program).is_some();
                is_there() || sh(root, APT, package) && is_there()
            }
            "go" => GO.iter().any(|(program, package, modules)| {
                *program == name
                    && (*package != "." || write_source(root, name).is_ok())
                    && sh(root, GO_BUILD, &format!("{name} {package} {modules}"))
            }),
            "pip" => matches!(envoy::program(root), Ok(Some(_))),
            "cargo" => sh(root, OHA, name),
            _ => return needs::lacking(need),
        };
        (!there).then(|| format!("{name} is not installed, and cannot be installed"))
    })
}

/// Writes the source of a Go program of this repository, which is built again if it has changed.
fn write_source(root: &Path, name: &str) -> Result<()> {
    let folder = tools(root)?.join("go").join(name);
    std::fs::create_dir_all(&folder)?;
    let source = folder.join("main.go");
    if std::fs::read_to_string(&source).is_ok_and(|written| written == XDS) {
        return Ok(());
    }
    std::fs::write(source, XDS)?;
    let built = folder.join("built");
    if built.exists() {
        std::fs::remove_file(built)?;
    }
    Ok(())
}

fn tools(root: &Path) -> Result<PathBuf> {
    Ok(cargo::target_folder(root)?.join("tools"))
}

/// Installs a Debian package. Its service is not started, because it would only occupy ports. If
/// the installation fails, the package lists may be out of date, so they are updated before a
/// second attempt.
const APT: &str = r#"
install() { DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y --no-install-recommends "$1"; }
install "$1" || { apt-get update && install "$1"; }"#;
/// The first installation takes minutes.
const OHA: &str = r#"[ -x "$0/bin/oha" ] || cargo install oha --locked --quiet --root "$0""#;
/// Builds a Go program in a module of its own, unless it was built with the same arguments before.
const GO_BUILD: &str = r#"set -e
built="$1"; set -- $1; mkdir -p "$0/go/$1"; cd "$0/go/$1"
[ "$(cat built 2>/dev/null)" = "$built" ] && exit
name=$1; package=$2; shift 2; rm -f go.mod go.sum
go mod init curtail/tool && go get "$@" && go build -mod=mod -o "$name" "$package" && echo "$built" > built"#;
/// Runs a script silently, with the folder of tools and a name as its arguments. Returns true if
/// the script succeeded.
fn sh(root: &Path, script: &str, name: &str) -> bool {
    let done = tools(root).and_then(|tools| {
        cargo::output(Command::new("sh").arg("-c").arg(script).arg(tools).arg(name))
    });
    done.is_ok()
}
