//! `curtail proxy`: a reverse proxy in front of replicated, sharded services.
//!
//! Start reading at `serve/connection.rs`, which handles a request from its arrival to the
//! response. [`config`] parses the configuration file, `route.rs` finds the service and the shard
//! of a request, `sidecar` applies end-to-end rate control in a graph of services, and `metrics`
//! exports what operators see. The kernel makes all scheduling decisions.

mod admin;
mod certificates;
pub mod config;
mod cost;
pub mod embedded;
pub mod envoy;
mod log_limit;
mod metrics;
mod normalize;
mod observe;
mod request_id;
mod route;
mod serve;
mod sidecar;
mod state;

use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use curtail_kernel::ServerId;
use curtail_net::{Endpoint, Listener};
pub use curtail_runtime::Workers;
use curtail_runtime::http::watch as watch_server;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use config::Config;
use route::Router;
use serve::Entrance;
use state::Proxy;
pub use state::StartError;

/// A boxed future that runs until the server has stopped.
pub type Running<T = usize> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A proxy whose listeners are bound.
pub struct Server {
    proxy: Arc<Proxy>,
    clients: TcpListener,
    tls_clients: Option<TcpListener>,
    unix_clients: Option<Listener>,
    admin: Option<TcpListener>,
    /// Listeners of services that have their own address, with the index of the service.
    own: Vec<(usize, TcpListener)>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({:?})", self.clients)
    }
}

impl Server {
    /// Binds all listeners. `seed` seeds the random choices among equal servers.
    ///
    /// # Panics
    /// Panics if called outside a tokio runtime.
    pub async fn bind(config: Config, seed: u64) -> Result<Self, StartError> {
        let clients = listen("listen.http", config.listen.http, &config.listen.places[0]).await?;
        let tls_clients = match &config.listen.https {
            Some((address, _)) => {
                Some(listen("listen.https", *address, &config.listen.places[2]).await?)
            }
            None => None,
        };
        let unix_clients = match &config.listen.unix {
            Some(path) => Some(listen_unix(path)?),
            None => None,
        };
        let admin = match config.listen.admin {
            Some(address) => Some(listen("listen.admin", address, &config.listen.places[1]).await?),
            None => None,
        };
        let mut own = Vec::new();
        for (at, service) in config.services.iter().enumerate() {
            if let Some(address) = service.listen {
                let place = Some(format!("service {:?}", service.name));
                let listener = listen("listen", address, &place).await?;
                let address = listener.local_addr().unwrap_or(address);
                tracing::info!(service = service.name, %address, "the service listens");
                own.push((at, listener));
            }
        }
        let proxy = Arc::new(Proxy::new(config, seed)?);
        Ok(Self { proxy, clients, tls_clients, unix_clients, admin, own })
    }

    /// Returns the address for clients.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.clients.local_addr()
    }

    /// Returns the address for clients that use TLS, if there is one.
    pub fn tls_address(&self) -> Option<std::io::Result<SocketAddr>> {
        self.tls_clients.as_ref().map(TcpListener::local_addr)
    }

    /// Returns the address for operators, if there is an admin listener.
    pub fn admin_address(&self) -> Option<std::io::Result<SocketAddr>> {
        self.admin.as_ref().map(TcpListener::local_addr)
    }

    /// Returns the address of a service that has its own listener.
    pub fn service_address(&self, name: &str) -> Option<std::io::Result<SocketAddr>> {
        let named = |at: usize| self.proxy.config.services[at].name == name;
        self.own.iter().find(|(at, _)| named(*at)).map(|(_, listener)| listener.local_addr())
    }

    /// Serves connections on `workers` until `shutdown` resolves, then drains: the proxy accepts no
    /// new connections, and running requests must complete within `listen.drain`. Returns the number
    /// of connections that were cut off.
    pub fn run(
        self,
        workers: Workers,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Running {
        self.boxed(workers, Box::pin(shutdown))
    }

    /// Boxes the future of `serve`. An async function is compiled in the crate that polls it.
    /// Without the box, `serve` and everything that it calls would be compiled in the command-line
    /// crate. The release profile optimizes that crate less than this one.
    #[inline(never)]
    fn boxed(self, workers: Workers, shutdown: Running<()>) -> Running {
        Box::pin(self.serve(workers, shutdown))
    }

    async fn serve(self, workers: Workers, shutdown: Running<()>) -> usize {
        let Self { proxy, clients, tls_clients, unix_clients, admin, own } = self;
        let (drain, draining) = watch::channel(false);
        let (drain_own, draining_own) = watch::channel(false);
        // Dropping the set stops the admin server and the health checks.
        let mut background = JoinSet::new();
        if let Some(admin) = admin {
            background.spawn(admin::serve(Arc::clone(&proxy), admin, draining.clone()));
        }
        for service in &proxy.services {
            let health = &service.config.health;
            for (cell, layout) in &service.cells {
                for server in 0..layout.addresses.len() {
                    let server = ServerId(server as u32);
                    background.spawn(watch_server(cell.clone(), server, health.clone()));
                }
            }
        }
        for certificates in &proxy.certificates {
            background.spawn(certificates.clone().watch());
        }
        let more = usize::from(tls_clients.is_some()) + usize::from(unix_clients.is_some());
        let listeners = 1 + own.len() + more;
        let permits = serve::client_permits(proxy.config.listen.max_connections, listeners);
        let workers = Arc::new(workers);
        let mut calls = JoinSet::new();
        for (at, listener) in own {
            let router = Router::of_service(&proxy.config, at).into();
            let (workers, listener) = (Arc::clone(&workers), listener.into());
            let at = Entrance { listener, router, tls: None, proxy_protocol: false, workers };
            calls.spawn(serve::clients(Arc::clone(&proxy), at, permits, draining_own.clone()));
        }
        let router = Arc::new(Router::new(&proxy.config));
        let proxy_protocol = proxy.config.listen.proxy_protocol;
        let mut fronts = JoinSet::new();
        let tls_clients = tls_clients.map(|listener| (listener.into(), proxy.tls.clone()));
        let unix_clients = unix_clients.map(|listener| (listener, None));
        for (listener, tls) in tls_clients.into_iter().chain(unix_clients) {
            let (router, workers) = (Arc::clone(&router), Arc::clone(&workers));
            let at = Entrance { listener, router, tls, proxy_protocol, workers };
            fronts.spawn(serve::clients(Arc::clone(&proxy), at, permits, draining.clone()));
        }
        let at = Entrance { listener: clients.into(), router, tls: None, proxy_protocol, workers };
        let serving = serve::clients(proxy, at, permits, draining);
        tokio::pin!(serving);
        tokio::select! {
            cut = &mut serving => return cut,
            () = shutdown => {}
        }
        tracing::info!("draining");
        // `serving` holds a receiver, so sending cannot fail.
        let _ = drain.send(true);
        let cut = serving.await + fronts.join_all().await.into_iter().sum::<usize>();
        // The listeners of services drain last, because running requests may still make calls
        // through them.
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

fn listen_unix(path: &Path) -> Result<Listener, StartError> {
    let bound = Listener::bind(&Endpoint::Unix(path.to_owned()));
    bound.map_err(|error| StartError::Unix(error.to_string()))
}
