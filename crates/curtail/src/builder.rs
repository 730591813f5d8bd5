//! Builds a service, and checks that its parts fit together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use curtail_kernel::{
    Feedback, GroupId, Limits, Outcome, Policy, ServerId, Settings, Topology, Tuning,
};
use curtail_runtime::{CopyContext, Head, Occupant, ServiceBuilder, Timers};
use futures_util::{FutureExt as _, Stream};
use tokio::task::JoinSet;
use tower::discover::Change;

use crate::health::{self, Health};
use crate::layout::{self, BuildError, CellSpec, Layout, ShardSpec};
use crate::membership::{self, discovery};
use crate::misfit::describe;
use crate::observe::{Named, Observer};
use crate::service::{Curtail, Place, Shared};
use crate::transport::{Carried, Handlers, Load, Replica, Replicas};

/// Whether a server stops working on a request that is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cancel {
    /// It goes on, so its slot stays taken until the response arrives.
    #[default]
    Never,
    /// It stops when the future of the request is dropped. This is usual for clients of HTTP/1.1,
    /// whose connection is then closed, and of HTTP/2 and gRPC, whose stream is reset, if the server
    /// notices.
    OnDrop,
}

/// Builds a [`Curtail`].
pub struct Builder<S: Replica<R>, R: Send + 'static> {
    policy: Option<Policy>,
    cells: Vec<CellSpec<S>>,
    settings: Settings,
    queue: Option<u32>,
    max_outstanding: Option<u32>,
    clients: u32,
    places: Option<usize>,
    seed: u64,
    timers: Option<Timers>,
    health: Option<Health<S>>,
    observer: Option<Arc<dyn Observer>>,
    handlers: Handlers<S, R>,
    is_classified: bool,
    states_repeats: bool,
}

impl<S: Replica<R>, R: Send + 'static> Curtail<S, R> {
    /// Returns a builder without shards.
    #[must_use]
    pub fn builder() -> Builder<S, R> {
        Builder::new()
    }
}

impl<S: Replica<R>, R: Send + 'static> fmt::Debug for Builder<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shards = self.cells.iter().flat_map(|cell| &cell.shards);
        let shards: Vec<_> = shards.map(|shard| &shard.name).collect();
        f.debug_struct("Builder")
            .field("policy", &self.policy)
            .field("shards", &shards)
            .finish_non_exhaustive()
    }
}

impl<S: Replica<R>, R: Send + 'static> Builder<S, R> {
    fn new() -> Self {
        Self {
            policy: None,
            cells: Vec::new(),
            settings: Settings::default(),
            queue: None,
            max_outstanding: None,
            clients: 1,
            places: None,
            seed: 0,
            timers: None,
            health: None,
            observer: None,
            handlers: Handlers::new(),
            is_classified: false,
            states_repeats: false,
        }
    }

    /// Sets the policy. The default is `rescue`, which learns when a query is stuck; without
    /// [`slots`](Self::slots) it is `rescue+least-outstanding`.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Adds a shard and its servers. Each server has a name, for errors and metrics, and a service
    /// that sends a request to it.
    #[must_use]
    pub fn shard<N: Into<Arc<str>>>(
        mut self,
        name: impl Into<String>,
        servers: impl IntoIterator<Item = (N, S)>,
    ) -> Self {
        let servers: Vec<_> = servers.into_iter().map(Occupant::from).collect();
        let shard = ShardSpec { name: name.into(), servers: None };
        self.cells.push(CellSpec { servers, shards: vec![shard], discovery: None });
        self
    }

    /// Adds a shard whose servers are discovered, and may change at any time. `servers` is a stream of
    /// changes, as in [`tower::discover`]. Errors of the stream are logged, and leave the servers as
    /// they are. A shard can have 64 servers at the same time, unless [`places`](Self::places) sets
    /// another number; further servers wait for a place.
    ///
    /// ```
    /// # use curtail::Curtail;
    /// # use tower::discover::Change;
    /// # let server = |_: &str| tower::service_fn(|key: u64| async move { Ok::<_, std::io::Error>(key) });
    /// # let found = [Ok::<_, std::io::Error>(Change::Insert("10.0.0.1:80", server("10.0.0.1:80")))];
    /// let changes = futures_util::stream::iter(found);
    /// let builder = Curtail::builder().discover("a", changes);
    /// # let _ = builder;
    /// ```
    #[must_use]
    pub fn discover<K, E>(
        mut self,
        name: impl Into<String>,
        servers: impl Stream<Item = Result<Change<K, S>, E>> + Send + 'static,
    ) -> Self
    where
        K: Into<Arc<str>>,
        E: fmt::Display,
    {
        let name = name.into();
        let discovery = Some(discovery(name.clone(), servers));
        let shards = vec![ShardSpec { name, servers: None }];
        self.cells.push(CellSpec { servers: Vec::new(), shards, discovery });
        self
    }

    /// Sets the number of servers that a shard can have at the same time. The default is the number
    /// that it has at the beginning, and 64 for a shard whose servers are [discovered](Self::discover).
    #[must_use]
    pub fn places(self, servers: usize) -> Self {
        Self { places: Some(servers), ..self }
    }

    /// Adds servers, and several shards that they serve, as in a data store whose servers keep parts of
    /// several shards. Each shard lists its servers by their positions in `servers`.
    ///
    /// ```
    /// # use curtail::Curtail;
    /// # let node = |_: u32| tower::service_fn(|key: u64| async move { Ok::<_, std::io::Error>(key) });
    /// let builder = Curtail::builder().ring(
    ///     (0..3).map(|at| (format!("node {at}"), node(at))),
    ///     (0..3).map(|at| (format!("range {at}"), [at, (at + 1) % 3])),
    /// );
    /// # let _ = builder;
    /// ```
    #[must_use]
    pub fn ring<N, M, G>(
        mut self,
        servers: impl IntoIterator<Item = (N, S)>,
        shards: impl IntoIterator<Item = (M, G)>,
    ) -> Self
    where
        N: Into<Arc<str>>,
        M: Into<String>,
        G: IntoIterator<Item = usize>,
    {
        let shard = |(name, servers): (M, G)| ShardSpec {
            name: name.into(),
            servers: Some(servers.into_iter().collect()),
        };
        let servers = servers.into_iter().map(Occupant::from).collect();
        let shards = shards.into_iter().map(shard).collect();
        self.cells.push(CellSpec { servers, shards, discovery: None });
        self
    }

    /// Sets the number of queries that a server serves at the same time. Policies that keep queries
    /// in a queue until a server is free need it.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.settings.slots = Some(slots);
        self
    }

    /// Sets the time from the arrival of a query until it fails. The default is 2 seconds. If a shard
    /// has several servers, a copy without a response counts as failed after half of it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout_ns = Some(ns(timeout));
        self
    }

    /// Sets the time after which a copy without a response counts as failed, so that the query may be
    /// sent to another server.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.settings.attempt_timeout_ns = Some(ns(timeout));
        self
    }

    /// Sets how long a copy that is no longer needed may stay silent before its slot is freed. The
    /// default is 10 seconds.
    #[must_use]
    pub fn cancel_timeout(mut self, timeout: Duration) -> Self {
        self.settings.cancel_timeout_ns = Some(ns(timeout));
        self
    }

    /// Sets whether servers stop working on requests that are given up. The default is
    /// [`Cancel::Never`], which is always safe. With [`Cancel::OnDrop`], second copies cost less.
    #[must_use]
    pub fn cancellation(mut self, cancel: Cancel) -> Self {
        self.settings.cancel = cancel == Cancel::OnDrop;
        self
    }

    /// Sets the number of duplicates per query, as a fraction from 0 to 1. The default depends on the
    /// policy.
    #[must_use]
    pub fn hedge_budget(mut self, fraction: f64) -> Self {
        self.settings.hedge_budget = Some(fraction);
        self
    }

    /// Sets the number of rescues per query that may be in vain, as a fraction from 0 to 1. Only the
    /// policy `rescue` uses it. The default is 0.05.
    #[must_use]
    pub fn rescue_budget(mut self, fraction: f64) -> Self {
        self.settings.rescue_budget = Some(fraction);
        self
    }

    /// Sets the number of clients that send to the same servers, for policies that allow for the
    /// requests of the others (`c3`). The default is 1.
    #[must_use]
    pub fn clients(self, clients: u32) -> Self {
        Self { clients, ..self }
    }

    /// Sets the number of copies that a server may hold, for policies that do not keep queries in a
    /// queue. The default is 128.
    #[must_use]
    pub fn max_outstanding(self, copies: u32) -> Self {
        Self { max_outstanding: Some(copies), ..self }
    }

    /// States that servers serve duplicates after all other requests, which the policy `das` needs. A
    /// copy knows whether it is one ([`CopyContext::role`]).
    #[must_use]
    pub fn staged(mut self) -> Self {
        self.settings.has_stage = true;
        self
    }

    /// Sets the number of retries per query, as a fraction from 0 to 1. The default is 0.1.
    #[must_use]
    pub fn retry_budget(mut self, fraction: f64) -> Self {
        self.settings.retry_budget = Some(fraction);
        self
    }

    /// Sets the number of queries that may wait per shard. Further queries fail with
    /// [`QueueFull`](crate::ErrorKind::QueueFull). The default is 1024.
    #[must_use]
    pub fn queue(self, queries: u32) -> Self {
        Self { queue: Some(queries), ..self }
    }

    /// Sets the seed by which ties between servers are broken. Clients of the same servers should
    /// use different seeds. The default is 0.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets the timers. The default is [`Timers::precise`]; tests that pause tokio's clock need
    /// [`Timers::tokio`].
    #[must_use]
    pub fn timers(self, timers: Timers) -> Self {
        Self { timers: Some(timers), ..self }
    }

    /// Sets the function that judges the result of a copy ([`outcome`](crate::outcome) has some). By
    /// the outcome, the kernel decides whether the response wins, whether the query is retried, and
    /// whether the server is ejected.
    #[must_use]
    pub fn classify<F>(mut self, classify: F) -> Self
    where
        F: Fn(&Result<S::Response, S::Error>) -> Outcome + Send + Sync + 'static,
    {
        self.handlers.classify = Box::new(classify);
        Self { is_classified: true, ..self }
    }

    /// Sets the function that repeats a request. It returns `None` for a request that must not be
    /// sent twice. Queries of [`Query`](crate::Query) state that themselves.
    #[must_use]
    pub fn repeatable<F>(mut self, repeat: F) -> Self
    where
        F: Fn(&R) -> Option<R> + Send + Sync + 'static,
    {
        self.handlers.repeat = Box::new(repeat);
        Self { states_repeats: true, ..self }
    }

    /// Sets a function that changes the request of each copy before it is sent, for example to
    /// forward the deadline or the number of the attempt.
    #[must_use]
    pub fn prepare<F>(mut self, prepare: F) -> Self
    where
        F: Fn(&mut R, &CopyContext) + Send + Sync + 'static,
    {
        self.handlers.prepare = Some(Box::new(prepare));
        self
    }

    /// Sets the function that separates the rest of a response from its head. Without it, a response
    /// is complete when the service returns it.
    #[must_use]
    pub fn streaming<F>(mut self, stream: F) -> Self
    where
        F: Fn(S::Response, Outcome, CopyContext) -> Head<S::Response> + Send + Sync + 'static,
    {
        self.handlers.stream = Some(Box::new(stream));
        self
    }

    /// Sets the function that reads the load of a server from its response, for policies that use
    /// feedback (`c3`).
    #[must_use]
    pub fn feedback<F>(mut self, feedback: F) -> Self
    where
        F: Fn(&S::Response) -> Option<Feedback> + Send + Sync + 'static,
    {
        self.handlers.feedback = Some(Box::new(feedback));
        self
    }

    /// Sets the function that asks a server for its load, for policies that send probes (`prequal`).
    #[must_use]
    pub fn probe<F, T>(mut self, probe: F) -> Self
    where
        F: Fn(S) -> T + Send + Sync + 'static,
        T: Future<Output = Option<Load>> + Send + 'static,
    {
        self.handlers.probe = Some(Box::new(move |service| probe(service).boxed()));
        self
    }

    /// Checks the health of each server at this interval. `check` returns whether the server is healthy,
    /// and must do so within twice the interval. Two failed checks in a row take a server out, and a
    /// successful one restores it.
    ///
    /// Without this, a server that was ejected because its copies failed gets queries again after a
    /// while: one second at first, and up to a minute if it keeps failing.
    #[must_use]
    pub fn health<F, T>(self, interval: Duration, check: F) -> Self
    where
        F: Fn(S) -> T + Send + Sync + 'static,
        T: Future<Output = bool> + Send + 'static,
    {
        Self { health: Some(Health::new(interval, check)), ..self }
    }

    /// Sets the observer of the service, for metrics. The features `metrics` and `opentelemetry` have
    /// ready ones.
    #[must_use]
    pub fn observer(self, observer: impl Observer) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    /// Carries task-locals of a query's caller to its copies, which may outlive the caller's task.
    /// `capture` runs when a query is sent. What it returns runs each poll of the query's copies. The
    /// `tracing` span of the caller is always carried.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use curtail::{Carried, Curtail, outcome};
    /// tokio::task_local! {
    ///     static USER: String;
    /// }
    /// # let builder = Curtail::builder().shard("a", [("a0", tower::service_fn(|()| async { Ok::<_, std::io::Error>(()) }))]);
    /// let builder = builder.carry(|| {
    ///     let user = USER.try_with(Clone::clone).unwrap_or_default();
    ///     Arc::new(move |poll| USER.sync_scope(user.clone(), poll))
    /// });
    /// # let _ = builder;
    /// ```
    #[must_use]
    pub fn carry<F>(mut self, capture: F) -> Self
    where
        F: Fn() -> Carried + Send + Sync + 'static,
    {
        self.handlers.carry = Some(Box::new(capture));
        self
    }

    /// Builds the service. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build(self) -> Result<Curtail<S, R>, BuildError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(BuildError::NoRuntime);
        }
        let policy = self.policy.unwrap_or(Policy::usual(self.settings.slots));
        self.check(&policy)?;
        let limits = self.limits(&policy)?;
        let Self { cells, settings, seed, timers, health, observer, mut handlers, places, .. } =
            self;
        // Half of the time is left for a server that is ready.
        handlers.ready_timeout = Duration::from_nanos(limits.attempt_timeout_ns / 2);
        let (handlers, slots) = (Arc::new(handlers), settings.slots.unwrap_or(1));
        let timers = timers.unwrap_or_else(Timers::precise);
        let mut running = ServiceBuilder::new(policy, limits, timers, seed);
        let (mut shards, mut background) = (Vec::new(), JoinSet::new());
        let health = health.map(Arc::new);
        for spec in cells {
            let Layout { topology, names, is_ring, occupants, discovery } =
                Layout::new(spec, slots, places);
            let cell = running.cells().len();
            let place = |(at, name): (usize, &Arc<str>)| Place {
                name: Arc::clone(name),
                cell,
                group: GroupId(at as u32),
                is_ring,
            };
            shards.extend(names.iter().enumerate().map(place));
            let is_vacant = |(at, by): (u32, &Option<_>)| by.is_none().then_some(ServerId(at));
            let vacant: Vec<_> = (0..).zip(&occupants).filter_map(is_vacant).collect();
            let replicas = Replicas::new(occupants, Arc::clone(&handlers));
            // The names of a copy take a lock, so they are looked up only for an observer.
            let cell = match observer.clone() {
                Some(observer) => {
                    let named = Named { shards: names, replicas: replicas.share(), observer };
                    running.add(&topology, replicas, named)?
                }
                None => running.add(&topology, replicas, ())?,
            };
            vacant.into_iter().for_each(|place| cell.server_left(place));
            match &health {
                Some(health) => health::watch(cell, health, &mut background),
                None => _ = background.spawn(health::forgive(cell.clone())),
            }
            if let Some(changes) = discovery {
                background.spawn(membership::follow(cell.clone(), changes));
            }
        }
        tracing::info!(%policy, cancel = limits.cancel, shards = shards.len(), "built a service");
        let running = running.start();
        let shared = Shared { running, shards, handlers, policy, limits, _background: background };
        Ok(Curtail(Arc::new(shared)))
    }

    fn check(&self, policy: &Policy) -> Result<(), BuildError> {
        layout::check(&self.cells, self.places)?;
        if !self.is_classified {
            return Err(BuildError::NotClassified);
        }
        if policy.hedges() && !self.states_repeats {
            return Err(BuildError::NotRepeatable { policy: policy.to_string() });
        }
        Ok(())
    }

    /// Derives the limits, and checks that they fit the policy.
    fn limits(&self, policy: &Policy) -> Result<Limits, BuildError> {
        let Settings { slots, timeout_ns, attempt_timeout_ns, cancel_timeout_ns, .. } =
            self.settings;
        let times = [
            ("timeout", timeout_ns),
            ("attempt_timeout", attempt_timeout_ns),
            ("cancel_timeout", cancel_timeout_ns),
            ("health", self.health.as_ref().map(|health| ns(health.interval()))),
        ];
        if let Some((name, _)) = times.iter().find(|(_, time)| *time == Some(0)) {
            let why = format!(".{name}() is zero; set a duration above 0");
            return Err(BuildError::Unfit(why));
        }
        if slots.is_some_and(|slots| !(1..=Topology::MAX_GATE).contains(&slots)) {
            let why = format!(".slots() is out of range; use 1 to {}", Topology::MAX_GATE);
            return Err(BuildError::Unfit(why));
        }
        let settings = Settings {
            may_retry: self.cells.iter().any(|cell| cell.may_have_peers(self.places)),
            has_probe: self.handlers.probe.is_some(),
            ..self.settings
        };
        let limits = policy.limits(&settings);
        let limits = Limits {
            queue: self.queue.unwrap_or(limits.queue),
            max_outstanding: self.max_outstanding.unwrap_or(limits.max_outstanding),
            tuning: Tuning { clients: self.clients, ..limits.tuning },
            ..limits
        };
        limits.check()?;
        if policy.needs().feedback && self.handlers.feedback.is_none() {
            tracing::warn!(
                "policy {policy} ranks servers by the load that they report, and nothing reads it; call \
                 .feedback(|response| ...)"
            );
        }
        for misfit in policy.misfits(&settings) {
            let why = describe(misfit, policy, &limits);
            if misfit.is_error() {
                return Err(BuildError::Unfit(why));
            }
            tracing::warn!("{why}");
        }
        Ok(limits)
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
