//! Sends copies as HTTP requests, over pooled connections of HTTP/1.1 or shared connections of HTTP/2.
//!
//! A short response is read completely before it can win. If a server stalls in the middle of a
//! small response, another replica can therefore still win. A longer response is relayed through a
//! bounded buffer, and its copy keeps its slot until the server has sent everything.

mod budget;
mod grpc;
mod health;
mod incoming;
mod load_report;
mod message;
mod multiplexed;
mod pipe;
mod pool;
mod priority;
mod relay;
mod retry_after;
mod send_error;
mod tunnel;
mod upload;
mod upstream;

pub use budget::{Budget, Charge};
pub use grpc::Call;
pub use health::{Health, Probe, watch};
pub use load_report::{LoadReport, ORCA, SERVER_TIMING};
pub use message::{Body, Buffered, Commit, Payload, Request, Response, Watch};
pub use pipe::{BodyReceiver, BodySender};
pub use priority::{PRIORITY, priority, type_of_service};
pub use retry_after::retry_after;
pub use tunnel::Tunnel;
pub use upload::Source;
pub use upstream::{Protocol, Replica, Upstream};

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use curtail_http::grpc::PushBack;
use curtail_http::h1::{Framing, Limits, ResponseHead};
use curtail_kernel::{Outcome, OutcomeTable, Role, ServerId};

use http::HeaderMap;

use crate::failure::Failure;
use crate::transport::{CopyContext, CopyDriver, Head, Tail, Transport};
use incoming::Incoming;
use pipe::pipe;
use priority::LOWEST;
use relay::Relay;

/// Limits of the connections to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Limits on the responses of a server.
    pub limits: Limits,
    /// Timeout for opening a connection.
    pub connect_timeout: Duration,
    /// Timeout for the next piece of a body. A server that pauses for longer is considered to have
    /// failed.
    pub read_timeout: Duration,
    /// Timeout for the rest of a response that no client is waiting for. The connection is then
    /// closed. If the server is still sending, it notices the close.
    pub unwanted_timeout: Duration,
    /// Maximum number of idle connections that are kept per server. Any others are closed.
    pub idle: usize,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Responses of up to this many bytes are read completely before they can win.
    pub whole_bytes: u64,
    /// Number of bytes of a longer response that may wait for a slow client.
    pub response_buffer: usize,
    /// Whether the servers use gRPC, whose status decides the outcome of a response.
    pub grpc: bool,
    /// Whether to parse load reports, for policies that use them.
    pub load_reports: bool,
    /// Whether duplicates are marked with [`PRIORITY`], for policies with priorities and servers
    /// that run a stage.
    pub priorities: bool,
}

/// An older answer would be thrown away by the policy.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

const MOST_PROBE_BYTES: usize = 4_096;

/// Responses of up to this number of bytes are not counted in the budget.
const UNCOUNTED: usize = 4 << 10;

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            // A lost SYN is sent again after a second.
            connect_timeout: Duration::from_secs(3),
            read_timeout: Duration::from_secs(10),
            unwanted_timeout: Duration::from_secs(10),
            idle: 64,
            idle_timeout: Duration::from_secs(30),
            whole_bytes: 64 * 1024,
            response_buffer: 256 << 10,
            grpc: false,
            load_reports: true,
            priorities: false,
        }
    }
}

/// A transport over HTTP.
#[derive(Debug)]
pub struct Http {
    upstreams: Vec<Upstream>,
    settings: Settings,
    outcomes: Arc<OutcomeTable>,
    budget: Budget,
    probe_path: Option<String>,
}

impl Http {
    /// Creates a transport to the servers of a topology. The servers are in the order of the
    /// topology.
    pub fn new<R: Into<Replica>>(servers: impl IntoIterator<Item = R>, settings: Settings) -> Self {
        let upstream = |replica: R| Upstream::new(replica.into(), settings);
        let upstreams = servers.into_iter().map(upstream).collect();
        Self {
            upstreams,
            settings,
            outcomes: Arc::default(),
            budget: Budget::default(),
            probe_path: None,
        }
    }

    /// Sets the path on which servers respond to load probes, for policies that send them.
    #[must_use]
    pub fn with_probes(mut self, path: Option<String>) -> Self {
        self.probe_path = path;
        self
    }

    /// Sets the budget of the buffers.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the table of the outcomes of responses.
    #[must_use]
    pub fn with_outcomes(mut self, outcomes: OutcomeTable) -> Self {
        self.outcomes = Arc::new(outcomes);
        self
    }

    /// What the status of a response is worth.
    pub(super) fn outcome(&self, status: u16) -> Outcome {
        self.outcomes.status(status)
    }

    /// Returns a server, and the connections to it.
    pub fn upstream(&self, server: ServerId) -> &Upstream {
        &self.upstreams[server.index()]
    }

    async fn send_as(
        &self,
        server: ServerId,
        request: Request,
        more: &[u8],
        copy: CopyContext,
    ) -> Result<Head<Response>, Failure> {
        if let Some(watch) = request.watch() {
            watch.sent(server);
        }
        let (mut incoming, head) = self.upstream(server).exchange(&request, more).await?;
        if let Some(watch) = request.watch() {
            watch.received(server, &head);
        }
        let mut outcome = self.outcome(head.status());
        if let Incoming::Tunnel(tunnel) = incoming {
            let response = Response { head, body: Body::Tunnel(tunnel), charge: None };
            return Ok(Head { outcome, ..Head::whole(response) });
        }
        let is_call = self.settings.grpc && outcome == Outcome::Good;
        // A response without a body has its status in the head.
        let code = if is_call { grpc::status(&head) } else { None };
        if let Some(code) = code {
            outcome = self.outcomes.grpc(code);
        }
        // A server that refuses or fails reports what that took, and not what the work takes.
        let reports = self.settings.load_reports && outcome == Outcome::Good;
        let feedback = if reports { LoadReport::of(&head).feedback() } else { None };
        let mut read = Bytes::new();
        let (limit, charge) = self.holds(request.commit(), head.framing());
        if let Some(limit) = limit {
            let (body, is_whole) = incoming.body_up_to(limit).await?;
            if is_whole {
                let trailers = poll_fn(|context| incoming.poll_trailers(context)).await?;
                incoming.release();
                if is_call {
                    outcome = grpc::outcome(&self.outcomes, code, trailers.as_deref())?;
                }
                let push_back = self.push_back(outcome, &head, trailers.as_deref());
                let bytes = body.len() as u64;
                let response = Response { head, body: Body::Whole(body, trailers), charge };
                return Ok(Head { response, outcome, push_back, feedback, bytes, tail: None });
            }
            read = body;
        }
        let (sender, receiver) = pipe(self.settings.response_buffer, &self.budget);
        let table = (is_call && code.is_none()).then(|| Arc::clone(&self.outcomes));
        let relay = Relay::new(incoming, sender, &self.settings, copy, read, table);
        let tail: Tail = Box::pin(relay);
        let push_back = self.push_back(outcome, &head, None);
        let response = Response { head, body: Body::Stream(receiver), charge: None };
        Ok(Head { response, outcome, push_back, feedback, bytes: 0, tail: Some(tail) })
    }

    /// Returns the number of bytes of a response that are held before it wins, and their charge. With
    /// `None`, the response wins with its head. A long response does so, too, if the budget is spent.
    fn holds(&self, commit: Commit, framing: Framing) -> (Option<usize>, Option<Charge>) {
        let most = usize::try_from(self.settings.whole_bytes).unwrap_or(usize::MAX);
        let bytes = match (framing, commit) {
            (Framing::Empty, _) => 0,
            (Framing::Length(bytes), _) if bytes <= self.settings.whole_bytes => bytes as usize,
            (_, Commit::Head) => return (None, None),
            (_, Commit::FirstChunk) => return (Some(0), None),
            (_, Commit::End) => most,
        };
        // Short ones are not worth an account.
        if bytes <= UNCOUNTED {
            return (Some(most), None);
        }
        match self.budget.take(bytes) {
            Some(charge) => (Some(most), Some(charge)),
            None if commit == Commit::FirstChunk => (Some(0), None),
            None => (None, None),
        }
    }

    /// What a server that did not do the work demands.
    fn push_back(
        &self,
        outcome: Outcome,
        head: &ResponseHead,
        trailers: Option<&HeaderMap>,
    ) -> Option<PushBack> {
        if outcome.wins() {
            return None;
        }
        let pushed = if self.settings.grpc { grpc::push_back(head, trailers) } else { None };
        let is_refused = outcome == Outcome::Refused;
        let after = || {
            let asked = retry_after(head.status(), head.header("retry-after"));
            asked.filter(|_| is_refused).map(PushBack::After)
        };
        pushed.or_else(after)
    }
}

impl Transport for Http {
    type Request = Request;
    type Response = Response;

    async fn send(
        &self,
        server: ServerId,
        request: Request,
        copy: CopyContext,
    ) -> Result<Head<Response>, Failure> {
        let mut lines = Vec::new();
        if let Some(call) = request.call() {
            call.write_lines(copy.attempt(), &mut lines);
        }
        if !self.settings.priorities || copy.role() == Role::Primary {
            return self.send_as(server, request, &lines, copy).await;
        }
        lines.extend_from_slice(LOWEST);
        match Box::pin(self.send_as(server, request, &lines, copy)).await {
            Ok(head) if head.outcome.wins() => Ok(head),
            // A server that gives up a duplicate does what it should.
            _ => Err(Failure::GivenUp),
        }
    }

    async fn probe(&self, server: ServerId) -> Option<(u32, u64)> {
        let path = self.probe_path.as_deref()?;
        let upstream = self.upstream(server);
        let host = [("host", upstream.address().to_string())];
        let request = Request::new("GET", path, host, "", true).ok()?;
        let asking = async {
            let (mut incoming, head) = upstream.exchange(&request, b"").await.ok()?;
            let report = LoadReport::of(&head).probed();
            incoming.body_all(MOST_PROBE_BYTES).await.ok()?;
            incoming.release();
            report
        };
        tokio::time::timeout(PROBE_TIMEOUT, asking).await.ok()?
    }

    fn attach(&self, response: &mut Response, copy: CopyDriver) {
        if let Body::Stream(body) = &mut response.body {
            body.attach(copy);
        }
    }

    fn close_idle(&self, server: ServerId) {
        self.upstream(server).close_idle();
    }
}
