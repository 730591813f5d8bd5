//! The first stage: the file as serde sees it. The texts here are those of the JSON schema.
//!
//! Everything is optional, so that what is missing is reported with everything else that is wrong.

use schemars::JsonSchema;
use serde::Deserialize;

use super::values::{AutoOr, Given, OneOrMany, OrFalse, Size, Span, Statuses};

type Maybe<T> = Option<Given<T>>;

/// The configuration of `curtail proxy`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "the tables [listen], [log], [flow] and [[service]]")]
#[schemars(rename = "CurtailProxy", extend("required" = ["service"]))]
pub(super) struct File {
    /// Where the proxy listens, and how long it bears with slow clients.
    pub(super) listen: Option<Listen>,
    /// What the proxy says about itself, on stderr.
    pub(super) log: Option<Log>,
    /// The process of a graph of services that it stands beside, as its sidecar.
    pub(super) flow: Maybe<Flow>,
    /// The services that it stands in front of.
    pub(super) service: Maybe<OneOrMany<Service>>,
}

/// Where the proxy listens, and how long it bears with slow clients.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table [listen]")]
pub(super) struct Listen {
    /// Address for clients, as `IP:PORT` or `localhost:PORT`; port 0 takes any free one.
    #[schemars(extend("default" = "127.0.0.1:8080"))]
    pub(super) http: Maybe<String>,
    /// Address for metrics, status and health; `false`: none.
    #[schemars(extend("default" = "127.0.0.1:9901"))]
    pub(super) admin: Maybe<OrFalse<String>>,
    /// Client connections at once; more are turned away.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 10_000))]
    pub(super) max_connections: Maybe<u64>,
    /// From the first byte of a request to the end of its head.
    #[schemars(extend("default" = "10s"))]
    pub(super) header_timeout: Maybe<Span>,
    /// From the end of a head to the end of its body.
    #[schemars(extend("default" = "30s"))]
    pub(super) body_timeout: Maybe<Span>,
    /// Between two requests of a connection.
    #[schemars(extend("default" = "60s"))]
    pub(super) idle_timeout: Maybe<Span>,
    /// For one write to a client that does not read.
    #[schemars(extend("default" = "30s"))]
    pub(super) write_timeout: Maybe<Span>,
    /// Longest head of a request, request line included.
    #[schemars(extend("default" = "16KiB"))]
    pub(super) max_header_bytes: Maybe<Size>,
    /// Most header fields of a request.
    #[schemars(range(min = 1, max = 256), extend("default" = 100))]
    pub(super) max_headers: Maybe<u64>,
    /// How long SIGTERM waits for running requests.
    #[schemars(extend("default" = "30s"))]
    pub(super) drain: Maybe<Span>,
}

/// What the proxy says about itself, on stderr.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table [log]")]
pub(super) struct Log {
    /// Lines for people, or one JSON object per line.
    #[schemars(extend("default" = "text"))]
    pub(super) format: Maybe<LogFormat>,
    /// The least important message that is written.
    #[schemars(extend("default" = "info"))]
    pub(super) level: Maybe<LogLevel>,
}

/// The process of a graph of services that the proxy stands beside, as its sidecar.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table [flow]")]
pub(super) struct Flow {
    /// The service that the process belongs to; all of its processes have the same. Required where a service has `flow`.
    pub(super) service: Maybe<String>,
    /// What orders the requests of a workflow: fifo, edf, lstf, srtf, lasf, sjf or strict.
    #[schemars(extend("default" = "fifo"))]
    pub(super) discipline: Maybe<String>,
    /// Rates change so often, and a workflow that was idle may send what it gets in so long at once. Longer is better
    /// where a workflow has only a few requests per second.
    #[schemars(extend("default" = "100ms"))]
    pub(super) interval: Maybe<Span>,
    /// Do requests come from clients, which may lie? Then metadata is taken out of all of them. A proxy
    /// without `[flow]` does that, too.
    #[schemars(extend("default" = false))]
    pub(super) edge: Maybe<bool>,
    /// The networks whose requests may bring metadata, without `edge`; it is taken out of all others. Loopback, private
    /// and link-local networks if left out.
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) trusts: Maybe<Vec<Given<String>>>,
    /// A file with a key of at least 16 bytes, the same for all processes of the system; its path is relative to this
    /// file. Metadata is signed with it, and counts only if it was.
    pub(super) key_file: Maybe<String>,
    /// What names the workflow of a request without metadata. One that is not configured is the class `default`.
    pub(super) workflow_by: Maybe<KeyOf>,
    /// The tenants or classes of requests.
    pub(super) workflow: Maybe<OneOrMany<Workflow>>,
}

/// A tenant, or a class of requests.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table [[flow.workflow]]")]
#[schemars(extend("required" = ["name"]))]
pub(super) struct Workflow {
    /// What requests call it. `default` is the class of all that have no table. Required.
    pub(super) name: Maybe<String>,
    /// Its part of what is short, relative to others.
    #[schemars(extend("default" = 1.0))]
    pub(super) weight: Maybe<f64>,
    /// A request is late so long after it came, or earlier, if it says so. None if left out.
    pub(super) deadline: Maybe<Span>,
    /// So many requests per second it gets in any case.
    #[schemars(extend("default" = 0.0))]
    pub(super) guarantee: Maybe<f64>,
    /// At most so many requests per second. None if left out.
    pub(super) limit: Maybe<f64>,
    /// With the discipline strict: larger ones come first.
    #[schemars(extend("default" = 0))]
    pub(super) priority: Maybe<u64>,
}

/// Lines for people, or one JSON object per line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// How important a message must be to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum LogLevel {
    /// Something does not work.
    Error,
    /// Something needs attention.
    Warn,
    /// What changed.
    Info,
    /// What it decides.
    Debug,
    /// Everything.
    Trace,
}

/// A replicated service, in one or more shards.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table [[service]]")]
#[schemars(extend("required" = ["name", "shard"]))]
pub(super) struct Service {
    /// What metrics, logs and the status call it. Required.
    pub(super) name: Maybe<String>,
    /// How it picks replicas and hedges, such as `rescue`, `bounded:2` or `delayed:5ms:cc+least-outstanding`. If left out:
    /// `rescue` with `slots`, else `rescue+least-outstanding`.
    #[schemars(extend("default" = "rescue"))]
    pub(super) policy: Maybe<String>,
    /// The number of queries that a replica serves at once. Policies that keep queries in the proxy require it: psq,
    /// bounded, laedge, and rescue without `+PICK`. Others do not use it.
    #[schemars(range(min = 1, max = 65_535))]
    pub(super) slots: Maybe<u64>,
    /// Queries that a replica may hold, for the policies that keep none in the proxy.
    #[schemars(range(min = 1, max = 65_535), extend("default" = 128))]
    pub(super) max_outstanding: Maybe<u64>,
    /// What a replica does with a query that is given up: goes on, or stops when its connection is
    /// reset.
    #[schemars(extend("default" = "none"))]
    pub(super) cancel: Maybe<Cancel>,
    /// The whole request, queueing included; expired queries are shed unserved.
    #[schemars(extend("default" = "2s"))]
    pub(super) timeout: Maybe<Span>,
    /// One copy without a response: it has failed, and is retried within the budget.
    #[schemars(extend("default" = "500ms"))]
    pub(super) attempt_timeout: Maybe<Span>,
    /// A cancelled copy that stays silent for so long: its connection is closed and its slot is free.
    /// At least `100ms`, and longer than a replica may work on a query. Once called `drain_timeout`.
    #[serde(alias = "drain_timeout")]
    #[schemars(extend("default" = "10s"))]
    pub(super) cancel_timeout: Maybe<Span>,
    /// Failures in a row that eject a replica while another one does better; 0 never does.
    #[schemars(extend("default" = 5))]
    pub(super) eject_after: Maybe<u64>,
    /// Refusals in a row that eject a replica while another one does better; 0 never does. A replica that refuses only
    /// some requests is overloaded, and is never ejected for it.
    #[schemars(extend("default" = 20))]
    pub(super) eject_after_refusals: Maybe<u64>,
    /// A replica that refuses with 503 and `Retry-After` gets no copies for that long, and for this long at most.
    #[schemars(extend("default" = "5s"))]
    pub(super) max_retry_after: Maybe<Span>,
    /// What the statuses of responses are worth, where it is not what the default table says.
    pub(super) outcome: Maybe<Outcomes>,
    /// For opening a connection to a replica.
    #[schemars(extend("default" = "3s"))]
    pub(super) connect_timeout: Maybe<Span>,
    /// Longest head of a response. A longer one is an error of this proxy, not a failure of the replica.
    #[schemars(extend("default" = "16KiB"))]
    pub(super) max_response_header_bytes: Maybe<Size>,
    /// Most header fields of a response, in the same way.
    #[schemars(range(min = 1, max = 256), extend("default" = 100))]
    pub(super) max_response_headers: Maybe<u64>,
    /// Idle connections that are kept per replica.
    #[schemars(range(min = 0, max = 65_535), extend("default" = 64))]
    pub(super) idle_connections: Maybe<u64>,
    /// How long they are kept.
    #[schemars(extend("default" = "30s"))]
    pub(super) idle_timeout: Maybe<Span>,
    /// The share of a shard's replicas that may be ejected; at least one stays.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0.5))]
    pub(super) max_ejected: Maybe<f64>,
    /// The least time of a first ejection; doubled for each one that follows soon.
    #[schemars(extend("default" = "1s"))]
    pub(super) ejection_time: Maybe<Span>,
    /// The longest such time.
    #[schemars(extend("default" = "60s"))]
    pub(super) max_ejection_time: Maybe<Span>,
    /// How replicas are probed; `false`: not at all.
    pub(super) health: Maybe<OrFalse<Health>>,
    /// Waiting queries per shard; beyond it they are shed.
    #[schemars(extend("default" = 1024))]
    pub(super) queue: Maybe<u64>,
    /// The requests that go to this service; all of them if left out.
    pub(super) route: Maybe<OneOrMany<Route>>,
    /// How a request names its shard; required with more than one.
    pub(super) shard_by: Maybe<ShardBy>,
    /// Retries per query that arrives, as a fraction; a reserve of 128 is there from the start.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0.1))]
    pub(super) retry_budget: Maybe<f64>,
    /// Duplicates per query that arrives, as a fraction; 32 are there from the start, and 1 is no
    /// limit. Without a token a query gets no duplicate.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0.2))]
    pub(super) hedge_budget: Maybe<f64>,
    /// Allows the policies `naive` and `clone`, which double every query and have no budget.
    #[schemars(extend("default" = false))]
    pub(super) unsafe_baseline: Maybe<bool>,
    /// Do the replicas run a stage, which serves requests that say `priority: u=7` when no other is there? For the
    /// policy das.
    #[schemars(extend("default" = false))]
    pub(super) stage: Maybe<bool>,
    /// Requests that the one replica gets at once, `"auto"`: as many as it needs to do as much as it can. Others
    /// wait here, those that say `priority: u=7` behind all others.
    pub(super) throttle: Maybe<AutoOr>,
    /// Queries that may be rescued in vain, as a fraction of all of them; with the policy rescue.
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0.05))]
    pub(super) rescue_budget: Maybe<f64>,
    /// How many clients (proxies) share the replicas, this one included; with policies that rank by feedback.
    #[schemars(extend("default" = 1))]
    pub(super) clients: Maybe<u64>,
    /// Where replicas answer probes of how busy they are; required by the policy prequal.
    pub(super) probe: Maybe<String>,
    /// Where requests say what their work is expected to cost; with the policy rescue.
    pub(super) cost_hint: Maybe<CostHint>,
    /// Methods whose requests may be retried and duplicated.
    #[schemars(extend("default" = ["GET", "HEAD"]))]
    pub(super) idempotent_methods: Option<Vec<Given<String>>>,
    /// Do good responses carry the server, the queue time and the number of copies? Errors never do.
    #[schemars(extend("default" = false))]
    pub(super) debug_headers: Maybe<bool>,
    /// Longest request body; a longer one is refused with 413. Bodies are held whole before
    /// dispatch, so that a slow client never holds a replica's slot.
    #[schemars(extend("default" = "1MB"))]
    pub(super) max_request_body: Maybe<Size>,
    /// With `[flow]`: is it the application that the sidecar stands beside, or one that the application calls?
    pub(super) flow: Maybe<FlowRole>,
    /// An address of its own, where its requests come rather than at `listen.http`; required with `flow = "egress"`.
    pub(super) listen: Maybe<String>,
    /// The shards, each with its replicas. At least one.
    pub(super) shard: Maybe<OneOrMany<Shard>>,
}

/// What the statuses of responses are worth. An entry is a status, or a text like `"4xx"` or `"502-599"`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "{ good, request, refused, failed }")]
pub(super) struct Outcomes {
    /// The client gets the response, and the time that it took counts.
    pub(super) good: Option<Vec<Given<Statuses>>>,
    /// It is about the request: the client gets it, and it is no sample of the replica's latency.
    pub(super) request: Option<Vec<Given<Statuses>>>,
    /// The replica refused the work: another one may do it.
    pub(super) refused: Option<Vec<Given<Statuses>>>,
    /// The replica failed: another one may do better, and failures in a row eject it.
    pub(super) failed: Option<Vec<Given<Statuses>>>,
}

/// What a service is to the process that a sidecar belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum FlowRole {
    /// The application: requests are admitted, and take turns on its slots.
    Ingress,
    /// What the application calls.
    Egress,
}

/// What a replica does with a query that is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Cancel {
    /// It goes on working, and its slot stays taken until it is done.
    None,
    /// It stops when its connection is reset.
    Reset,
}

/// How replicas are probed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "{ path, interval, timeout } or false")]
pub(super) struct Health {
    /// Path for which the status of a healthy replica counts as good or as about the request.
    #[schemars(extend("default" = "/"))]
    pub(super) path: Maybe<String>,
    /// Between two probes of a replica.
    #[schemars(extend("default" = "250ms"))]
    pub(super) interval: Maybe<Span>,
    /// A probe without a response for so long has failed; two in a row take the replica down.
    #[schemars(extend("default" = "500ms"))]
    pub(super) timeout: Maybe<Span>,
}

/// Where requests say what their work is expected to cost.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "{ header = … }")]
#[schemars(extend("required" = ["header"]))]
pub(super) struct CostHint {
    /// The value of this header is a number above 0, in any unit that all requests of the service
    /// share. Where it is missing or is none, the cost is unknown. Required.
    pub(super) header: Maybe<String>,
}

/// Requests that go to a service.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "{ path_prefix, method, idempotent, cost }")]
pub(super) struct Route {
    /// Whole segments at the start of the path: `/a` is `/a` and `/a/b`, not `/ab`.
    #[schemars(extend("default" = "/"))]
    pub(super) path_prefix: Maybe<String>,
    /// Only this method; all methods if left out.
    pub(super) method: Maybe<String>,
    /// May its requests be retried and duplicated, whatever their method? If left out, the method
    /// says.
    pub(super) idempotent: Maybe<bool>,
    /// What its requests are expected to cost where they do not say it themselves: a number above 0,
    /// in the unit of `cost_hint`. With the policy rescue.
    pub(super) cost: Maybe<f64>,
}

/// How a request names its shard: exactly one of these.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "{ header | query | path_segment | hash = … }")]
pub(super) struct ShardBy {
    /// The value of this header is the name of the shard. Repeated with another value: 400.
    pub(super) header: Maybe<String>,
    /// The value of this query parameter, percent-decoded, is the name of the shard. Repeated with
    /// another value: 400.
    pub(super) query: Maybe<String>,
    /// This segment of the path, percent-decoded, is the name of the shard; 0 is the first.
    pub(super) path_segment: Maybe<u64>,
    /// The shard is computed from a key.
    pub(super) hash: Maybe<KeyOf>,
}

/// Where a key is in a request: exactly one of these.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "{ header | query | path_segment = … }")]
pub(super) struct KeyOf {
    /// The value of this header.
    pub(super) header: Maybe<String>,
    /// The value of this query parameter, percent-decoded.
    pub(super) query: Maybe<String>,
    /// This segment of the path, percent-decoded; 0 is the first.
    pub(super) path_segment: Maybe<u64>,
}

/// A part of the data, and the replicas that hold it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table [[service.shard]]")]
#[schemars(extend("required" = ["name", "replicas"]))]
pub(super) struct Shard {
    /// What requests, metrics and the status call it. Required.
    pub(super) name: Maybe<String>,
    /// Addresses, as `IP:PORT` or `localhost:PORT`. At least one.
    pub(super) replicas: Maybe<Vec<Given<String>>>,
}
