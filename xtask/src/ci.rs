//! `cargo xtask ci`: runs and times every check. A failure does not skip the checks that follow.
//!
//! Quick steps come first. A step whose requirements are missing is skipped, and the summary reports
//! it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use xtask::{cargo, needs};

use crate::{test, tidy};

/// The Python package is a workspace of its own with the same rules.
const PYTHON: &str = "--manifest-path python/Cargo.toml";
/// The lab, too.
const LAB: &str = "--manifest-path lab/Cargo.toml";
/// A policy of one's own, as a crate of a user.
const EXAMPLE: &str = "--manifest-path examples/policy/Cargo.toml";
/// The library, and what it consists of. The packages must be complete, and are compiled from time to
/// time (without `--no-verify`).
const PUBLISHED: &str = "--allow-dirty -p curtail-kernel -p curtail-http -p curtail-net -p \
                         curtail-runtime -p curtail-flow -p curtail";
/// Entries that only one of the workspaces needs are not reported.
const DENY: &str =
    "check -A license-exception-not-encountered -A unused-wrapper bans licenses sources";
/// The modules with property tests for bytes from outside.
const FUZZED: &str = "binary:: wire:: duration:: parse:: requests:: responses:: bodies:: \
    config:: histogram_log any_text:: frame:: trace:: session:: processors:: query report:: \
    load_report:: metadata:: lines:: relayed:: addresses:: proxy:: http2:: agents::message:: \
    results::record:: normalize:: grpc::timeout:: embedded::";
/// The kernel makes decisions and does nothing else. It compiles without the standard library, which
/// contains all clocks, threads and unordered maps, and tidy checks that nothing brings it back. It
/// depends only on random number generators.
const PURITY: &str = r"
grep -qxF '#![no_std]' crates/kernel/src/lib.rs && grep -qxF '#![forbid(unsafe_code)]' crates/kernel/src/lib.rs || exit 1
cargo check --quiet --package curtail-kernel --lib || exit 1
cargo tree --package curtail-kernel --edges no-dev --target all --all-features --prefix none --format '{p}' |
    cut -d ' ' -f 1 | sort -u | grep -vxE '|curtail-kernel|rand_core|rand_pcg' >&2 && echo 'the kernel depends on these' >&2 && exit 1
echo 'curtail-kernel is pure'";
/// Checks that the objects that are loaded into the Linux kernel are what their sources build.
/// Without the compiler, only checks that the hashes of all files are those that were committed
/// together.
const OBJECT: &str = "
sha256sum --check --quiet xtask/bpf.sha256 && if command -v clang-14 llvm-strip-14 > /dev/null
then xtask/bpf.sh --check; else echo 'SKIPPED: no clang 14 to build it again'; fi";
const PROFDATA: &str = r#""$(rustc --print target-libdir)/../bin/llvm-profdata""#;

/// A check.
struct Step {
    name: &'static str,
    /// Whether the step runs only if it is named, because it takes minutes.
    heavy: bool,
    needs: &'static [&'static str],
    /// Returns false if the check fails.
    run: fn(&Ci<'_>) -> Result<bool>,
}

const STEPS: [Step; 17] = [
    step("fmt", |ci| {
        Ok(ci.cargo("fmt --all --check")?
            && ci.cargo(&format!("fmt --all --check {LAB}"))?
            && ci.cargo(&format!("fmt --check {EXAMPLE}"))?)
    }),
    step("clippy", |ci| {
        ci.cargo(&format!("clippy --workspace {} --all-targets -- -D warnings", test::LIBRARY))
    }),
    step("docs", |ci| {
        let doc = format!("doc --workspace {} --no-deps", test::LIBRARY);
        ci.cargo_with(&doc, &[("RUSTDOCFLAGS", "-D warnings")])
    }),
    Step { needs: &["program:cargo-deny"], ..step("deny", deny) },
    Step {
        needs: &["program:typos"],
        ..step("typos", |ci| ci.succeeds(&mut Command::new("typos")))
    },
    step("purity", |ci| ci.sh(PURITY)),
    step("tidy", |ci| tidy::run(ci.root)),
    step("object", |ci| ci.sh(OBJECT)),
    Step { needs: &["program:valgrind"], ..step("lab", lab) },
    step("test", |ci| test::run(ci.root)),
    step("example", |ci| ci.cargo(&format!("run --quiet --locked {EXAMPLE}"))),
    Step {
        needs: &["registry:iniconfig"],
        ..step("publish", |ci| ci.cargo(&format!("publish --dry-run --no-verify {PUBLISHED}")))
    },
    Step { needs: &["python:3.10", "registry:iniconfig"], ..step("python", python) },
    // The command names the whole workspace, so that cargo reuses everything that the tests have built.
    step("fuzz", |ci| {
        let args = "--no-fail-fast --lib --bin curtail --test it --";
        let args = format!("test --quiet --workspace {} {args} {FUZZED}", test::LIBRARY);
        ci.cargo_with(&args, &[("PROPTEST_CASES", &ci.settings.cases)])
    }),
    // A policy that pulls and hedges, and one that pushes. At this low rate, the proxy, which is built
    // for tests, catches up immediately after other work has stalled the machine.
    step("soak", |ci| {
        let minutes = &ci.settings.soak_minutes;
        let args =
            format!("soak --minutes {minutes} --policies laedge,least-outstanding --rate 200");
        ci.xtask(&args, &[("CURTAIL_BINARY", &ci.target("debug/curtail"))])
    }),
    // What clients and replicas see: conformance, smuggling, streams, memory, hedged gRPC calls, and
    // the instructions of a request.
    Step {
        heavy: true,
        ..step("wire", |ci| {
            Ok(ci.xtask("accept wire --quick --line 1,2,5,6,7,8,9", &[])?
                && ci.xtask("bench request", &[])?)
        })
    },
    Step { heavy: true, ..step("package", package) },
];

const fn step(name: &'static str, run: fn(&Ci<'_>) -> Result<bool>) -> Step {
    Step { name, heavy: false, needs: &[], run }
}

/// Settings of steps.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Settings {
    /// Cases per property in the step `fuzz`
    #[arg(long, default_value = "8000")]
    pub(crate) cases: String,
    /// Length of the step `soak`
    #[arg(long, default_value = "0.5")]
    pub(crate) soak_minutes: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cases: "8000".to_owned(), soak_minutes: "0.5".to_owned() }
    }
}

/// Where steps run, and their settings.
struct Ci<'a> {
    root: &'a Path,
    target: PathBuf,
    settings: &'a Settings,
}

impl Ci<'_> {
    fn target(&self, path: &str) -> String {
        self.target.join(path).display().to_string()
    }

    fn succeeds(&self, command: &mut Command) -> Result<bool> {
        cargo::succeeds(command.current_dir(self.root))
    }

    fn cargo(&self, args: &str) -> Result<bool> {
        self.cargo_with(args, &[])
    }

    fn cargo_with(&self, args: &str, env: &[(&str, &str)]) -> Result<bool> {
        let args: Vec<&str> = args.split_whitespace().collect();
        self.succeeds(cargo::command(self.root, &args).envs(env.iter().copied()))
    }

    fn sh(&self, script: &str) -> Result<bool> {
        self.succeeds(Command::new("sh").args(["-c", script]))
    }

    /// Runs this program. Cargo may have replaced its file since it was started.
    fn xtask(&self, args: &str, env: &[(&str, &str)]) -> Result<bool> {
        let path = std::env::current_exe().context("this program has no name")?;
        let text = path.to_string_lossy();
        let path = text.strip_suffix(" (deleted)").map_or(path.clone(), PathBuf::from);
        self.succeeds(Command::new(path).args(args.split(' ')).envs(env.iter().copied()))
    }
}

fn deny(ci: &Ci<'_>) -> Result<bool> {
    Ok(ci.cargo(&format!("deny {DENY}"))?
        && ci.cargo(&format!("deny {PYTHON} {DENY} --config ../deny.toml"))?)
}

/// Checks that a line of the lab holds. The whole lab is compiled only if the last commits changed it
/// or a crate that it uses.
fn lab(ci: &Ci<'_>) -> Result<bool> {
    const CHANGED: &str = "cd crates && git diff --quiet HEAD~10 -- ../lab ../xtask/src dist flow kernel load \
        machine report runtime sim stage stats xdp";
    let tests = format!("test --quiet {LAB} --package accept");
    if !ci.cargo(&tests)? || !ci.xtask("bench bound", &[])? {
        return Ok(false);
    }
    if ci.sh(CHANGED)? {
        println!("SKIPPED: the last 10 commits do not affect the rest of the lab");
        return Ok(true);
    }
    ci.cargo(&format!("clippy {LAB} --workspace --all-targets -- -D warnings"))
}

/// Installs the Python package into a fresh virtual environment. Then its tests run, and compare it
/// with the command line. Build output goes into the common target directory, with the profile of
/// tests. Only what Python itself prints is captured: a process of Ray may end this one and print the
/// reason, and capturing would lose it.
fn python(ci: &Ci<'_>) -> Result<bool> {
    let script = "set -e
        python3 -m venv --clear $target/python-venv
        cargo fmt --check $manifest
        cargo clippy --quiet $manifest -- -D warnings
        venv=$target/python-venv/bin/python
        $venv -m pip --disable-pip-version-check install --quiet ./python -r python/requirements-test.txt
        cd python && $venv -m pytest -v -p no:cacheprovider --capture=sys";
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    cargo::forget(&mut command, cargo::is_of_this_program);
    let target = ci.target("");
    command.env("target", target.trim_end_matches('/')).env("manifest", PYTHON);
    command.env("CURTAIL_BINARY", ci.target("debug/curtail")).env("CARGO_TARGET_DIR", &ci.target);
    command.env("MATURIN_PEP517_ARGS", "--profile dev").env("PYTHONDONTWRITEBYTECODE", "1");
    ci.succeeds(&mut command)
}

/// Builds the binary for packages, in target/dist. It is built twice: a proxy that counts what it
/// executes serves requests, and the counts guide the optimizer. Counts belong to names of functions,
/// which depend on the settings of cargo's profile, so both builds use the same one. Counts of build
/// scripts and macros are deleted. Cargo does not compare the contents of counts, so earlier results
/// are deleted, too.
fn package(ci: &Ci<'_>) -> Result<bool> {
    let package = ci.target("package");
    let build = "build --profile dist --package curtail-cli";
    let counted = format!("{build} --target-dir {package}");
    let (generate, using) = (
        format!("-Cprofile-generate={package}/counts"),
        format!("-Cprofile-use={package}/profile"),
    );
    Ok(ci.sh(&format!("[ -x {PROFDATA} ] || rustup component add llvm-tools"))?
        && ci.cargo_with(&counted, &[("RUSTFLAGS", &generate)])?
        && ci.sh(&format!("rm -rf {package}/counts {}", ci.target("dist")))?
        && ci.xtask("bench train", &[("CURTAIL_BINARY", &format!("{package}/dist/curtail"))])?
        && ci.sh(&format!("{PROFDATA} merge --output {package}/profile {package}/counts"))?
        && ci.cargo_with(build, &[("RUSTFLAGS", &using)])?
        && ci.xtask(
            "bench request --set most=21000",
            &[("CURTAIL_BINARY", &ci.target("dist/curtail"))],
        )?)
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// A requirement is missing; the text names it.
    Skipped(String),
}

/// A step with its result and its duration.
struct Timed {
    name: String,
    outcome: Outcome,
    took: Duration,
}

/// Runs all steps, or only the steps with the given names, and prints a summary. Returns false if a
/// step failed.
pub(crate) fn run(root: &Path, only: &[&str], settings: &Settings) -> Result<bool> {
    let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
    for name in only {
        ensure!(names.contains(name), "{name}: no such step; use one of {}", names.join(", "));
    }
    let ci = Ci { root, target: cargo::target_folder(root)?, settings };
    let chosen = STEPS.iter().filter(|step| only.is_empty() || only.contains(&step.name));
    let run = |step: &Step| {
        timed(step.name, || {
            if step.heavy && only.is_empty() {
                let why = format!("takes minutes; run cargo xtask ci --step {}", step.name);
                return Ok(Outcome::Skipped(why));
            }
            if let Some(why) = step.needs.iter().find_map(|need| needs::lacking(need)) {
                return Ok(Outcome::Skipped(why));
            }
            Ok(if (step.run)(&ci)? { Outcome::Passed } else { Outcome::Failed })
        })
    };
    let results: Vec<Timed> = chosen.map(run).collect();
    print!("\n{}", summary(&results));
    Ok(results.iter().all(|result| result.outcome != Outcome::Failed))
}

fn timed(name: &str, step: impl FnOnce() -> Result<Outcome>) -> Timed {
    println!("== {name}");
    let start = Instant::now();
    // A step that cannot run counts as failed, and the other steps still run.
    let outcome = step().unwrap_or_else(|error| {
        println!("error: {error:#}");
        Outcome::Failed
    });
    if let Outcome::Skipped(why) = &outcome {
        println!("SKIPPED {name}: {why}");
    }
    Timed { name: name.to_owned(), outcome, took: start.elapsed() }
}

fn summary(results: &[Timed]) -> String {
    let mut text = String::new();
    let mut total = Duration::ZERO;
    for Timed { name, outcome, took } in results {
        let seconds = took.as_secs_f64();
        let verdict = match outcome {
            Outcome::Passed => "ok".to_owned(),
            Outcome::Failed => "FAILED".to_owned(),
            Outcome::Skipped(why) => format!("SKIPPED: {why}"),
        };
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name:<12} {seconds:>7.1} s  {verdict}");
        total += *took;
    }
    let _ = writeln!(text, "{:<12} {:>7.1} s", "in all", total.as_secs_f64());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module that was renamed would silently not be fuzzed any more.
    #[test]
    fn every_fuzzed_module_has_a_property() {
        let root = crate::repository().expect("inside a repository");
        let tree = crate::tidy::Tree::load(root).expect("readable");
        let files = tree.with_extension("rs").filter(|file| file.text.contains("proptest"));
        let names: Vec<String> = files
            .map(|file| file.path.replace("/mod.rs", "/").replace(".rs", "/").replace('/', "::"))
            .collect();
        for module in FUZZED.split_whitespace() {
            assert!(names.iter().any(|name| name.contains(module)), "{module}");
        }
    }

    #[test]
    fn the_summary_names_each_step_and_its_outcome() {
        let skipped = || Ok(Outcome::Skipped("it is not installed".to_owned()));
        let results = [
            timed("bad", || Ok(Outcome::Failed)),
            timed("broken", || anyhow::bail!("no such program")),
            timed("absent", skipped),
            timed("good", || Ok(Outcome::Passed)),
        ];
        let text = summary(&results);
        let ends = ["FAILED", "FAILED", "  SKIPPED: it is not installed", "ok"];
        for ((line, name), end) in text.lines().zip(["bad", "broken", "absent", "good"]).zip(ends) {
            assert!(
                line.starts_with(name) && line.contains(" s  ") && line.ends_with(end),
                "{line:?}"
            );
        }
        assert_eq!(text.lines().count(), results.len() + 1);
    }
}
