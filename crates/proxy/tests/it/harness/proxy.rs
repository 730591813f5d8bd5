//! The proxy under test.

use std::net::SocketAddr;

use curtail_proxy::{Server, Workers, config};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::backend::{Dead, TestServer};
use super::{Client, Response, eventually, within};

/// A place in a configuration where a replica is.
pub(crate) trait Replica {
    fn place(&self) -> String;
}

impl<R> Replica for TestServer<R> {
    fn place(&self) -> String {
        self.address.to_string()
    }
}

impl Replica for Dead {
    fn place(&self) -> String {
        self.address.to_string()
    }
}

impl Replica for SocketAddr {
    fn place(&self) -> String {
        self.to_string()
    }
}

impl Replica for String {
    fn place(&self) -> String {
        self.clone()
    }
}

/// Returns a service `s` whose only shard, `0`, has these replicas. `lines` override the defaults.
pub(crate) fn service(lines: &str, replicas: &[&dyn Replica]) -> String {
    with_shards(lines, &[shard("0", replicas)])
}

/// Returns a service `s` with these shards. `lines` override the defaults.
pub(crate) fn with_shards(lines: &str, shards: &[String]) -> String {
    let mut text = format!("[[service]]\n{lines}\n");
    let defaults = [
        ("name", "\"s\""),
        ("policy", "\"psq\""),
        ("slots", "1"),
        ("health", "false"),
        // These timeouts are longer than a test may take, so that no test passes because of a
        // timeout.
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
    text + &shards.concat()
}

pub(crate) fn shard(name: &str, replicas: &[&dyn Replica]) -> String {
    let replicas: Vec<_> =
        replicas.iter().map(|replica| format!("\"{}\"", replica.place())).collect();
    format!("[[service.shard]]\nname = \"{name}\"\nreplicas = [{}]\n", replicas.join(", "))
}

/// Returns a complete configuration. `listen` contains additional lines for the `[listen]` table.
pub(crate) fn config(listen: &str, services: &str) -> String {
    let ports = "http = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"";
    format!("[listen]\n{ports}\n{listen}\n{services}")
}

/// A running proxy.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) http: SocketAddr,
    /// The address for clients that use TLS, if there is one.
    pub(crate) https: Option<SocketAddr>,
    pub(crate) admin: SocketAddr,
    /// The separate address of the service `store`, if it has one.
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
        Self::start_on(Workers::current(), text).await
    }

    /// Starts a proxy that serves its clients on these threads.
    pub(crate) async fn start_on(workers: Workers, text: &str) -> Self {
        let config = config::parse("test.toml", text).unwrap_or_else(|errors| panic!("{errors}"));
        let server = Server::bind(config, 1).await.expect("it starts");
        let http = server.address().expect("an address");
        let https = server.tls_address().map(|https| https.expect("an address"));
        let admin = server.admin_address().expect("an admin port").expect("an address");
        let own = server.service_address("store").map(|own| own.expect("an address"));
        let (drain, draining) = oneshot::channel();
        let running = tokio::spawn(server.run(workers, async {
            // Only a message makes the proxy drain. A test that ends drops the sender without
            // sending one.
            if draining.await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        Self { http, https, admin, own, drain: Some(drain), running }
    }

    /// Starts a proxy with one service. See [`service`].
    pub(crate) async fn serving(lines: &str, replicas: &[&dyn Replica]) -> Self {
        Self::listening("", lines, replicas).await
    }

    /// Starts a proxy with one service and with additional lines for `[listen]`.
    pub(crate) async fn listening(listen: &str, lines: &str, replicas: &[&dyn Replica]) -> Self {
        Self::start(&config(listen, &service(lines, replicas))).await
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.http).await
    }

    /// Returns the response to a GET on a new connection.
    pub(crate) async fn get(&self, target: &str) -> Response {
        self.client().await.get(target).await
    }

    /// Returns the response of the admin server to a GET.
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

    /// Returns a counter or gauge, summed over the series with these labels.
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

    /// Waits until no query waits and no server is busy.
    pub(crate) async fn idle(&self) {
        eventually("the proxy to be idle", async || sum(&self.status().await) == (0, 0, 0)).await;
    }

    /// Waits until the numbers of live queries, queued queries and busy slots have these values.
    pub(crate) async fn load(&self, live: u64, queued: u64, busy: u64) {
        let condition = format!("live {live}, queued {queued}, busy {busy}");
        eventually(&condition, async || sum(&self.status().await) == (live, queued, busy)).await;
    }

    /// Waits until N servers of the first service are up.
    pub(crate) async fn up(&self, servers: usize) {
        eventually(&format!("{servers} servers up"), async || {
            let status = self.status().await;
            let all = status["services"][0]["shards"][0]["servers"].as_array().cloned();
            all.unwrap_or_default().iter().filter(|server| server["up"] == true).count() == servers
        })
        .await;
    }

    /// Starts the drain.
    pub(crate) fn drain(&mut self) {
        let drain = self.drain.take().expect("draining for the first time");
        drain.send(()).expect("it runs");
    }

    /// Waits until the proxy has stopped. Returns the number of connections that were cut off.
    pub(crate) async fn ended(&mut self) -> usize {
        within("the end of the proxy", &mut self.running).await.expect("no panic")
    }
}

/// Returns the numbers of live queries, waiting queries and busy slots in a status.
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

/// The lines of `/metrics`, each as its series and its value.
pub(crate) struct OpenMetrics(Vec<(String, f64)>);

impl OpenMetrics {
    /// Parses the text. Panics if a series has no type or appears twice.
    pub(crate) fn parse(text: &str) -> Self {
        let mut read: Vec<(String, f64)> = Vec::new();
        let mut family = "";
        let body = text.strip_suffix("# EOF\n").expect("the end mark");
        for line in body.lines() {
            if let Some(meta) = line.strip_prefix("# ") {
                family = meta.split(' ').nth(1).expect("a family");
                continue;
            }
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(series.starts_with(family), "{line} in {family}");
            assert!(read.iter().all(|(other, _)| other != series), "twice: {series}");
            read.push((series.into(), value.parse().expect("a number")));
        }
        Self(read)
    }

    /// Returns the sum over the series with this name and these labels, of which there must be at
    /// least one.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let matches = |series: &str| {
            series.split('{').next() == Some(name)
                && labels.iter().all(|label| series.contains(label))
        };
        let found: Vec<f64> =
            self.0.iter().filter(|(series, _)| matches(series)).map(|&(_, value)| value).collect();
        assert!(!found.is_empty(), "no {name} with {labels:?}");
        found.iter().sum()
    }

    /// Returns [`sum`](Self::sum) as an integer.
    pub(crate) fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.sum(name, labels) as u64
    }
}
