//! `curtail proxy`: a reverse proxy in front of replicated, sharded services.
//!
//! Start reading at `serve/connection.rs`: a request's way through the proxy. [`config`] is the file
//! as people write it, `route.rs` finds the service and shard of a request, `sidecar` is control from end to end in a
//! graph of services, `metrics` is what the outside sees. The decisions are the kernel's.

mod admin;
pub mod config;
mod cost;
mod log_limit;
mod metrics;
mod observe;
mod route;
mod serve;
mod sidecar;
mod state;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use curtail_kernel::ServerId;
use curtail_runtime::http::watch as watch_server;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use config::Config;
use route::Router;
use state::Proxy;

/// Why the proxy did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("{key} = \"{address}\"{place}: cannot listen there: {error}; {}", fix(error))]
    Listen {
        /// The key of the configuration.
        key: &'static str,
        /// Where it is from.
        place: String,
        /// Its value.
        address: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// The kernel refuses a service.
    #[error(transparent)]
    Kernel(#[from] curtail_kernel::ConfigError),
    /// The process that it is the sidecar of cannot be made.
    #[error(transparent)]
    Flow(#[from] curtail_flow::BuildError),
}

/// What runs until it is done.
pub type Running<T = usize> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A proxy that listens.
pub struct Server {
    proxy: Arc<Proxy>,
    clients: TcpListener,
    admin: Option<TcpListener>,
    /// Of services with an address of their own, by their indices.
    own: Vec<(usize, TcpListener)>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({:?})", self.clients)
    }
}

impl Server {
    /// Takes its ports. `seed` decides ties.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn bind(config: Config, seed: u64) -> Result<Self, StartError> {
        let clients = listen("listen.http", config.listen.http, &config.listen.places[0]).await?;
        let admin = match config.listen.admin {
            Some(address) => Some(listen("listen.admin", address, &config.listen.places[1]).await?),
            None => None,
        };
        let mut own = Vec::new();
        for (at, service) in config.services.iter().enumerate() {
            if let Some(address) = service.listen {
                let place = Some(format!("service {:?}", service.name));
                own.push((at, listen("listen", address, &place).await?));
            }
        }
        Ok(Self { proxy: Arc::new(Proxy::new(config, seed)?), clients, admin, own })
    }

    /// Where clients connect.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.clients.local_addr()
    }

    /// Where operators connect.
    pub fn admin_address(&self) -> Option<std::io::Result<SocketAddr>> {
        self.admin.as_ref().map(TcpListener::local_addr)
    }

    /// Where a service is reached that has an address of its own.
    pub fn service_address(&self, name: &str) -> Option<std::io::Result<SocketAddr>> {
        let named = |at: usize| self.proxy.config.services[at].name == name;
        self.own.iter().find(|(at, _)| named(*at)).map(|(_, listener)| listener.local_addr())
    }

    /// Serves until `shutdown` resolves, then drains: no new connections, every running request
    /// gets its response within `listen.drain`. Returns how many connections were cut off.
    pub fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> Running {
        self.boxed(Box::pin(shutdown))
    }

    /// An async function is compiled where it is polled. Boxed here it is compiled in this crate, with everything that it
    /// calls, and not in the command line, which the release profile optimizes less.
    #[inline(never)]
    fn boxed(self, shutdown: Running<()>) -> Running {
        Box::pin(self.serve(shutdown))
    }

    async fn serve(self, shutdown: Running<()>) -> usize {
        let Self { proxy, clients, admin, own } = self;
        let (drain, draining) = watch::channel(false);
        let (drain_own, draining_own) = watch::channel(false);
        // Dropping the set ends what watches and reports.
        let mut background = JoinSet::new();
        if let Some(admin) = admin {
            background.spawn(admin::serve(Arc::clone(&proxy), admin, draining.clone()));
        }
        for service in &proxy.services {
            if let Some(learning) = service.learning.clone() {
                let cells: Vec<_> = service.cells.iter().map(|(cell, _)| cell.clone()).collect();
                background.spawn(async move { learning.run(&cells).await });
            }
            let health = &service.config.health;
            for (cell, layout) in &service.cells {
                for server in 0..layout.addresses.len() {
                    let server = ServerId(server as u32);
                    background.spawn(watch_server(cell.clone(), server, health.clone()));
                }
            }
        }
        let permits = serve::client_permits(proxy.config.listen.max_connections, 1 + own.len());
        let mut calls = JoinSet::new();
        for (at, listener) in own {
            let at = (listener, Router::of_service(&proxy.config, at));
            calls.spawn(serve::clients(Arc::clone(&proxy), at, permits, draining_own.clone()));
        }
        let at = (clients, Router::new(&proxy.config));
        let serving = serve::clients(proxy, at, permits, draining);
        tokio::pin!(serving);
        tokio::select! {
            cut = &mut serving => return cut,
            () = shutdown => {}
        }
        tracing::info!("draining");
        // The receivers live as long as the server does.
        let _ = drain.send(true);
        let cut = serving.await;
        // Requests that are served may still call others.
        let _ = drain_own.send(true);
        calls.join_all().await.into_iter().sum::<usize>() + cut
    }
}

async fn listen(
    key: &'static str,
    address: SocketAddr,
    place: &Option<String>,
) -> Result<TcpListener, StartError> {
    let listening = TcpListener::bind(address).await;
    listening.map_err(|error| {
        let place = match place {
            Some(place) => format!(" ({place})"),
            None => " (the default)".to_owned(),
        };
        StartError::Listen { key, place, address, error }
    })
}

fn fix(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "choose a port above 1023, or give this program the capability CAP_NET_BIND_SERVICE"
        }
        ErrorKind::AddrNotAvailable => "choose an address of this machine",
        _ => "choose another address or stop what uses it",
    }
}
