//! Runs leaves, roots and a client in one process, over real sockets.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use curtail_http::h1::client::Connection;
use curtail_http::h1::{BodyLength, Limits, Persistence, ResponseHead, write_request};
use curtail_kernel::Policy;
use curtail_search::leaf_server::{self, Cancel, LeafConfig, LeafStats};
use curtail_search::root_server::{self, RootConfig};
use curtail_search::{Corpus, Server, ShardedIndex};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// Timeout of every wait. It is much longer than any wait should take, so a test that reaches it
/// has hung.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) const MS: Duration = Duration::from_millis(1);

/// Builds an index of `shards` shards over a small corpus. Returns the index with the guard that
/// deletes its folder.
pub(crate) fn index(shards: u32) -> (tempfile::TempDir, ShardedIndex) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let texts = (0..40).map(|i| (format!("title {i}"), format!("word number {i} {}", i % 7)));
    let corpus = Corpus::from_texts(texts, "test");
    let directory = folder.path().join("index");
    let index =
        ShardedIndex::build(&directory, &corpus, shards, &mut |_, _| ControlFlow::Continue(()));
    (folder, index.expect("the index builds"))
}

/// Returns a basic configuration of a leaf, with one slot and without stretched times.
pub(crate) fn leaf_config(index: &Path, shard: u32, replica: u32) -> LeafConfig {
    LeafConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        index: index.to_owned(),
        shard,
        replica,
        slots: 1,
        service_time: None,
        hiccup: None,
        stratified: false,
        slow: None,
        cancel: Cancel::Honor,
        queue: 64,
        seed: 42,
    }
}

pub(crate) fn distribution(text: &str) -> curtail_dist::Distribution {
    text.parse::<curtail_dist::Spec>().expect("a distribution").resolve(1e6).expect("no files")
}

/// A server in its own task, which ends when this is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
    /// The folder of its index, if nothing else uses the index.
    folder: Option<tempfile::TempDir>,
}

impl Running {
    fn start(server: Server) -> Self {
        let (address, (stop, stopped)) = (server.address(), oneshot::channel());
        let task = Some(tokio::spawn(server.serve(async { drop(stopped.await) })));
        Self { address, stop: Some(stop), task, folder: None }
    }

    pub(crate) async fn leaf(config: LeafConfig) -> Self {
        Self::start(leaf_server::bind(config).await.expect("the leaf binds"))
    }

    /// Starts the leaf of a service with one shard. `change` modifies its basic configuration.
    pub(crate) async fn alone(change: impl FnOnce(&mut LeafConfig)) -> Self {
        let (folder, index) = index(1);
        let mut config = leaf_config(index.directory(), 0, 0);
        change(&mut config);
        let mut leaf = Self::leaf(config).await;
        leaf.folder = Some(folder);
        leaf
    }

    pub(crate) async fn root(shards: Vec<Vec<SocketAddr>>, policy: &str) -> Self {
        let policy = Policy::parse(policy, None).expect("a policy");
        let limits = curtail_kernel::Limits { cancel: true, ..curtail_kernel::Limits::default() };
        let listen = ([127, 0, 0, 1], 0).into();
        let config = RootConfig { listen, shards, policy, limits, slots: 1, seed: 7 };
        Self::start(root_server::bind(config).await.expect("the root binds"))
    }

    /// Starts the shutdown.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until the server has stopped.
    pub(crate) async fn stopped(mut self) {
        self.stop();
        let task = self.task.take().expect("it is stopped once");
        timeout(LONG, task).await.expect("it drains").expect("it does not panic");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    head: ResponseHead,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name).map(|value| std::str::from_utf8(value).expect("text"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {}", self.text()))
    }

    /// Returns one of the times in `server-timing`, in milliseconds.
    pub(crate) fn timing(&self, part: &str) -> Option<f64> {
        let all = self.header("server-timing")?.split(", ");
        let mut found = all.filter_map(|one| one.strip_prefix(part)?.strip_prefix(";dur="));
        found.next().map(|ms| ms.parse().expect("a number"))
    }
}

/// A client's connection.
pub(crate) struct Client(Connection<TcpStream>);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("it listens");
        Self(Connection::new(stream, Limits::default()))
    }

    pub(crate) async fn try_get(&mut self, target: &str, headers: &[(&str, &str)]) -> Option<Got> {
        let headers = [("host", "test")].iter().chain(headers).copied();
        let mut wire = BytesMut::new();
        write_request(&mut wire, "GET", target, headers, BodyLength::None, Persistence::Default)
            .expect("a good request");
        let exchange = async {
            let head = self.0.send(&wire, false).await.ok()?;
            let body = self.0.body_all(1 << 24).await.ok()?.to_vec();
            Some(Got { status: head.status(), head, body })
        };
        timeout(LONG, exchange).await.expect("a response in time")
    }

    pub(crate) async fn get(&mut self, target: &str, headers: &[(&str, &str)]) -> Got {
        self.try_get(target, headers).await.expect("an answer")
    }
}

/// Sends one request on a new connection.
pub(crate) async fn get(address: SocketAddr, target: &str) -> Got {
    Client::connect(address).await.get(target, &[]).await
}

/// Sends one search on a new connection, in the background.
pub(crate) fn search(address: SocketAddr, target: &str) -> JoinHandle<Got> {
    let target = target.to_owned();
    tokio::spawn(async move { get(address, &target).await })
}

/// Requests the statistics until `wanted` returns true, and returns the last ones. `wanted` is
/// called for every response, so it may also check the statistics.
pub(crate) async fn stats_until(
    address: SocketAddr,
    wanted: impl Fn(&LeafStats) -> bool,
) -> LeafStats {
    let mut client = Client::connect(address).await;
    let start = Instant::now();
    loop {
        let stats: LeafStats = client.get("/stats", &[]).await.json();
        if wanted(&stats) {
            return stats;
        }
        assert!(start.elapsed() < LONG, "this never became true: {stats:?}");
        tokio::task::yield_now().await;
    }
}

/// Returns an address where nothing listens.
pub(crate) async fn dead_address() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    listener.local_addr().expect("an address")
}
