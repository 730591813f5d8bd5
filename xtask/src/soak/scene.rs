//! The proxy, the leaves behind it, and the odd replicas.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::wire::Loads;
use super::{SHARDS, odd};
use xtask::process::{Process, free_port, get, tied};

const REPLICAS: u32 = 2;
/// The number of tonic servers.
const CALLS: u32 = 3;
/// The keys of the service of the tonic servers.
const GRPC: &str = "protocol = \"grpc\"\nhealth = { interval = \"250ms\", timeout = \"500ms\" }\n\
    route = { grpc = \"calls.Calls\", unary = true, idempotent = true }";
/// The number of odd replicas that serve requests. One additional replica refuses connections.
const ODD: u32 = 3;
/// The time limit for the proxy to become idle. It allows for the longest ejection (the default of
/// `max_ejection_time`), which a replica with many faults in a row gets, and for the cancel timeout and some
/// probes.
const REST: Duration = Duration::from_secs(60 + 20);

pub(super) struct Scene {
    programs: Programs,
    pub(super) leaves: Vec<Leaf>,
    proxy: Process,
    addresses: Vec<SocketAddr>,
    https: SocketAddr,
    /// The folder that contains the configuration and the logs. It is dropped last.
    folder: tempfile::TempDir,
}

/// A replica that is struck by faults.
pub(super) struct Leaf {
    kind: Kind,
    address: SocketAddr,
    /// `None` while the leaf is dead.
    pub(super) process: Option<Process>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Search {
        shard: u32,
        replica: u32,
    },
    /// A tonic server.
    Calls {
        number: u32,
    },
}

/// The programs that the scene consists of.
pub(super) struct Programs {
    pub(super) curtail: PathBuf,
    pub(super) calls: PathBuf,
}

/// How the proxy became idle after the last fault.
pub(super) struct Settled {
    pub(super) is_idle: bool,
    pub(super) after: Duration,
    /// The parts that were busy last.
    pub(super) was_busy: Option<String>,
    /// What the metrics count for replicas among them.
    pub(super) ejections: Vec<String>,
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.after.as_secs_f64();
        let what = if self.is_idle { "every slot is free, no query waits" } else { "NOT all idle" };
        write!(f, "{what} after {seconds:.1} s")?;
        // What lasts long may be an ejection, and these show whether there was one.
        if self.after < Duration::from_secs(1) {
            return Ok(());
        }
        let was_busy = self.was_busy.as_deref().unwrap_or_default();
        write!(f, " (last: {was_busy}; {})", self.ejections.join(", "))
    }
}

impl Scene {
    pub(super) fn start(programs: Programs, policy: &str, seed: u64) -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let mut leaves = Vec::new();
        let search = (0..SHARDS)
            .flat_map(|shard| (0..REPLICAS).map(move |replica| Kind::Search { shard, replica }));
        for kind in search.chain((0..CALLS).map(|number| Kind::Calls { number })) {
            let address = "127.0.0.1:0".parse()?;
            let mut leaf = Leaf { kind, address, process: None };
            leaf.revive(&programs, folder.path())?;
            leaves.push(leaf);
        }
        let mut odd = (0..ODD).map(|_| odd::replica()).collect::<std::io::Result<Vec<_>>>()?;
        odd.push(SocketAddr::from(([127, 0, 0, 1], free_port()?)));
        let https = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        std::fs::write(folder.path().join("cert.pem"), certified.cert.pem())?;
        std::fs::write(folder.path().join("key.pem"), certified.signing_key.serialize_pem())?;
        let config = folder.path().join("proxy.toml");
        let text = configuration(policy, https, &leaves, &odd, odd::replica()?);
        std::fs::write(&config, text)?;
        let mut command = tied(&programs.curtail);
        command.args(["proxy", "--announce", "--tied-to-stdin", "--seed", &seed.to_string()]);
        command.arg("--config").arg(config);
        let mut proxy = Process::start("proxy", command, folder.path())?;
        let addresses = proxy.announced()?;
        anyhow::ensure!(addresses.len() == 2, "the proxy has no admin address");
        Ok(Self { programs, leaves, proxy, addresses, https, folder })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Starts the clients that use HTTP/2 and TLS.
    pub(super) fn loads(&self, rate: f64, length: Duration) -> Result<Loads> {
        Loads::start(&self.programs.curtail, self.folder.path(), self.https, rate, length)
    }

    pub(super) fn admin(&self) -> SocketAddr {
        self.addresses[1]
    }

    pub(super) fn proxy(&self) -> u32 {
        // `setpriv` has replaced itself with the proxy, so this is the proxy's process.
        self.proxy.id()
    }

    /// Restarts a dead leaf at its old address.
    pub(super) fn revive(&mut self, leaf: usize) -> Result<()> {
        self.leaves[leaf].revive(&self.programs, self.folder.path())
    }

    pub(super) fn revive_all(&mut self) -> Result<()> {
        let mut dead = self.leaves.iter_mut().filter(|leaf| leaf.process.is_none());
        dead.try_for_each(|leaf| leaf.revive(&self.programs, self.folder.path()))
    }

    /// Waits until the proxy is idle, or until that takes too long.
    pub(super) fn settle(&self) -> Settled {
        let (start, mut was_busy) = (Instant::now(), None);
        loop {
            let status = get(self.admin(), "/status");
            let busy = match status.map(|text| serde_json::from_str(&text)) {
                Ok(Ok(status)) => not_idle(&status),
                other => Some(format!("no status: {other:?}")),
            };
            let (is_idle, after) = (busy.is_none(), start.elapsed());
            was_busy = busy.or(was_busy);
            if is_idle || after > REST {
                let ejections = self.ejections(was_busy.as_deref().unwrap_or_default());
                return Settled { is_idle, after, was_busy, ejections };
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns how often the replicas that `busy` names were ejected, and why.
    fn ejections(&self, busy: &str) -> Vec<String> {
        let metrics = get(self.admin(), "/metrics").unwrap_or_default();
        let ejections = metrics.lines().filter(|line| {
            let server = line.split('"').nth(3);
            line.starts_with("curtail_ejections_total{service=\"search\",server=")
                && !line.ends_with(" 0")
                && server.is_some_and(|server| busy.contains(server))
        });
        ejections.map(str::to_owned).collect()
    }
}

impl Leaf {
    fn revive(&mut self, programs: &Programs, folder: &Path) -> Result<()> {
        let (name, command) = match self.kind {
            Kind::Search { shard, replica } => {
                (format!("leaf{shard}.{replica}"), self.search(&programs.curtail, shard, replica))
            }
            Kind::Calls { number } => {
                let mut command = tied(&programs.calls);
                let (address, seed) = (self.address.to_string(), number.to_string());
                command.args(["serve", &address, "2", &seed]);
                (format!("calls{number}"), command)
            }
        };
        let mut process = Process::start(&name, command, folder)?;
        self.address = process.announced()?[0];
        self.process = Some(process);
        Ok(())
    }

    fn search(&self, curtail: &Path, shard: u32, replica: u32) -> Command {
        // Leaves are paused by signals, and a stopped process does not notice that its stdin is
        // closed.
        let mut command = tied(curtail);
        command.args(["leaf", "--tied-to-parent", "--slots", "1", "--shards", &SHARDS.to_string()]);
        command.args(["--service-time", "exp:2ms", "--hiccup", "0.01:30ms"]);
        command.args(["--shard", &shard.to_string(), "--replica", &replica.to_string()]);
        command.args(["--listen", &self.address.to_string()]);
        command
    }
}

fn configuration(
    policy: &str,
    https: SocketAddr,
    leaves: &[Leaf],
    odd: &[SocketAddr],
    big: SocketAddr,
) -> String {
    let cancels = [":cc", "preempt", "app-timeout"].iter().any(|part| policy.contains(part));
    let service = |name: &str,
                   policy: &str,
                   cancel: &str,
                   more: &str,
                   shards: &[Vec<SocketAddr>]| {
        let shards = shards.iter().enumerate().map(|(shard, replicas)| {
            let replicas: Vec<String> = replicas.iter().map(ToString::to_string).collect();
            format!("[[service.shard]]\nname = \"{shard}\"\nreplicas = {replicas:?}\n")
        });
        format!(
            "[[service]]\nname = \"{name}\"\npolicy = \"{policy}\"\nslots = 1\ncancel = \"{cancel}\"\n\
             timeout = \"3s\"\nattempt_timeout = \"500ms\"\ncancel_timeout = \"2s\"\nretry_budget = 0.5\n\
             {more}\n{}",
            shards.collect::<String>()
        )
    };
    let shard = |shard: u32| {
        let is_of =
            |leaf: &&Leaf| matches!(leaf.kind, Kind::Search { shard: of, .. } if of == shard);
        leaves.iter().filter(is_of).map(|leaf| leaf.address).collect()
    };
    let calls = leaves.iter().filter(|leaf| matches!(leaf.kind, Kind::Calls { .. }));
    let calls: Vec<SocketAddr> = calls.map(|leaf| leaf.address).collect();
    let plain = |name: &str, more: &str| {
        format!(
            "health = {{ path = \"/health\", interval = \"250ms\", timeout = \"500ms\" }}\n\
             route = {{ path_prefix = \"/{name}\" }}\n{more}"
        )
    };
    let shards: Vec<Vec<SocketAddr>> = (0..SHARDS).map(shard).collect();
    let cancel = if cancels { "reset" } else { "none" };
    [
        format!(
            "[listen]\nhttp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nhttps = \"{https}\"\n\
             tls = {{ certificates = {{ cert = \"cert.pem\", key = \"key.pem\" }} }}\n\
             [log]\nlevel = \"error\"\n"
        ),
        service(
            "search",
            policy,
            cancel,
            &plain("search", "shard_by = { header = \"x-shard\" }"),
            &shards,
        ),
        // The servers stop a call when its stream is reset.
        service("calls", policy, "reset", GRPC, &[calls]),
        // The odd replicas cannot stop a request, so this service does not cancel copies.
        service(
            "odd",
            if cancels { "psq" } else { policy },
            "none",
            &plain("odd", ""),
            &[odd.to_vec()],
        ),
        service("big", "psq", "none", &plain("big", ""), &[vec![big]]),
    ]
    .concat()
}

/// Returns the parts of a status that are missing or are not idle. Returns `None` if all parts are
/// idle.
fn not_idle(status: &Value) -> Option<String> {
    let services =
        [("search", SHARDS, REPLICAS), ("calls", 1, CALLS), ("odd", 1, ODD + 1), ("big", 1, 1)];
    let mut found = Vec::new();
    // A part that is missing from the status reads as null, so it does not count as idle.
    for (name, shards, servers) in services {
        let mut all = status["services"].as_array().into_iter().flatten();
        let service = all.find(|service| service["name"] == name).unwrap_or(&Value::Null);
        if service["live"] != 0 {
            found.push(format!("{name}: {} live queries", service["live"]));
        }
        for shard in (0..shards).map(|shard| &service["shards"][shard as usize]) {
            if shard["queue"] != 0 {
                found.push(format!("{name}: {} wait in shard {}", shard["queue"], shard["name"]));
            }
            for server in (0..servers).map(|server| &shard["servers"][server as usize]) {
                // One of the odd replicas never listens, so it may be down.
                if server["busy"] != 0 || name == "search" && server["up"] != true {
                    found.push(format!("{name}: {server}"));
                }
            }
        }
    }
    (!found.is_empty()).then(|| found.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the status of an idle proxy.
    fn idle() -> Value {
        let server = json!({"busy": 0, "up": true});
        let shard =
            |servers| json!({"name": "s", "queue": 0, "servers": vec![server.clone(); servers]});
        let service = |name: &str, shards: usize, servers| json!({"name": name, "live": 0, "shards": vec![shard(servers); shards]});
        json!({"services": [
            service("search", 3, 2),
            service("odd", 1, 4),
            service("big", 1, 1),
            service("calls", 1, 3),
        ]})
    }

    #[test]
    fn a_status_at_rest_is_idle_in_every_part() {
        assert_eq!(not_idle(&idle()), None);
        for (part, value, is_idle) in [
            ("/services/0/live", json!(2), false),
            ("/services/0/shards/1/queue", json!(3), false),
            ("/services/0/shards/2/servers/1/busy", json!(1), false),
            ("/services/0/shards/2/servers/1/up", json!(false), false),
            ("/services/1/shards/0/servers/3/up", json!(false), true),
            ("/services", json!(null), false),
            ("/services/0/live", json!(null), false),
            ("/services/0/shards", json!([]), false),
            ("/services/0/shards/0/servers", json!([]), false),
            ("/services/0/shards/0/servers/0/up", json!(null), false),
            ("/services/1/shards/0/servers/0/busy", json!(null), false),
        ] {
            let mut status = idle();
            *status.pointer_mut(part).expect("a part of the status") = value;
            assert_eq!(not_idle(&status).is_none(), is_idle, "{status}");
        }
    }
}
