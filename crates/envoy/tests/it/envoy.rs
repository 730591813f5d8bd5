//! Starts Envoy with the module.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use curtail_proxy::envoy::{Format, convert_text};
use serde_json::Value;
use tempfile::TempDir;

use crate::client;

/// The variable with the folder of the library.
pub(crate) const SEARCH_PATH: &str = "ENVOY_DYNAMIC_MODULES_SEARCH_PATH";

/// How long Envoy may take to start, and a condition to hold.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running Envoy. It ends when this is dropped.
pub(crate) struct Envoy {
    process: Child,
    pub(crate) http: SocketAddr,
    admin: SocketAddr,
    folder: TempDir,
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(self.folder.path().join("log")).unwrap());
        }
    }
}

/// Returns the program. Without it, prints that the test is skipped.
pub(crate) fn program() -> Option<PathBuf> {
    let program = std::env::var_os("CURTAIL_ENVOY").map(PathBuf::from);
    if program.is_none() {
        println!("SKIPPED: set CURTAIL_ENVOY to Envoy 1.40; `cargo xtask test` installs it");
    }
    program
}

/// Returns the folder of the module's library. Cargo does not build it for tests.
pub(crate) fn libraries() -> PathBuf {
    // It is next to the folder of the test programs.
    let tests = std::env::current_exe().unwrap();
    let folder = tests.parent().and_then(Path::parent).unwrap().to_owned();
    let built = |path: &Path| path.metadata().and_then(|of| of.modified()).ok();
    let library = built(&folder.join("libcurtail_envoy.so"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/filter/request.rs");
    assert!(library >= built(&source), "first run `cargo build --workspace --lib`");
    folder
}

/// Returns the command `envoy -c FILE`, which finds the module.
pub(crate) fn command(program: &Path, config: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("-c").arg(config).arg("--disable-hot-restart");
    command.env(SEARCH_PATH, libraries()).env("CURTAIL_SEED", "1");
    command
}

/// Returns the configuration of Envoy for services of the proxy's.
pub(crate) fn config(services: &str) -> Value {
    let text = format!("[listen]\nhttp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n{services}");
    let converted = convert_text("test", &text, Format::Bootstrap);
    converted.unwrap_or_else(|error| panic!("{error}")).text
}

/// Returns a service with one shard. `lines` has further keys. Unless they have timeouts, those are
/// longer than a busy machine pauses.
pub(crate) fn service(lines: &str, replicas: &[SocketAddr]) -> String {
    let replicas: Vec<String> = replicas.iter().map(ToString::to_string).collect();
    let timeouts = match lines.contains("timeout") {
        true => "",
        false => "timeout = \"40s\"\nattempt_timeout = \"20s\"",
    };
    format!(
        "[[service]]\nname = \"leaf\"\nhealth = false\n{timeouts}\n{lines}\n\
         [[service.shard]]\nname = \"0\"\nreplicas = {replicas:?}\n"
    )
}

/// Starts Envoy with two workers. `None` if there is none.
pub(crate) fn start(services: &str) -> Option<Envoy> {
    start_with(&config(services))
}

/// Starts Envoy with a configuration of its own.
pub(crate) fn start_with(config: &Value) -> Option<Envoy> {
    let program = program()?;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("envoy.json"), config.to_string()).unwrap();
    let log = std::fs::File::create(file("log")).unwrap();
    let mut command = command(&program, &file("envoy.json"));
    command.args(["--concurrency", "2", "--log-level", "warning", "--admin-address-path"]);
    command.arg(file("admin")).stdout(Stdio::null()).stderr(log);
    let process = command.spawn().unwrap();
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut envoy = Envoy { process, http: nowhere, admin: nowhere, folder };
    let started = Instant::now();
    while !envoy.is_ready() {
        let ended = envoy.process.try_wait().unwrap();
        assert!(ended.is_none() && started.elapsed() < PATIENCE, "Envoy does not start: {ended:?}");
        std::thread::sleep(Duration::from_millis(20)); // tidy: real time
    }
    Some(envoy)
}

impl Envoy {
    /// Whether it accepts requests. Then the addresses are known.
    fn is_ready(&mut self) -> bool {
        let admin = std::fs::read_to_string(self.folder.path().join("admin")).ok();
        let Some(admin) = admin.and_then(|admin| admin.trim().parse().ok()) else { return false };
        self.admin = admin;
        if client::get(admin, "/ready").status != 200 {
            return false;
        }
        let listeners = client::get(admin, "/listeners").text();
        let http = listeners.lines().find_map(|line| line.strip_prefix("http::"));
        http.and_then(|http| http.parse().ok()).is_some_and(|http| {
            self.http = http;
            true
        })
    }

    /// Returns the sum of the module's counters of this name and kind.
    pub(crate) fn counter(&self, name: &str, kind: &str) -> u64 {
        let text = self.stats();
        let ours = text.lines().filter(|line| {
            line.contains(&format!("curtail_{name}.")) && line.contains(&format!(".kind.{kind}:"))
        });
        ours.filter_map(|line| line.rsplit(": ").next()?.parse::<u64>().ok()).sum()
    }

    /// Returns the module's statistics.
    fn stats(&self) -> String {
        let text = client::get(self.admin, "/stats").text();
        let ours = text.lines().filter(|line| line.contains("curtail_") && !line.ends_with(": 0"));
        ours.collect::<Vec<_>>().join("\n")
    }

    /// Waits until a counter has reached a value, and returns it. Statistics are passed on once per
    /// second.
    pub(crate) fn count(&self, name: &str, kind: &str, least: u64) -> u64 {
        let began = Instant::now();
        loop {
            let count = self.counter(name, kind);
            if count >= least {
                return count;
            }
            let patient = began.elapsed() < PATIENCE;
            assert!(patient, "{name} {kind} is {count}, not {least}:\n{}", self.stats());
            std::thread::sleep(Duration::from_millis(50)); // tidy: real time
        }
    }

    /// Whether the process still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }
}

/// Waits for a condition.
pub(crate) fn until(what: &str, mut is_met: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_met() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10)); // tidy: real time
    }
}
