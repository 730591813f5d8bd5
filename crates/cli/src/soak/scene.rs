//! The proxy and the leaves behind it.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use curtail_kernel::Policy;
use curtail_search::{Corpus, ShardedIndex, sample_queries};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::child::Process;
use crate::exit::Stop;

const SHARDS: u32 = 3;
const REPLICAS: u32 = 2;

/// How long the proxy may take to come to rest: its cancel time-out, and some probes.
const REST: Duration = Duration::from_secs(20);

/// How long the proxy may take to say how it is.
const STATUS: Duration = Duration::from_secs(2);

pub(super) struct Scene {
    /// Holds the index and the configuration.
    folder: tempfile::TempDir,
    pub(super) leaves: Vec<Leaf>,
    proxy: Process,
    admin: SocketAddr,
    pub(super) queries: Vec<String>,
}

pub(super) struct Leaf {
    pub(super) shard: u32,
    pub(super) replica: u32,
    pub(super) address: SocketAddr,
    /// None while it is dead.
    pub(super) process: Option<Process>,
}

fn lacking(what: &str, error: impl std::fmt::Display) -> Stop {
    Stop::Lacking(format!("{what}: {error}"))
}

impl Scene {
    pub(super) async fn start(policy: Policy, seed: u64) -> Result<Self, Stop> {
        let folder = tempfile::tempdir().map_err(|error| lacking("no temporary folder", error))?;
        let text = |n: u32| (format!("document {n}"), format!("common word{} rare{n}", n % 40));
        let corpus = Corpus::from_texts((0..2_000).map(text), "made-up documents");
        ShardedIndex::build(&folder.path().join("index"), &corpus, SHARDS, &mut |_, _| {
            ControlFlow::Continue(())
        })
        .map_err(|error| lacking("no index", error))?;
        let mut leaves = Vec::new();
        for shard in 0..SHARDS {
            for replica in 0..REPLICAS {
                let address = "127.0.0.1:0".parse().expect("an address");
                let mut leaf = Leaf { shard, replica, address, process: None };
                leaf.revive(folder.path()).await?;
                leaves.push(leaf);
            }
        }
        let config = folder.path().join("proxy.toml");
        std::fs::write(&config, configuration(policy, &leaves))
            .map_err(|error| lacking("no configuration", error))?;
        let config = config.display().to_string();
        let args = ["proxy", "--config", &config, "--seed", &seed.to_string(), "--announce"];
        let proxy = Process::start("proxy", &args.map(String::from)).await?;
        let admin = proxy.second_address.ok_or_else(|| lacking("proxy", "no admin address"))?;
        let queries = sample_queries(corpus.documents(), 200, seed);
        Ok(Self { folder, leaves, proxy, admin, queries })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.proxy.address
    }

    pub(super) fn proxy_process(&self) -> Option<u32> {
        self.proxy.id()
    }

    /// Starts a dead leaf again, where it was.
    pub(super) async fn revive(&mut self, leaf: usize) -> Result<(), Stop> {
        self.leaves[leaf].revive(self.folder.path()).await
    }

    /// Waits until the proxy is at rest; what is not, if it does not come to rest.
    pub(super) async fn settle(&self) -> Option<String> {
        let start = Instant::now();
        loop {
            // A proxy that is stuck takes connections, but says nothing.
            let busy = match timeout(STATUS, status(self.admin)).await {
                Ok(Ok(status)) => restless(&status)?,
                Ok(Err(why)) => why,
                Err(_) => format!("no status within {STATUS:?}"),
            };
            if start.elapsed() > REST {
                return Some(busy);
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Leaf {
    async fn revive(&mut self, folder: &std::path::Path) -> Result<(), Stop> {
        let name = format!("leaf {}.{}", self.shard, self.replica);
        let process = Process::start(&name, &self.arguments(folder)).await?;
        self.address = process.address;
        self.process = Some(process);
        Ok(())
    }

    fn arguments(&self, folder: &std::path::Path) -> Vec<String> {
        let Self { shard, replica, address, .. } = self;
        let index = folder.join("index").display().to_string();
        // Leaves are paused by signals, and one that is stopped does not see its stdin close.
        let mut args = vec!["leaf".to_owned(), "--tied-to-parent".to_owned()];
        args.extend(["--index".to_owned(), index]);
        let pairs = [("--shard", *shard), ("--replica", *replica), ("--slots", 1)];
        args.extend(pairs.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]));
        let times = ["--service-time", "exp:2ms", "--hiccup", "0.01:30ms", "--listen"];
        args.extend(times.map(String::from));
        args.push(address.to_string());
        args
    }
}

fn configuration(policy: Policy, leaves: &[Leaf]) -> String {
    use std::fmt::Write as _;
    let cancel = if policy.needs_cancellation() { "reset" } else { "none" };
    let mut text = format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n[log]\nlevel = \"error\"\n\
         [[service]]\nname = \"search\"\npolicy = \"{policy}\"\nslots = 1\ncancel = \"{cancel}\"\n\
         timeout = \"3s\"\nattempt_timeout = \"500ms\"\ncancel_timeout = \"2s\"\n\
         health = {{ path = \"/health\", interval = \"250ms\", timeout = \"500ms\" }}\n\
         shard_by = {{ header = \"x-shard\" }}\nretry_budget = 0.5\n"
    );
    for shard in 0..SHARDS {
        let mine = leaves.iter().filter(|leaf| leaf.shard == shard);
        let replicas: Vec<String> = mine.map(|leaf| format!("\"{}\"", leaf.address)).collect();
        let replicas = replicas.join(", ");
        let _ = write!(text, "[[service.shard]]\nname = \"{shard}\"\nreplicas = [{replicas}]\n");
    }
    text
}

async fn status(admin: SocketAddr) -> Result<Value, String> {
    let body = super::clients::get(admin, "/status").await?;
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

/// What in a status is not idle, or not there; none when all is idle.
fn restless(status: &Value) -> Option<String> {
    let mut found = Vec::new();
    for service in members(status, "services", 1, &mut found) {
        if service["live"] != 0 {
            found.push(format!("{} live queries", service["live"]));
        }
        for shard in members(service, "shards", SHARDS, &mut found) {
            if shard["queue"] != 0 {
                found.push(format!("{} wait in shard {}", shard["queue"], shard["name"]));
            }
            for server in members(shard, "servers", REPLICAS, &mut found) {
                if server["busy"] != 0 || server["up"] != true {
                    found.push(server.to_string());
                }
            }
        }
    }
    (!found.is_empty()).then(|| found.join("; "))
}

/// A list in a status. What a status does not tell is not known to be idle.
fn members<'a>(of: &'a Value, name: &str, count: u32, found: &mut Vec<String>) -> &'a [Value] {
    let list = of[name].as_array().map_or(&[][..], Vec::as_slice);
    if list.len() != count as usize {
        found.push(format!("the status has {} {name} rather than {count}", list.len()));
    }
    list
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn leaves_end_with_who_paused_them() {
        let address = "127.0.0.1:0".parse().expect("an address");
        let leaf = Leaf { shard: 1, replica: 0, address, process: None };
        let args = leaf.arguments(std::path::Path::new("folder"));
        assert!(args.contains(&"--tied-to-parent".to_owned()), "{args:?}");
    }

    /// A status of a proxy at rest.
    fn idle() -> Value {
        let server = json!({"busy": 0, "up": true});
        let shard = |name: u32| json!({"name": name, "queue": 0, "servers": [server, server]});
        json!({"services": [{"live": 0, "shards": [shard(0), shard(1), shard(2)]}]})
    }

    #[test]
    fn a_status_at_rest_is_idle_in_every_part() {
        assert_eq!(restless(&idle()), None);
        let busy = |part: &str, value: Value| {
            let mut status = idle();
            *status.pointer_mut(part).expect("a part of the status") = value;
            restless(&status).unwrap_or_default()
        };
        assert_eq!(busy("/services/0/live", json!(2)), "2 live queries");
        assert_eq!(busy("/services/0/shards/1/queue", json!(3)), "3 wait in shard 1");
        let server = busy("/services/0/shards/2/servers/1/busy", json!(1));
        assert!(server.contains(r#""busy":1"#), "{server}");
        let server = busy("/services/0/shards/2/servers/1/up", json!(false));
        assert!(server.contains(r#""up":false"#), "{server}");
    }

    #[test]
    fn a_part_that_is_missing_is_not_at_rest() {
        let without = |of: &str, name: &str| {
            let mut status = idle();
            let of = status.pointer_mut(of).and_then(Value::as_object_mut);
            of.expect("an object").remove(name).expect("a member");
            restless(&status).unwrap_or_default()
        };
        assert_eq!(without("", "services"), "the status has 0 services rather than 1");
        assert_eq!(without("/services/0", "live"), "null live queries");
        let shards = without("/services/0", "shards");
        assert_eq!(shards, "the status has 0 shards rather than 3");
        let servers = without("/services/0/shards/0", "servers");
        assert_eq!(servers, "the status has 0 servers rather than 2");
        assert_eq!(without("/services/0/shards/0", "queue"), "null wait in shard 0");
        assert_ne!(without("/services/0/shards/0/servers/0", "up"), "");
        assert_ne!(without("/services/0/shards/0/servers/0", "busy"), "");
        assert_ne!(restless(&json!(null)), None);
    }
}
