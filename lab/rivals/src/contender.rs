//! The contenders: their configurations and how they are started.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use xtask::cargo;
use xtask::process::{Process, free_port, tied};

use crate::args::{Args, Lacking};

const ENVOY: &str = include_str!("../envoy.yaml");
/// The part of a route of Envoy that hedges after `{delay}`.
const HEDGE: &str = include_str!("../hedge.yaml");
const PROXY: &str = include_str!("../proxy.toml");
/// The source code of the reverse proxy in Go, which runs the libraries.
const GO: [(&str, &str); 3] = [
    ("main.go", include_str!("../go/main.go")),
    ("go.mod", include_str!("../go/go.mod")),
    ("go.sum", include_str!("../go/go.sum")),
];

/// Whether a contender is a library that runs in the reverse proxy in Go.
fn is_library(name: &str) -> bool {
    name == "failsafe" || name.starts_with("hedgedhttp:")
}

/// The programs that contenders run.
pub(crate) struct Programs<'a> {
    args: &'a Args,
    go: PathBuf,
}

impl<'a> Programs<'a> {
    /// Finds the programs that the contenders need, and builds the one in Go.
    ///
    /// # Errors
    ///
    /// Returns [`Lacking`] if one is missing.
    pub(crate) fn find(args: &'a Args) -> Result<Self> {
        let needs = |of: fn(&str) -> bool| args.contenders.iter().any(|name| of(name));
        ensure!(args.curtail.is_file(), Lacking(format!("no {}", args.curtail.display())));
        let has_envoy = args.envoy.as_ref().is_some_and(|envoy| envoy.is_file());
        let is_envoy = |name: &str| name.starts_with("envoy:") || name.starts_with("module:");
        ensure!(has_envoy || !needs(is_envoy), Lacking("no Envoy".into()));
        let has_module = args.module.as_ref().is_some_and(|module| module.is_file());
        let lacking = Lacking("no module: --module FILE".into());
        ensure!(has_module || !needs(|name| name.starts_with("module:")), lacking);
        let go = std::path::absolute(args.dir.join("go/rivals"))?;
        if needs(is_library) {
            build(&go)?;
        }
        Ok(Self { args, go })
    }

    /// Starts a contender in front of these leaves, with its configuration and its log in the
    /// folder. `at` is the number of the process among those of the contender.
    pub(crate) fn start(
        &self,
        name: &str,
        at: usize,
        leaves: &[SocketAddr],
    ) -> Result<(Process, SocketAddr)> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let file = self.args.dir.join("proxy.toml");
        let mut contender;
        if let Some(delay) = name.strip_prefix("envoy:") {
            contender = self.envoy(&envoy(delay, address, leaves)?)?;
        } else if let Some(policy) = name.strip_prefix("module:") {
            fs::write(&file, proxy(policy, address, leaves))?;
            let mut convert = Command::new(&self.args.curtail);
            convert.args(["envoy", "--config"]).arg(file);
            contender = self.envoy(&cargo::output(&mut convert)?)?;
            let module = std::path::absolute(self.args.module.as_ref().context("no module")?)?;
            let folder = module.parent().context("the module is in no folder")?;
            contender.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", folder);
        } else if is_library(name) {
            contender = command(&self.go);
            contender.arg(name).arg(address.to_string());
            contender.args(leaves.iter().map(ToString::to_string));
        } else {
            fs::write(&file, proxy(name, address, leaves))?;
            contender = command(&self.args.curtail);
            contender.args(["proxy", "--config"]).arg(file);
        }
        let mut contender = Process::start(&format!("contender{at}"), contender, &self.args.dir)?;
        contender.wait_until(|| TcpStream::connect(address).is_ok())?;
        Ok((contender, address))
    }

    /// Returns a command that runs Envoy with a configuration.
    fn envoy(&self, config: &str) -> Result<Command> {
        let mut envoy = command(self.args.envoy.as_ref().context("no Envoy")?);
        envoy.args(["--concurrency", "1", "--disable-hot-restart", "-l", "error"]);
        envoy.args(["--config-yaml", config]);
        Ok(envoy)
    }
}

/// Returns a command that runs a program with one worker thread, in Tokio's or Go's runtime. `curtail
/// proxy` takes the number from its configuration.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = tied(program);
    command.env("TOKIO_WORKER_THREADS", "1").env("GOMAXPROCS", "1");
    command
}

/// Builds the reverse proxy in Go.
fn build(program: &Path) -> Result<()> {
    let folder = program.parent().unwrap_or(program);
    fs::create_dir_all(folder)?;
    for (name, text) in GO {
        fs::write(folder.join(name), text)?;
    }
    let done = Command::new("go").args(["build", "-o"]).arg(program).current_dir(folder).output();
    let done = done.map_err(|error| Lacking(format!("go cannot be run: {error}")))?;
    let log = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), Lacking(format!("go build: {}", log.trim())));
    Ok(())
}

/// Returns the configuration of Envoy, which takes delays in seconds. The delay may be `none`.
fn envoy(delay: &str, at: SocketAddr, leaves: &[SocketAddr]) -> Result<String> {
    let millis = delay.strip_suffix("ms").and_then(|number| number.parse::<u32>().ok());
    let millis = millis.filter(|millis| *millis > 0);
    ensure!(
        millis.is_some() || delay == "none",
        "envoy:{delay}: write a time, such as envoy:30ms, or envoy:none"
    );
    let hedge = millis.map(|millis| {
        let seconds = format!("{}s", f64::from(millis) / 1e3);
        HEDGE.replace("{delay}", &seconds)
    });
    let endpoint = |leaf: &SocketAddr| {
        let socket = format!("{{ address: {}, port_value: {} }}", leaf.ip(), leaf.port());
        format!("              - endpoint: {{ address: {{ socket_address: {socket} }} }}\n")
    };
    let leaves: String = leaves.iter().map(endpoint).collect();
    let text = ENVOY.replace("{port}", &at.port().to_string()).replace("{leaves}\n", &leaves);
    Ok(text.replace("{hedge}\n", &hedge.unwrap_or_default()))
}

/// Returns the configuration of `curtail proxy`. Prequal probes the leaves. `slots` does not apply to delayed copies, which go
/// to leaves regardless of how many copies are outstanding there.
fn proxy(policy: &str, at: SocketAddr, leaves: &[SocketAddr]) -> String {
    let slots = match policy {
        "prequal" => "slots = 1\nprobe = \"/load\"",
        _ if policy.starts_with("delayed") => "",
        _ => "slots = 1",
    };
    let leaves: Vec<String> = leaves.iter().map(|leaf| format!("\"{leaf}\"")).collect();
    let text = PROXY.replace("{port}", &at.port().to_string()).replace("{policy}", policy);
    text.replace("{slots}", slots).replace("{leaves}", &leaves.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_of_a_configuration_is_substituted() {
        let (at, leaf) = (([127, 0, 0, 1], 8080).into(), ([127, 0, 0, 1], 9001).into());
        let yaml = envoy("30ms", at, &[leaf]).expect("a delay");
        assert!(yaml.contains("per_try_timeout: 0.03s") && yaml.contains("port_value: 9001"));
        let toml = ["psq", "delayed:p95:cc"].map(|policy| proxy(policy, at, &[leaf]));
        assert_eq!(toml.each_ref().map(|text| text.contains("\nslots = 1")), [true, false]);
        assert!(
            toml.iter().all(|text| text.contains("workers = 1")),
            "one thread, like the others"
        );
        let plain = envoy("none", at, &[leaf]).expect("no delay");
        assert!(!plain.contains("hedge_policy") && !plain.contains("retry_policy"));
        for name in ["{port}", "{leaves}", "{hedge}", "{delay}", "{policy}", "{slots}"] {
            assert!(
                !plain.contains(name)
                    && !yaml.contains(name)
                    && toml.iter().all(|text| !text.contains(name)),
                "{name}"
            );
        }
        assert!(envoy("30s", at, &[leaf]).is_err());
    }
}
