//! The first stage: the file as serde deserializes it.
//!
//! This is the only description of a key: its name, its type with unit, range and default, and the
//! doc comment, which becomes the description in the JSON schema. A default is an attribute only if
//! the type cannot state it, or if it depends on other keys. All keys are optional here, so that a
//! missing key is reported together with all other errors.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use curtail_config::{AutoOr, Count, Fraction, Given, Key, OneOrMany, OrFalse, Size, Socket, Time};
use curtail_http::h1::{HEAD_BYTES_MAX, HEADERS_MAX};
use curtail_kernel::Topology;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::statuses::Statuses;

pub(super) const HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
pub(super) const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9901);

/// The largest buffer, in bytes.
const BUFFER_MOST: usize = 1 << 30;

/// Smallest value of `cancel_timeout`. While a server sends, its progress is reported every 50 ms.
/// The server must not appear to be silent between two reports.
const CANCEL_LEAST: u64 = millis(100);

type Maybe<T> = Option<Given<T>>;
/// The maximum size of a message head. The parser has an upper limit.
type HeadBytes = Size<{ 16 << 10 }, 256, HEAD_BYTES_MAX>;
/// The maximum number of header fields.
type Headers = Count<100, 1, { HEADERS_MAX as u32 }>;
/// The index of a path segment.
pub(super) type Segment = Count<0, 0, 255>;

const fn seconds(seconds: u64) -> u64 {
    seconds * 1_000_000_000
}

const fn millis(millis: u64) -> u64 {
    millis * 1_000_000
}

/// The configuration of `curtail proxy`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "the tables [listen], [log], [flow] and [[service]]"
)]
#[schemars(rename = "CurtailProxy", extend("required" = ["service"]))]
pub(super) struct File {
    /// Listeners, and limits for clients.
    pub(super) listen: Option<Listen>,
    /// The log, which is written to stderr.
    pub(super) log: Option<Log>,
    /// The process for which this proxy is the sidecar, in a graph of services.
    pub(super) flow: Maybe<Flow>,
    /// The services behind the proxy.
    pub(super) service: Maybe<OneOrMany<Service>>,
}

/// Listeners, and limits for clients.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table [listen]")]
pub(super) struct Listen {
    /// Address for clients, as `IP:PORT` or `localhost:PORT`. Port 0 selects any free port.
    #[schemars(extend("default" = HTTP.to_string()))]
    pub(super) http: Maybe<Socket>,
    /// Path of a Unix socket for clients on this machine, in addition to `http`. A file that a killed
    /// process has left there is replaced.
    pub(super) unix: Maybe<String>,
    /// Address for clients that use TLS. Requires the table `tls`. The client chooses HTTP/2 or
    /// HTTP/1.1 in the handshake (ALPN).
    pub(super) https: Maybe<Socket>,
    /// Certificates, and how clients prove who they are. Files that change are read again.
    pub(super) tls: Maybe<ListenTls>,
    /// Whether every connection to `http` and `https` begins with a PROXY header (version 2), which
    /// names the client. Set this only if a load balancer that sends the header is the only client.
    pub(super) proxy_protocol: bool,
    /// Whether every request that is relayed has an `X-Request-Id`. The client's value is kept if
    /// there is exactly one, of at most 128 letters, digits and `-._~+/=:`. Otherwise a random one
    /// takes its place.
    pub(super) request_id: bool,
    /// Whether dot segments (`/./`, `/../`), also percent-encoded ones, are removed from the path
    /// before a request is routed and relayed. A path that climbs above the root is then rejected
    /// with 400. Set this if routes separate requests that clients must not mix.
    pub(super) normalize_path: bool,
    /// Address for metrics, status and health checks. `false` disables the admin server.
    #[schemars(extend("default" = ADMIN.to_string()))]
    pub(super) admin: Maybe<OrFalse<Socket>>,
    /// Maximum number of client connections. Additional connections are rejected.
    pub(super) max_connections: Count<10_000, 1, 1_000_000>,
    /// Number of threads that serve connections. The default is the number of processors that this
    /// process may use.
    pub(super) workers: Option<Count<1, 1, 1_024>>,
    /// Maximum number of bytes of bodies that wait in the proxy. Once it is reached, bodies are relayed
    /// without being held, and new requests with a body wait.
    pub(super) max_buffered: Size<{ 256 << 20 }, { 1 << 20 }, { 1 << 40 }>,
    /// Timeout from the first byte of a request to the end of its head.
    pub(super) header_timeout: Time<{ seconds(10) }>,
    /// Timeout from the end of a request's head to the end of its body.
    pub(super) body_timeout: Time<{ seconds(30) }>,
    /// Timeout between two requests on a connection.
    pub(super) idle_timeout: Time<{ seconds(60) }>,
    /// Timeout of one write to a client that does not read.
    pub(super) write_timeout: Time<{ seconds(30) }>,
    /// Maximum size of a request's head, including the request line.
    pub(super) max_header_bytes: HeadBytes,
    /// Maximum number of header fields in a request.
    pub(super) max_headers: Headers,
    /// Time limit for running requests after SIGTERM.
    pub(super) drain: Time<{ seconds(30) }, 0>,
}

/// TLS for clients.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "{ certificates, client_auth, client_ca }")]
#[schemars(extend("required" = ["certificates"]))]
pub(super) struct ListenTls {
    /// The certificates. A client gets the one that contains the name that it asks for (SNI), or the
    /// first one. Required.
    pub(super) certificates: Maybe<OneOrMany<Certificate>>,
    /// Whether clients must present a certificate.
    pub(super) client_auth: ClientAuth,
    /// File with the certificates (PEM) of the authorities that sign the certificates of clients.
    /// Required unless `client_auth` is `none`. The path is relative to this file.
    pub(super) client_ca: Maybe<String>,
}

/// A certificate and its key.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "{ cert, key }")]
#[schemars(extend("required" = ["cert", "key"]))]
pub(super) struct Certificate {
    /// File with the certificate and its chain (PEM). The path is relative to this file. Required.
    pub(super) cert: Maybe<String>,
    /// File with the private key (PEM). The path is relative to this file. Required.
    pub(super) key: Maybe<String>,
}

/// Whether clients must present a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum ClientAuth {
    /// No certificate is requested.
    #[default]
    None,
    /// A certificate is requested, and is verified if the client has one.
    Optional,
    /// A client without a valid certificate is refused.
    Required,
}

/// The log, which is written to stderr.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table [log]")]
pub(super) struct Log {
    /// Human-readable text, or one JSON object per line.
    pub(super) format: LogFormat,
    /// The lowest level that is logged.
    pub(super) level: LogLevel,
}

/// The process for which this proxy is the sidecar, in a graph of services.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table [flow]")]
pub(super) struct Flow {
    /// The service that the process belongs to. All processes of the service must use the same
    /// name. Required if a service has `flow`.
    pub(super) service: Maybe<String>,
    /// The order of requests within a workflow: fifo, edf, lstf, srtf, lasf, sjf or strict.
    #[schemars(extend("default" = "fifo"))]
    pub(super) discipline: Maybe<String>,
    /// Time between two updates of the rates. A workflow that has been idle may send a burst of as
    /// many requests as its rate permits in one interval. A longer interval is better for workflows
    /// with only a few requests per second.
    pub(super) interval: Time<{ millis(100) }, { millis(1) }, { seconds(10) }>,
    /// Whether requests come from clients that cannot be trusted. If so, metadata is removed from
    /// all requests, as in a proxy without `[flow]`.
    pub(super) edge: bool,
    /// Networks whose requests may carry metadata, if `edge` is false. Metadata from all others is
    /// removed. The default is the loopback, private and link-local networks.
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) trusts: Maybe<Vec<Given<String>>>,
    /// File that contains a key of at least 16 bytes. All processes of the system must have the
    /// same key. The path is relative to this file. Metadata is signed with the key, and metadata
    /// that has no valid signature is ignored.
    pub(super) key_file: Maybe<String>,
    /// The key that names the workflow of a request without metadata. A name that is not configured
    /// selects the class `default`.
    pub(super) workflow_by: Maybe<KeyOf>,
    /// The tenants or classes of requests.
    pub(super) workflow: Maybe<OneOrMany<Workflow>>,
}

/// A tenant, or a class of requests.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table [[flow.workflow]]")]
#[schemars(extend("required" = ["name"]))]
pub(super) struct Workflow {
    /// The name of the workflow, as used in requests. `default` is the class of all requests whose
    /// workflow has no table. Required.
    pub(super) name: Maybe<String>,
    /// Share of scarce capacity, relative to other workflows.
    #[schemars(extend("default" = 1.0))]
    pub(super) weight: Maybe<f64>,
    /// Time from arrival until a request is late, unless the request itself has an earlier
    /// deadline. If left out, there is no deadline.
    pub(super) deadline: Option<Time<0>>,
    /// Guaranteed rate, in requests per second.
    #[schemars(extend("default" = 0.0))]
    pub(super) guarantee: Maybe<f64>,
    /// Maximum rate, in requests per second. If left out, there is no limit.
    pub(super) limit: Maybe<f64>,
    /// Priority under the discipline strict. Requests with larger values are served first.
    pub(super) priority: Count<0, 0, 1_000_000>,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum LogFormat {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The importance of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum LogLevel {
    /// Something has failed.
    Error,
    /// Something needs attention.
    Warn,
    /// Something changed.
    #[default]
    Info,
    /// The proxy made a decision.
    Debug,
    /// Everything.
    Trace,
}

/// A replicated service, in one or more shards.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table [[service]]")]
#[schemars(extend("required" = ["name", "shard"]))]
pub(super) struct Service {
    /// The name in metrics, logs and the status. Required.
    pub(super) name: Maybe<String>,
    /// The policy by which the service picks replicas and hedges queries, such as `rescue`,
    /// `bounded:2` or `delayed:5ms:cc+least-outstanding`. If left out, the policy is `rescue` if
    /// `slots` is set, and `rescue+least-outstanding` otherwise.
    #[schemars(extend("default" = "rescue"))]
    pub(super) policy: Maybe<String>,
    /// Number of queries that a replica serves concurrently. Required by policies that keep queries
    /// in the proxy (psq, bounded, laedge, and rescue without `+PICK`) and by the role `ingress`.
    /// Ignored otherwise.
    pub(super) slots: Maybe<Count<1, 1, { Topology::MAX_GATE }>>,
    /// Maximum number of queries that a replica may hold, for policies that do not keep queries in
    /// the proxy.
    pub(super) max_outstanding: Count<128, 1, { Topology::MAX_GATE }>,
    /// What a replica does with a cancelled query: it continues (`none`), or it stops when its
    /// connection, or its stream of HTTP/2, is reset (`reset`). If left out, `reset` with
    /// `protocol = "grpc"`.
    #[schemars(extend("default" = "none"))]
    pub(super) cancel: Maybe<Cancel>,
    /// Timeout of the whole request, including the time in the queue. Expired queries are shed.
    pub(super) timeout: Time<{ seconds(2) }>,
    /// Timeout of one copy. A copy that has no response by then counts as failed, and is retried if
    /// the budget permits. If left out, half of `timeout` if a retry is possible, and `timeout`
    /// otherwise. A retry is possible if a shard has a second replica, some requests may be repeated,
    /// and `retry_budget` is not 0.
    pub(super) attempt_timeout: Maybe<Time<0>>,
    /// How long a cancelled copy may stay silent before its connection is closed and its slot is
    /// freed. It must be at least `100ms`, and longer than the longest time that a replica works on
    /// a query. The default is `attempt_timeout` if that is longer and `cancel` is `none`. Formerly
    /// called `drain_timeout`.
    #[serde(alias = "drain_timeout")]
    pub(super) cancel_timeout: Key<Time<{ seconds(10) }, CANCEL_LEAST>>,
    /// Longest pause within a response. A longer one ends the response, and its replica has failed. If
    /// left out, the longer of `timeout` and `cancel_timeout`.
    pub(super) read_timeout: Option<Time<0>>,
    /// Number of consecutive failures after which a replica is ejected, if another one is doing
    /// better. 0 disables such ejections.
    pub(super) eject_after: Count<5, 0, 1_000_000>,
    /// Number of consecutive refusals after which a replica is ejected, if another one is doing
    /// better. 0 disables such ejections. A replica that refuses only some requests is overloaded,
    /// and refusals never eject it.
    pub(super) eject_after_refusals: Count<20, 0, 1_000_000>,
    /// If a replica refuses a request with 503 and `Retry-After`, it gets no copies for the time in
    /// that header, up to this maximum.
    pub(super) max_retry_after: Time<{ seconds(5) }, 0>,
    /// The version of HTTP that the replicas get. `h2` without TLS is HTTP/2 with prior knowledge.
    pub(super) protocol: Key<Protocol>,
    /// TLS towards the replicas. If it is left out or `false`, connections are plain.
    pub(super) tls: Maybe<OrFalse<UpstreamTls>>,
    /// Statuses whose outcomes differ from those in the default table.
    pub(super) outcome: Maybe<Outcomes>,
    /// Timeout for opening a connection to a replica.
    pub(super) connect_timeout: Time<{ seconds(3) }>,
    /// Maximum size of a response's head. A response with a longer head counts as an error of this
    /// proxy, not as a failure of the replica.
    pub(super) max_response_header_bytes: HeadBytes,
    /// Maximum number of header fields in a response. A response with more fields also counts as an
    /// error of this proxy.
    pub(super) max_response_headers: Headers,
    /// Maximum number of idle connections that are kept per replica.
    pub(super) idle_connections: Count<64, 0, 65_535>,
    /// How long an idle connection is kept.
    pub(super) idle_timeout: Time<{ seconds(30) }>,
    /// Share of a shard's replicas that may be ejected. At least one replica is never ejected.
    pub(super) max_ejected: Key<Fraction<50>>,
    /// Minimum duration of a first ejection. The duration doubles with each ejection that soon
    /// follows another.
    pub(super) ejection_time: Key<Time<{ seconds(1) }>>,
    /// Upper bound on the doubled duration.
    pub(super) max_ejection_time: Key<Time<{ seconds(60) }>>,
    /// How replicas are probed. `false` disables health probes.
    pub(super) health: Maybe<OrFalse<Health>>,
    /// Limits on connections that switch to another protocol. Routes permit it with `tunnel`.
    pub(super) tunnels: Maybe<Tunnels>,
    /// Maximum number of waiting queries per shard. Additional queries are shed.
    pub(super) queue: Count<1_024, 0, 1_000_000>,
    /// The requests that go to this service. If left out, the service gets all requests.
    pub(super) route: Maybe<OneOrMany<Route>>,
    /// How a request selects its shard. Required if there is more than one shard.
    pub(super) shard_by: Maybe<ShardBy>,
    /// Retries permitted per arriving query, as a fraction. A reserve of 128 is available from the
    /// start.
    pub(super) retry_budget: Key<Fraction<10>>,
    /// Duplicates permitted per arriving query, as a fraction. 32 are available from the start, and
    /// 1 means no limit. A query gets no duplicate while the budget is exhausted. If left out, 1 for
    /// policies whose duplicates only fill idle slots (`laedge`, `rescue:preempt`), and 0.2 otherwise.
    #[schemars(extend("default" = 0.2))]
    pub(super) hedge_budget: Maybe<Fraction<0>>,
    /// Allows the policies `naive` and `clone`, which double every query and have no budget.
    pub(super) unsafe_baseline: bool,
    /// Whether the replicas run a stage, which serves requests with `priority: u=7` only while no
    /// others wait. Used only by the policy das.
    pub(super) stage: bool,
    /// Maximum number of concurrent requests at the single replica. `"auto"` finds the smallest
    /// number at which the replica reaches its full throughput. Further requests wait in the proxy.
    /// Requests with `priority: u=7` wait behind all others.
    pub(super) throttle: Maybe<AutoOr<1, { Topology::MAX_GATE }>>,
    /// Maximum number of lost rescues, as a fraction of all queries. Used only by the policy
    /// rescue.
    pub(super) rescue_budget: Key<Fraction<5>>,
    /// Number of clients (proxies) that share the replicas, including this one. Used only by
    /// policies that rank replicas by feedback.
    pub(super) clients: Key<Count<1, 1, 1_000_000>>,
    /// Path on which replicas respond to load probes. Required by the policy prequal.
    pub(super) probe: Maybe<String>,
    /// The header in which requests declare the expected cost of their work. Used only by the
    /// policy rescue.
    pub(super) cost_hint: Maybe<CostHint>,
    /// Methods whose requests may be retried and duplicated.
    #[schemars(extend("default" = ["GET", "HEAD"]))]
    pub(super) idempotent_methods: Option<Vec<Given<String>>>,
    /// Whether good responses get headers that state the server, the time in the queue and the
    /// number of copies. Error responses never get these headers.
    pub(super) debug_headers: bool,
    /// Maximum size of a request body. A request with a larger body is rejected with 413.
    pub(super) max_request_body: Size<1_000_000, 0, { 1 << 40 }>,
    /// A request body up to this size is read in full before dispatch, so that a slow client never
    /// occupies a slot of a replica. A longer one is relayed while it arrives, and the request is
    /// neither retried nor duplicated. Over HTTP/2 on both sides, so is a body without a declared
    /// length, unless its route is `idempotent` or `unary`. `max_request_body` does not apply to it.
    pub(super) replay_bytes: Size<{ 64 << 10 }, 0, BUFFER_MOST>,
    /// Number of bytes of a long response that wait for a slow client.
    pub(super) response_buffer: Size<{ 256 << 10 }, 0, BUFFER_MOST>,
    /// Role of the service in `[flow]`: the application next to the sidecar (`ingress`), or a
    /// service that the application calls (`egress`).
    pub(super) flow: Maybe<FlowRole>,
    /// A separate address for the service. The service's requests arrive at this address instead of
    /// at `listen.http`. Required with `flow = "egress"`.
    pub(super) listen: Maybe<Socket>,
    /// The shards, each with its replicas. At least one.
    pub(super) shard: Maybe<OneOrMany<Shard>>,
}

/// The version of HTTP that replicas get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2.
    H2,
    /// HTTP/2, and the status of gRPC decides whether a replica has failed.
    Grpc,
    /// HTTP/2 if the replica chooses it in the TLS handshake (ALPN), and HTTP/1.1 otherwise. Requires
    /// `tls`.
    Auto,
}

/// TLS towards replicas.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "{ ca, name, cert, key } or false")]
pub(super) struct UpstreamTls {
    /// File with the certificates (PEM) of the authorities that sign the replicas' certificates. If
    /// left out, the authorities of the system. The path is relative to this file.
    pub(super) ca: Maybe<String>,
    /// The name that the replicas' certificates must contain. If left out, the host in the address
    /// of each replica.
    pub(super) name: Maybe<String>,
    /// File with the certificate (PEM) that is presented to the replicas. Requires `key`.
    pub(super) cert: Maybe<String>,
    /// File with the private key of `cert` (PEM).
    pub(super) key: Maybe<String>,
}

/// Outcomes of statuses. An entry is a status, a string such as `"4xx"` or `"502-599"`, or a code of
/// gRPC such as `"UNAVAILABLE"`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "{ good, request, refused, failed }")]
pub(super) struct Outcomes {
    /// The client gets the response, and the response time is a sample of the replica's latency.
    pub(super) good: Option<Vec<Given<Statuses>>>,
    /// The status is caused by the request, not by the replica. The client gets the response, but
    /// the response time does not count as a sample of the replica's latency.
    pub(super) request: Option<Vec<Given<Statuses>>>,
    /// The replica refused the work, so another replica may do it.
    pub(super) refused: Option<Vec<Given<Statuses>>>,
    /// The replica failed, so another replica may succeed. Consecutive failures eject the replica.
    pub(super) failed: Option<Vec<Given<Statuses>>>,
}

/// The role of a service for the process that the sidecar belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum FlowRole {
    /// The application. Requests to it must be admitted, and share its slots.
    Ingress,
    /// A service that the application calls.
    Egress,
}

/// What a replica does with a cancelled query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Cancel {
    /// It continues, and its slot stays occupied until it has finished.
    None,
    /// It stops when its connection is reset.
    Reset,
}

/// How replicas are probed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "{ path, grpc, interval, timeout } or false")]
pub(super) struct Health {
    /// Path of the probe. The replica is healthy if the status of its response has the outcome
    /// `good` or `request`.
    #[schemars(extend("default" = "/"))]
    pub(super) path: Maybe<String>,
    /// The service whose health is asked for by the call `grpc.health.v1.Health/Check`, in place of
    /// `path`. `""` stands for the whole server, and is the default with `protocol = "grpc"`. A
    /// replica that does not implement the call is healthy.
    pub(super) grpc: Maybe<String>,
    /// Time between two probes of a replica.
    pub(super) interval: Time<{ millis(250) }>,
    /// Timeout of a probe. Two consecutive failed probes take a replica down. A single probe is
    /// enough if it cannot connect.
    pub(super) timeout: Time<{ millis(500) }>,
}

/// The limits on connections that switch to another protocol.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "{ protocols, max, idle_timeout }")]
pub(super) struct Tunnels {
    /// The protocols that clients may request with `Upgrade`, or with CONNECT over HTTP/2 (RFC 8441).
    /// A request for another one is relayed without the request to switch.
    #[schemars(extend("default" = ["websocket"]))]
    pub(super) protocols: Option<Vec<Given<String>>>,
    /// Maximum number of concurrent tunnels. Beyond it, a request to switch gets a 503.
    pub(super) max: Count<1_024, 1, 1_000_000>,
    /// A tunnel that has carried no bytes for this time is closed.
    pub(super) idle_timeout: Time<{ seconds(3_600) }>,
}

/// The header in which requests declare the expected cost of their work.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "{ header = … }")]
#[schemars(extend("required" = ["header"]))]
pub(super) struct CostHint {
    /// Name of the header. Its value is a number above 0, in any unit that all requests of the
    /// service share. The cost is unknown if the header is missing or its value is not valid.
    /// Required.
    pub(super) header: Maybe<String>,
}

/// Requests that go to a service.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "{ path_prefix, grpc, method, idempotent, unary, first_chunk, tunnel, cost }"
)]
pub(super) struct Route {
    /// Whole segments at the start of the path: `/a` matches `/a` and `/a/b`, but not `/ab`.
    #[schemars(extend("default" = "/"))]
    pub(super) path_prefix: Maybe<String>,
    /// The method of gRPC, as `package.Service/Method`, or `package.Service` for all its methods.
    /// Takes the place of `path_prefix` and `method`.
    pub(super) grpc: Maybe<String>,
    /// The method of the requests. If left out, all methods match.
    pub(super) method: Maybe<String>,
    /// Whether these requests may be retried and duplicated, regardless of their method. If left
    /// out, this depends on `idempotent_methods`.
    pub(super) idempotent: Option<bool>,
    /// Whether each response is a single message. Such a response is held until its end if it is
    /// short, so that another copy can win until then. Otherwise a copy wins with the head of its
    /// response, and the response is streamed.
    pub(super) unary: bool,
    /// Whether a copy wins only with the first bytes of its body. Set it for streams whose head
    /// arrives before the work is done, such as those of language models.
    pub(super) first_chunk: Key<bool>,
    /// Whether connections may switch to another protocol, such as WebSocket: see `tunnels`.
    pub(super) tunnel: bool,
    /// Expected cost of these requests, if they do not declare it themselves: a number above 0, in
    /// the unit of `cost_hint`. Used only by the policy rescue.
    pub(super) cost: Maybe<f64>,
}

/// How a request selects its shard. Exactly one of these keys is required.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "{ header | query | path_segment | hash = … }")]
pub(super) struct ShardBy {
    /// The value of this header is the name of the shard. A request that contains different values
    /// is rejected with 400.
    pub(super) header: Maybe<String>,
    /// The value of this query parameter, percent-decoded, is the name of the shard. A request that
    /// contains different values is rejected with 400.
    pub(super) query: Maybe<String>,
    /// This segment of the path, percent-decoded, is the name of the shard. 0 is the first segment.
    pub(super) path_segment: Option<Segment>,
    /// The shard is computed from the hash of a key.
    pub(super) hash: Maybe<KeyOf>,
}

/// The part of a request that contains a key. Exactly one of these keys is required.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "{ header | query | path_segment = … }")]
pub(super) struct KeyOf {
    /// The key is the value of this header.
    pub(super) header: Maybe<String>,
    /// The key is the percent-decoded value of this query parameter.
    pub(super) query: Maybe<String>,
    /// The key is this segment of the path, percent-decoded. 0 is the first segment.
    pub(super) path_segment: Option<Segment>,
}

/// Part of the data, and the replicas that store it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table [[service.shard]]")]
#[schemars(extend("required" = ["name", "replicas"]))]
pub(super) struct Shard {
    /// The name in requests, metrics and the status. Required.
    pub(super) name: Maybe<String>,
    /// Addresses, as `IP:PORT`, `NAME:PORT` or `unix:PATH`. Names are resolved whenever a connection
    /// is opened. At least one.
    pub(super) replicas: Maybe<Vec<Given<String>>>,
}
