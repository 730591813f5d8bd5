//! Passes one request through the sidecar: reads its metadata, admits it, changes its header
//! fields, and adds fields to its response.
//!
//! Source: document 002 §5.2.4, *Metadata propagation*.
//!
//! A request to the application is admitted and waits for one of its slots. The request carries our
//! member of `baggage`, so an application that propagates baggage also passes on the workflow. A
//! call by the application is counted once per copy. Hedges and retries thus count as load, and
//! each response announces the rate of the server that sent it. All other requests are relayed. Our
//! metadata is removed from requests that come from clients, and from responses to them.
//!
//! Cost: our fields are copied once per request and once per response.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use curtail_flow::metadata::{BAGGAGE, GRPC_TIMEOUT, RATE, SPENT, write_call};
use curtail_flow::{Admitted, Arrival, Context, Reason, Target};
use curtail_http::h1::{RequestHead, ResponseHead};
use curtail_kernel::ServerId;
use curtail_runtime::http::{Response, Watch};
use curtail_runtime::{QueryError, QueryResponse};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use super::Sidecar;
use super::traces::{TRACEPARENT, TRACESTATE, Traced};
use crate::config::{self, FlowRole};
use crate::route;
use crate::state::{Proxy, Service};

/// The fields that replace those of a message.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    names: &'static [HeaderName],
    /// Whether fields that begin with `curtail-` are removed.
    strips: bool,
    map: HeaderMap,
}

impl Fields {
    fn of_request(head: &RequestHead, names: &'static [HeaderName], strips: bool) -> Self {
        let mut map = HeaderMap::new();
        for name in names {
            let values = head.values(name.as_str()).map(HeaderValue::from_bytes);
            for value in values.flatten() {
                map.append(name.clone(), value);
            }
        }
        Self { names, strips, map }
    }

    /// Returns whether a field of the message is relayed unchanged.
    pub(crate) fn keeps(&self, name: &[u8]) -> bool {
        const OURS: &[u8] = b"curtail-";
        if self.names.is_empty() && !self.strips {
            return true;
        }
        let begins = || name.get(..OURS.len()).is_some_and(|of| of.eq_ignore_ascii_case(OURS));
        // The first letter rules out most fields.
        let is_ours = || matches!(name, [b'c' | b'C', ..]) && begins();
        let is_replaced = |of: &HeaderName| name.eq_ignore_ascii_case(of.as_str().as_bytes());
        !(self.names.iter().any(is_replaced) || self.strips && is_ours())
    }

    /// Returns the fields that are added to the message.
    pub(crate) fn added(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.map.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
    }
}

/// A request that was not admitted.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    /// Fields of the response.
    pub(crate) fields: Fields,
}

/// The state of one request in the sidecar, until it has a response.
#[derive(Debug)]
pub(crate) struct Hop<'p> {
    strips: bool,
    role: Role<'p>,
}

#[derive(Debug)]
enum Role<'p> {
    None,
    Ingress(Box<Ingress<'p>>),
    Egress { watch: Arc<CopyObserver>, context: Context },
}

#[derive(Debug)]
struct Ingress<'p> {
    resource: &'p str,
    arrival: Arrival,
    context: Context,
    /// The admission, or `None` once there is a response.
    admitted: Option<Admitted>,
    /// The entry in the table of traces, which is kept until the response has been relayed.
    _traced: Option<Traced<'p>>,
}

static ALL: [HeaderName; 4] = [BAGGAGE, GRPC_TIMEOUT, TRACEPARENT, TRACESTATE];
static MEMBERS: [HeaderName; 1] = [BAGGAGE];

impl<'p> Hop<'p> {
    /// Begins a request for a service. If the service is the application, waits until the request
    /// is admitted. Returns the fields with which the request is relayed.
    pub(crate) async fn begin(
        proxy: &'p Proxy,
        service: &'p Service,
        target: &route::Target,
        head: &RequestHead,
        peer: Option<IpAddr>,
    ) -> Result<(Self, Fields), Refusal> {
        let trusts = proxy.config.flow.as_ref().is_some_and(|flow| flow.trusts(peer));
        match (&proxy.sidecar, service.config.flow) {
            (Some(sidecar), Some(FlowRole::Ingress)) => {
                // Large, and moved with every request if it were in the future itself.
                let ingress = Self::ingress(sidecar, &service.config, target, head, !trusts);
                let began = Box::pin(ingress).await;
                if let Ok((Self { role: Role::Ingress(of), .. }, _)) = &began
                    && !of.arrival.has_metadata()
                {
                    warn_of_ignored(proxy, head, peer, trusts);
                }
                began
            }
            (Some(sidecar), Some(FlowRole::Egress)) => {
                Ok(Self::egress(sidecar, service, target.shard, head))
            }
            _ if trusts => Ok((Self { strips: false, role: Role::None }, Fields::default())),
            _ => {
                warn_of_ignored(proxy, head, peer, trusts);
                let mut fields = Fields { strips: true, ..Fields::default() };
                if head.header(BAGGAGE.as_str()).is_some() {
                    fields = Fields::of_request(head, &MEMBERS, true);
                    write_call(&mut fields.map, None, None);
                }
                Ok((Self { strips: true, role: Role::None }, fields))
            }
        }
    }

    async fn ingress(
        sidecar: &'p Sidecar,
        service: &'p config::Service,
        target: &route::Target,
        head: &RequestHead,
        is_edge: bool,
    ) -> Result<(Self, Fields), Refusal> {
        let mut fields = Fields::of_request(head, &ALL, true);
        let flow = &sidecar.flow;
        let arrival = Arrival::read(flow, &fields.map, is_edge, || sidecar.workflow(head, target));
        let arrival = arrival.within(service.timeout);
        arrival.strip(&mut fields.map);
        let admitted = match arrival.admit().await {
            Ok(admitted) => admitted,
            Err(rejected) => {
                let mut fields = Fields { strips: true, ..Fields::default() };
                arrival.reject(&mut fields.map);
                return Err(Refusal { reason: rejected.reason, fields });
            }
        };
        let context = admitted.context().clone();
        // No timeout is added to a request that has none, because the application might not expect
        // it.
        let has_timeout = fields.map.contains_key(GRPC_TIMEOUT);
        context.write(&mut fields.map, 0.0);
        if !has_timeout {
            fields.map.remove(GRPC_TIMEOUT);
        }
        let traces = sidecar.traces.as_ref();
        let traced = traces.map(|traces| traces.begin(&context, &mut fields.map, is_edge));
        let admitted = Some(admitted);
        let ingress =
            Ingress { resource: &service.name, arrival, context, admitted, _traced: traced };
        Ok((Self { strips: true, role: Role::Ingress(Box::new(ingress)) }, fields))
    }

    fn egress(
        sidecar: &'p Sidecar,
        service: &'p Service,
        shard: usize,
        head: &RequestHead,
    ) -> (Self, Fields) {
        let mut fields = Fields::of_request(head, &ALL, true);
        let found = sidecar.traces.as_ref().and_then(|traces| traces.find(&fields.map));
        let context = found.unwrap_or_else(|| Context::of_call(&sidecar.flow, &fields.map));
        // The server has not been picked yet. The request therefore carries the mean of the rates
        // at which this process would send to the servers if it had no limits of its own.
        let (targets, servers) = (service.targets(shard), service.servers(shard));
        let wanted = servers.iter().map(|server| targets[server.index()].wanted(&context));
        let wanted = wanted.sum::<f64>() / servers.len() as f64;
        context.write(&mut fields.map, wanted);
        let watch =
            Arc::new(CopyObserver { context: context.clone(), targets: Arc::clone(targets) });
        (Self { strips: true, role: Role::Egress { watch, context } }, fields)
    }

    /// Returns the observer of the query's copies.
    pub(crate) fn watch(&self) -> Option<Arc<dyn Watch>> {
        match &self.role {
            Role::Egress { watch, .. } => Some(Arc::clone(watch) as _),
            Role::Ingress(_) | Role::None => None,
        }
    }

    /// Returns the deadline of the query.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.role {
            Role::Egress { context, .. } => context.deadline(),
            Role::Ingress(ingress) => ingress.context.deadline(),
            Role::None => None,
        }
    }

    /// Returns whether the query is sent without waiting for anything.
    pub(crate) fn is_direct(&self) -> bool {
        !matches!(self.role, Role::Ingress(_))
    }

    /// Sends the query. If the query goes to the application, waits for a slot first.
    pub(crate) async fn run<T>(
        &self,
        ask: impl Future<Output = (Option<T>, Outcome)>,
    ) -> (Option<T>, Outcome) {
        let Role::Ingress(of) = &self.role else { return ask.await };
        match of.context.subtask(of.resource, None, ask).await {
            Ok(asked) => asked,
            Err(rejected) => match rejected.reason {
                Reason::Late => (None, Err(QueryError::Expired)),
                Reason::Full => (None, Err(QueryError::QueueFull)),
            },
        }
    }

    /// Returns the fields of the response. This method is called when the query has a response, or
    /// when it will get none.
    pub(crate) fn responds(&mut self, outcome: &Outcome) -> Fields {
        let mut fields = Fields { strips: self.strips, ..Fields::default() };
        if let Role::Ingress(of) = &mut self.role
            && let Some(admitted) = of.admitted.take()
        {
            let status = outcome.as_ref().ok().map(|response| response.response.head.status());
            let is_good = status.is_some_and(|status| status < 500 && status != 429);
            of.arrival.respond(&mut fields.map, admitted, is_good);
        }
        fields
    }
}

/// Logs that metadata was removed from a request that probably came from one of the system's
/// processes. The reason is that the process is not trusted, or that it has a different key. At a
/// trust edge, the removal is intended and not logged.
fn warn_of_ignored(proxy: &Proxy, head: &RequestHead, peer: Option<IpAddr>, trusts: bool) {
    const OURS: &[u8] = b"curtail=";
    let is_edge = proxy.config.flow.as_ref().is_none_or(|flow| flow.trusts.is_empty());
    let has_ours = |value: &[u8]| value.windows(OURS.len()).any(|at| at == OURS);
    if is_edge || !head.values(BAGGAGE.as_str()).any(has_ours) {
        return;
    }
    let Some(left_out) = proxy.ignored_lines.allow() else { return };
    let has_key = proxy.config.flow.as_ref().is_some_and(|flow| flow.key.is_some());
    let why = match (trusts, has_key) {
        (false, _) => "the peer's address is not in trusts of [flow]",
        (true, true) => "it is malformed, or was not signed with the key of key_file",
        (true, false) => "it is malformed",
    };
    let peer = peer.map(tracing::field::display);
    tracing::warn!(peer, left_out, "metadata of a request is ignored: {why}");
}

/// The result of a query.
type Outcome = Result<QueryResponse<Response>, QueryError<Response>>;

/// Observes the copies of a call.
#[derive(Debug)]
struct CopyObserver {
    context: Context,
    /// One target for each server of the cell.
    targets: Arc<[Target]>,
}

impl Watch for CopyObserver {
    fn sent(&self, server: ServerId) {
        self.targets[server.index()].called(&self.context);
    }

    fn received(&self, server: ServerId, head: &ResponseHead) {
        let mut response = http::Response::new(());
        if let Ok(status) = http::StatusCode::from_u16(head.status()) {
            *response.status_mut() = status;
        }
        for name in [RATE, SPENT] {
            let value = head.header(name.as_str()).map(HeaderValue::from_bytes);
            if let Some(Ok(value)) = value {
                response.headers_mut().insert(name, value);
            }
        }
        // The returned time is ignored, because the time of the request already includes it.
        self.targets[server.index()].returned(&self.context, &response);
    }
}
