//! Starts and stops all stages of a configuration.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use curtail_kernel::stage::Priority;
use curtail_runtime::accept::{clients_max, open_files};
use curtail_runtime::stage;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::{Behind, Slots, StageConfig};
use crate::cpu::Mechanism;
use crate::disk::Disk;
use crate::get;
use crate::tcp::TcpStage;

/// The largest number of slots that a throttler tries.
const SLOTS_MAX: u32 = 256;
/// The maximum number of clients of a `tcp` stage, which is the proxy's default. A waiting client
/// may occupy 64 KB.
const CONNECTIONS_MAX: usize = 10_000;
/// The time for which jobs may continue after a stage is stopped.
const DRAIN: Duration = Duration::from_secs(30);

/// The reason why a stage did not start.
#[derive(Debug, thiserror::Error)]
#[error("stage {stage:?}: {why}")]
pub struct StageError {
    stage: String,
    why: String,
}

/// The running stages.
#[derive(Debug)]
pub struct Running {
    /// The name and the addresses of each stage. Jobs are sent to the first address.
    pub addresses: Vec<(String, Vec<SocketAddr>)>,
    jobs: JoinSet<usize>,
    stop: watch::Sender<bool>,
    /// The servers, which stop when they are dropped.
    servers: Vec<get::Server>,
}

/// Starts stages. `seed` decides ties.
///
/// The future is boxed so that it is compiled in this crate, with everything that it spawns. An
/// async function is compiled in the crate that polls it, and the release profile optimizes the
/// command-line crate less.
///
/// # Errors
/// An address cannot be bound.
#[inline(never)]
pub fn start(stages: Vec<StageConfig>, seed: u64) -> Starting {
    Box::pin(start_all(stages, seed))
}

/// The future that [`start`] returns.
pub type Starting = Pin<Box<dyn Future<Output = Result<Running, StageError>> + Send>>;

async fn start_all(stages: Vec<StageConfig>, seed: u64) -> Result<Running, StageError> {
    let mut running = Running {
        addresses: Vec::new(),
        jobs: JoinSet::new(),
        stop: watch::channel(false).0,
        servers: Vec::new(),
    };
    let files = open_files().unwrap_or(u64::MAX) / stages.len().max(1) as u64;
    for stage in stages {
        let name = stage.name.clone();
        let addresses = running.add(stage, files, seed).await;
        let addresses = addresses.map_err(|why| StageError { stage: name.clone(), why })?;
        running.addresses.push((name, addresses));
    }
    Ok(running)
}

impl Running {
    /// Starts a stage that may open `files` files.
    async fn add(
        &mut self,
        stage: StageConfig,
        files: u64,
        seed: u64,
    ) -> Result<Vec<SocketAddr>, String> {
        let listen = stage.listen;
        match stage.behind.clone() {
            Behind::Http { server, admin } => self.http(&stage, server, admin, seed).await,
            Behind::Tcp { server, listen_low, low_from, max_duration, server_first } => {
                let before = match stage.slots {
                    Slots::Auto => stage::Stage::throttled(SLOTS_MAX, stage.queue),
                    Slots::Fixed(slots) => stage::Stage::before(slots, stage.queue),
                };
                let tcp = TcpStage {
                    server,
                    stage: before,
                    low_from,
                    connections: clients_max(CONNECTIONS_MAX, files),
                    idle_timeout: stage.timeout,
                    max_duration,
                    server_first,
                };
                self.tcp(tcp, [Some(listen), listen_low]).await
            }
            Behind::Get { purge, root, reads } => {
                let Slots::Fixed(slots) = stage.slots else { unreachable!("it was checked") };
                let disk = root.map(|root| {
                    let disk = Disk::new(&root, reads, stage.queue);
                    disk.map_err(|why| format!("root = {root:?}: {why}"))
                });
                let default = get::ServerOptions::default();
                let options = get::ServerOptions {
                    slots,
                    queue: stage.queue,
                    idle_timeout: stage.timeout,
                    connections: clients_max(default.connections, files),
                    disk: disk.transpose()?,
                    mechanism: Mechanism::find(),
                };
                let server = get::Server::bind(listen, purge, options).await;
                let server = server.map_err(|why| format!("{listen}, {purge}: {why}"))?;
                let get::Addresses { data, purge } = server.addresses();
                self.servers.push(server);
                Ok(vec![data, purge])
            }
        }
    }

    /// Starts the proxy, which is a stage for HTTP, with a generated configuration. Probes are
    /// disabled because there is only one server. Without probes, clients immediately receive an
    /// error when the server is down.
    async fn http(
        &mut self,
        stage: &StageConfig,
        server: SocketAddr,
        admin: Option<SocketAddr>,
        seed: u64,
    ) -> Result<Vec<SocketAddr>, String> {
        let StageConfig { name, listen, queue, timeout, .. } = stage;
        let timeout = format!("{}us", timeout.as_micros());
        let throttle = match stage.slots {
            Slots::Auto => "\"auto\"".to_owned(),
            Slots::Fixed(slots) => slots.to_string(),
        };
        let admin = admin.map_or("false".to_owned(), |admin| format!("\"{admin}\""));
        let text = format!(
            "[listen]\nhttp = \"{listen}\"\nadmin = {admin}\n\
             [[service]]\nname = \"{name}\"\npolicy = \"least-outstanding\"\ncancel = \"reset\"\n\
             throttle = {throttle}\nqueue = {queue}\nhealth = false\n\
             timeout = \"{timeout}\"\nattempt_timeout = \"{timeout}\"\n\
             [[service.shard]]\nname = \"0\"\nreplicas = [\"{server}\"]\n"
        );
        let config = curtail_proxy::config::parse(name, &text).map_err(|why| why.to_string())?;
        let server =
            curtail_proxy::Server::bind(config, seed).await.map_err(|why| why.to_string())?;
        let mut addresses = vec![server.address().map_err(|why| why.to_string())?];
        addresses.extend(server.admin_address().and_then(Result::ok));
        let stop = self.stopped();
        self.jobs.spawn(server.run(curtail_proxy::Workers::current(), stop));
        Ok(addresses)
    }

    async fn tcp(
        &mut self,
        tcp: TcpStage,
        [high, low]: [Option<SocketAddr>; 2],
    ) -> Result<Vec<SocketAddr>, String> {
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        let both = [(high, Priority::High), (low, Priority::Low)];
        for (address, class) in both.into_iter().filter_map(|(at, class)| Some((at?, class))) {
            let bind = async || -> io::Result<(TcpListener, SocketAddr)> {
                let listener = TcpListener::bind(address).await?;
                let bound = listener.local_addr()?;
                Ok((listener, bound))
            };
            let (listener, bound) = bind().await.map_err(|why| format!("{address}: {why}"))?;
            listeners.push((listener, class));
            addresses.push(bound);
        }
        let stop = self.stopped();
        self.jobs.spawn(tcp.serve(listeners, stop, DRAIN));
        Ok(addresses)
    }

    fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop = self.stop.subscribe();
        async move { drop(stop.wait_for(|stop| *stop).await) }
    }

    /// Serves until `shutdown`. Running jobs may then continue for a limited time, and jobs that
    /// take longer are aborted. Returns the number of aborted jobs.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> usize {
        shutdown.await;
        self.stop.send_replace(true);
        for server in self.servers {
            self.jobs.spawn(async move { server.drain(DRAIN).await });
        }
        let mut cut = 0;
        while let Some(ended) = self.jobs.join_next().await {
            cut += ended.unwrap_or_default();
        }
        cut
    }
}
