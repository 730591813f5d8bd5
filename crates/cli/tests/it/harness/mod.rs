//! Starts real processes of the real binary for tests.
#![allow(dead_code, unreachable_pub)] // shared by several test binaries, each of which uses a part

pub mod serving;
pub mod words;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use curtail_search::{Corpus, ShardedIndex, sample_queries};
use rustix::process::{Pid, Signal, kill_process};

pub const CURTAIL: &str = env!("CARGO_BIN_EXE_curtail");

/// A valid configuration of the proxy, without a server behind it.
pub const GOOD: &str = "[listen]\nhttp = \"127.0.0.1:0\"\nadmin = false\n[[service]]\nname = \"s\"\n\
    policy = \"psq\"\nslots = 1\n[[service.shard]]\nname = \"0\"\nreplicas = [\"127.0.0.1:9\"]\n";

/// A listening process, which is killed when this is dropped.
pub struct Process {
    pub address: SocketAddr,
    pub admin: Option<SocketAddr>,
    child: Child,
}

impl Process {
    /// Starts curtail. The arguments are the words of a line.
    pub fn start(line: &str) -> Self {
        Self::start_with(line, Stdio::null())
    }

    pub fn start_with(line: &str, stderr: Stdio) -> Self {
        let mut command = Command::new(CURTAIL);
        command.args(line.split_whitespace());
        Self::spawn(command, stderr)
    }

    /// Starts a command that executes curtail.
    pub fn spawn(mut command: Command, stderr: Stdio) -> Self {
        command.arg("--tied-to-stdin");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("the binary starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it prints a line");
        let list = line.trim().strip_prefix("listening on ");
        let list = list.unwrap_or_else(|| panic!("{command:?} prints {line:?}"));
        let mut addresses = list.split(' ').map(|address| address.parse().expect("an address"));
        let address = addresses.next().expect("an address");
        Self { address, admin: addresses.next(), child }
    }

    pub fn signal(&self, signal: Signal) {
        self::signal(&self.child, signal);
    }

    /// Waits up to ten seconds for the process to end, and returns its exit code.
    pub fn wait(mut self) -> Option<i32> {
        wait(&mut self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn wait(child: &mut Child) -> Option<i32> {
    let mut code = None;
    until("the process ends", || {
        code = child.try_wait().expect("a child of ours");
        code.is_some()
    });
    code?.code()
}

pub fn signal(to: &Child, signal: Signal) {
    kill_process(Pid::from_child(to), signal).expect("a child of ours");
}

/// Waits up to ten seconds for a condition.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5)); // tidy: real time
    }
}

/// A shard with two leaves, and a proxy in front of it.
pub struct Service {
    leaves: [Mutex<Option<Process>>; 2],
    addresses: [SocketAddr; 2],
    pub proxy: Process,
    pub targets: Vec<String>,
    folder: tempfile::TempDir,
}

impl Service {
    /// `extra` is appended to the service's table in the configuration.
    pub fn start(policy: &str, extra: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text = |n: u32| (format!("document {n}"), format!("common word{} rare{n}", n % 20));
        let corpus = Corpus::from_texts((0..200).map(text), "made-up documents");
        let index = folder.path().join("index");
        ShardedIndex::build(&index, &corpus, 1, &mut |_, _| ControlFlow::Continue(()))
            .expect("an index");
        let any = "127.0.0.1:0".parse().expect("an address");
        let leaves = [0, 1].map(|replica| leaf(folder.path(), replica, any));
        let addresses = [leaves[0].address, leaves[1].address];
        let config = folder.path().join("proxy.toml");
        let text = format!(
            "[listen]\nhttp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n[[service]]\n\
             name = \"search\"\npolicy = \"{policy}\"\nslots = 1\ntimeout = \"10s\"\n\
             attempt_timeout = \"500ms\"\ncancel_timeout = \"1s\"\n\
             health = {{ path = \"/health\", interval = \"250ms\", timeout = \"500ms\" }}\n{extra}\n\
             [[service.shard]]\nname = \"0\"\nreplicas = [\"{}\", \"{}\"]\n",
            addresses[0], addresses[1]
        );
        std::fs::write(&config, text).expect("a configuration");
        let proxy = Process::start(&format!("proxy --config {} --announce", config.display()));
        let queries = sample_queries(corpus.documents(), 50, 1);
        let target = |(n, q): (usize, &String)| format!("/search?q={}&n={n}", q.replace(' ', "+"));
        let words = queries.iter().filter(|query| !query.contains(['"', '+', '-']));
        let targets = words.cycle().take(2_000).enumerate().map(target).collect();
        Self {
            leaves: leaves.map(|leaf| Mutex::new(Some(leaf))),
            addresses,
            proxy,
            targets,
            folder,
        }
    }

    /// The directory with the index.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills a leaf without any warning.
    pub fn kill(&self, leaf: usize) {
        drop(self.leaf(leaf).take());
    }

    /// Restarts a killed leaf at its address.
    pub fn revive(&self, replica: usize) {
        let address = self.addresses[replica];
        *self.leaf(replica) = Some(leaf(self.folder.path(), replica, address));
    }

    pub fn signal(&self, leaf: usize, signal: Signal) {
        self.leaf(leaf).as_ref().expect("the leaf runs").signal(signal);
    }

    fn leaf(&self, leaf: usize) -> MutexGuard<'_, Option<Process>> {
        self.leaves[leaf].lock().expect("no panic")
    }

    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(&get(self.proxy.admin.expect("an admin port"), "/status"))
            .expect("JSON")
    }

    pub fn servers(&self) -> Vec<serde_json::Value> {
        let status = self.status();
        status["services"][0]["shards"][0]["servers"].as_array().expect("servers").clone()
    }

    /// Waits until the proxy is idle and every server is up.
    pub fn comes_to_rest(&self) {
        until("the proxy is idle", || {
            let idle = self.servers().iter().all(|s| s["busy"] == 0 && s["up"] == true);
            idle && self.status()["services"][0]["live"] == 0
        });
    }

    /// Returns one of the proxy's counters, summed over all series of a leaf.
    pub fn counted(&self, metric: &str, leaf: usize) -> u64 {
        let metrics = get(self.proxy.admin.expect("an admin port"), "/metrics");
        let (series, server) = (format!("{metric}_total{{"), self.addresses[leaf].to_string());
        let of_leaf = metrics.lines().filter(|line| {
            line.starts_with(&series) && line.contains(&format!("server=\"{server}\""))
        });
        of_leaf.map(|line| line.rsplit_once(' ').expect("a value").1.parse::<u64>().unwrap()).sum()
    }

    /// Measures the time until a client gets a response from this leaf.
    pub fn used_again(&self, leaf: usize) -> Duration {
        let (start, before) = (Instant::now(), self.counted("curtail_copies_won", leaf));
        until("the leaf is used again", || self.counted("curtail_copies_won", leaf) > before);
        start.elapsed()
    }
}

fn leaf(folder: &Path, replica: usize, listen: SocketAddr) -> Process {
    let index = folder.join("index");
    Process::start(&format!(
        "leaf --index {} --shard 0 --replica {replica} --listen {listen} --service-time exp:3ms",
        index.display()
    ))
}

/// Sends a GET and returns the body; the status must be 200.
pub fn get(address: SocketAddr, target: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {target} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{target}: {head}");
    body.to_owned()
}
