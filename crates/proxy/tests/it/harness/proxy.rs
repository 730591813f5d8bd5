//! The proxy under test.

use std::net::SocketAddr;

use curtail_proxy::{Server, config};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Backend, Client, OpenMetrics, Response, eventually, within};

/// A service `s` with one shard `0` of these replicas; `lines` come before the defaults.
pub(crate) fn service(lines: &str, replicas: &[SocketAddr]) -> String {
    let mut text = format!("[[service]]\n{lines}\n");
    let defaults = [
        ("name", "\"s\""),
        ("policy", "\"psq\""),
        ("slots", "1"),
        ("health", "false"),
        // Longer than a test may take: nothing passes with the help of a timeout.
        ("timeout", "\"99s\""),
        ("attempt_timeout", "\"99s\""),
        ("cancel_timeout", "\"99s\""),
    ];
    for (key, value) in defaults {
        let given = |line: &str| line.trim_start().starts_with(&format!("{key} "));
        if !lines.lines().any(given) {
            text += &format!("{key} = {value}\n");
        }
    }
    text + &shard("0", replicas)
}

fn shard(name: &str, replicas: &[SocketAddr]) -> String {
    let replicas: Vec<_> = replicas.iter().map(|address| format!("\"{address}\"")).collect();
    format!("[[service.shard]]\nname = \"{name}\"\nreplicas = [{}]\n", replicas.join(", "))
}

/// A whole configuration; `listen` are lines of its `[listen]`.
pub(crate) fn config(listen: &str, services: &str) -> String {
    let ports = "http = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"";
    format!("[listen]\n{ports}\n{listen}\n{services}")
}

/// A proxy that runs.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Of the service `store`, if it has an address of its own.
    pub(crate) own: Option<SocketAddr>,
    drain: Option<oneshot::Sender<()>>,
    running: JoinHandle<usize>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Proxy {
    /// Starts a proxy from the text of a configuration.
    pub(crate) async fn start(text: &str) -> Self {
        let config = config::parse("test.toml", text).unwrap_or_else(|errors| panic!("{errors}"));
        let server = Server::bind(config, 1).await.expect("it starts");
        let http = server.address().expect("an address");
        let admin = server.admin_address().expect("an admin port").expect("an address");
        let own = server.service_address("store").map(|own| own.expect("an address"));
        let (drain, draining) = oneshot::channel();
        let running = tokio::spawn(server.run(async {
            // Only a message drains: a test that ends just drops its proxy.
            if draining.await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        Self { http, admin, own, drain: Some(drain), running }
    }

    /// One service, see [`service`].
    pub(crate) async fn serving(lines: &str, backends: &[&Backend]) -> Self {
        Self::listening("", lines, backends).await
    }

    /// One service, and lines for `[listen]`.
    pub(crate) async fn listening(listen: &str, lines: &str, backends: &[&Backend]) -> Self {
        let addresses: Vec<_> = backends.iter().map(|backend| backend.address).collect();
        Self::start(&config(listen, &service(lines, &addresses))).await
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.http).await
    }

    /// The response to a GET over a connection of its own.
    pub(crate) async fn get(&self, target: &str) -> Response {
        self.client().await.get(target).await
    }

    /// The response of the admin port to a GET.
    pub(crate) async fn asked(&self, target: &str) -> Response {
        Client::connect(self.admin).await.get(target).await
    }

    pub(crate) async fn status(&self) -> Value {
        let response = self.asked("/status").await;
        serde_json::from_slice(&response.body).expect("JSON")
    }

    pub(crate) async fn metrics(&self) -> OpenMetrics {
        OpenMetrics::parse(&self.asked("/metrics").await.text())
    }

    /// A counter or gauge, summed over the series with these labels.
    pub(crate) async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.metrics().await.sum(name, labels)
    }

    /// [`metric`](Self::metric) of something that is counted.
    pub(crate) async fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.metrics().await.count(name, labels)
    }

    /// Waits until no client is connected.
    pub(crate) async fn disconnected(&self) {
        eventually("the clients to be gone", async || {
            self.count("curtail_connections", &[]).await == 0
        })
        .await;
    }

    /// Waits until nothing waits and no server is busy.
    pub(crate) async fn idle(&self) {
        eventually("the proxy to be idle", async || sum(&self.status().await) == (0, 0, 0)).await;
    }

    /// Waits for so many (live, queued, busy).
    pub(crate) async fn load(&self, live: u64, queued: u64, busy: u64) {
        let what = format!("live {live}, queued {queued}, busy {busy}");
        eventually(&what, async || sum(&self.status().await) == (live, queued, busy)).await;
    }

    /// Waits until so many servers of the first service are up.
    pub(crate) async fn up(&self, servers: usize) {
        eventually(&format!("{servers} servers up"), async || {
            let status = self.status().await;
            let all = status["services"][0]["shards"][0]["servers"].as_array().cloned();
            all.unwrap_or_default().iter().filter(|server| server["up"] == true).count() == servers
        })
        .await;
    }

    /// Begins to drain.
    pub(crate) fn drain(&mut self) {
        let drain = self.drain.take().expect("draining for the first time");
        drain.send(()).expect("it runs");
    }

    /// Waits for the end; how many connections were cut off.
    pub(crate) async fn ended(&mut self) -> usize {
        within("the end of the proxy", &mut self.running).await.expect("no panic")
    }
}

/// Live queries, waiting queries and busy slots of a status.
fn sum(status: &Value) -> (u64, u64, u64) {
    fn all(tables: &[Value], key: &str) -> Vec<Value> {
        let lists = tables.iter().map(|table| table[key].as_array().cloned().expect("a list"));
        lists.flatten().collect()
    }
    let add = |tables: &[Value], key: &str| -> u64 {
        tables.iter().map(|table| table[key].as_u64().expect("a number")).sum()
    };
    let services = all(std::slice::from_ref(status), "services");
    let shards = all(&services, "shards");
    (add(&services, "live"), add(&shards, "queue"), add(&all(&shards, "servers"), "busy"))
}
