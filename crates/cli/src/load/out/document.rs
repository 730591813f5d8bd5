//! `result.json`: the report, the plan and the environment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use curtail_load::{
    Extent, KeyDistribution, Pace, Plan, Protocol, QueryOrder, Report, ResponseEnd, Scheme, Trust,
};
use serde::Serialize;
use serde_json::{Value, json};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime as Rfc3339};

/// The version of the format. Readers reject later versions.
pub(crate) const FORMAT: u32 = 1;
/// `--body` is truncated to this length.
const DATA_CHARS: usize = 1_000;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    format: u32,
    /// The version of curtail that measured.
    pub(super) curtail: &'static str,
    #[serde(flatten)]
    pub(super) started: &'a Started,
    pub(super) host: Host,
    pub(super) plan: Value,
    /// Samples that are missing from the table because it was not written fast enough.
    samples_lost: u64,
    pub(super) report: &'a Report,
}

/// When a run started.
#[derive(Serialize)]
pub(super) struct Started {
    /// The start in seconds since 1970, and as text for people.
    started_utc_s: f64,
    pub(super) started_utc: String,
}

/// The machine that sent the requests.
#[derive(Serialize)]
pub(super) struct Host {
    name: String,
    /// The operating system and its kernel.
    pub(super) system: String,
    pub(super) kernel: String,
    pub(super) architecture: String,
    /// The number of processors that this program may use.
    pub(super) processors: Option<usize>,
}

impl<'a> Document<'a> {
    pub(super) fn new(plan: &Plan, report: &'a Report, started: &'a Started) -> Self {
        Self {
            format: FORMAT,
            curtail: env!("CARGO_PKG_VERSION"),
            started,
            host: Host::this(),
            plan: plan_json(plan),
            samples_lost: report.unobserved,
            report,
        }
    }
}

impl Started {
    pub(super) fn now() -> Self {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = Rfc3339.format_time(&mut Writer::new(&mut text));
        let seconds = text.split(['.', 'Z']).next().unwrap_or_default();
        Self {
            started_utc_s: Self::since_1970().as_millis() as f64 / 1e3,
            started_utc: format!("{seconds}Z"),
        }
    }

    /// Since 1970.
    pub(super) fn at(&self) -> Duration {
        Duration::from_secs_f64(self.started_utc_s)
    }

    /// A clock before 1970 counts as 1970.
    pub(super) fn since_1970() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

impl Host {
    fn this() -> Self {
        let names = rustix::system::uname();
        let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
        Self {
            name: text(names.nodename()),
            system: text(names.sysname()),
            kernel: text(names.release()),
            architecture: text(names.machine()),
            processors: std::thread::available_parallelism().ok().map(usize::from),
        }
    }
}

/// The plan, as on the command line. It lists only the names of headers, because some values are
/// secret.
fn plan_json(plan: &Plan) -> Value {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let (rate, arrivals) = match &plan.pace {
        Pace::Open { profile, arrivals } => (Some(profile.to_string()), Some(arrivals.to_string())),
        Pace::Closed => (None, None),
    };
    let (duration_s, requests) = match plan.extent {
        Extent::Duration { ns } => (Some(seconds(ns)), None),
        Extent::Requests(requests) => (None, Some(requests)),
    };
    let until = plan.until.as_ref();
    let percentiles = |per_mille: &[u32]| -> Vec<f64> {
        per_mille.iter().map(|per_mille| f64::from(*per_mille) / 10.0).collect()
    };
    json!({
        "target": plan.target.to_string(),
        "closed_loop": rate.is_none(),
        "rate": rate,
        "arrivals": arrivals,
        "duration_s": duration_s,
        "requests": requests,
        "warmup_s": seconds(plan.warmup_ns),
        "until_ci": until.map(|until| until.relative),
        // The percentiles for `until_ci`.
        "percentiles": until.map(|until| percentiles(&until.per_mille)),
        "connections": plan.connections,
        "backlog": plan.backlog,
        "threads": plan.threads,
        "spin": plan.spin,
        // The processors of the sending threads, such as `0,2-4`, if they were specified.
        "processors": (!plan.processors.numbers().is_empty()).then(|| plan.processors.to_string()),
        "stamps": plan.stamps,
        "timeout_s": seconds(plan.timeout_ns),
        "headers": plan.headers.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        // The number of different queries; 0 if the run sends only the target's own request.
        "queries": plan.queries.len(),
        "shuffle": plan.order == QueryOrder::Random,
        "seed": plan.seed,
        "protocol": protocol(plan),
    })
}

/// The settings that reproduce a run, except the target. A setting is null if it does not apply to
/// this target or was not given.
fn protocol(plan: &Plan) -> Value {
    let Protocol {
        streams, trust, schema, response_end, datagram_bytes, method, data, keys, ..
    } = &plan.protocol;
    let (scheme, http2) =
        (plan.target.scheme(), plan.protocol.http2 || plan.target.scheme().is_grpc());
    let (answer_bytes, answer_until) = match response_end {
        _ if scheme != Scheme::Tcp => (None, None),
        ResponseEnd::Bytes(bytes) => (Some(*bytes), None),
        ResponseEnd::Until(end) => (None, Some(end.escape_ascii().to_string())),
    };
    let trust = match trust {
        Trust::System => "system".to_owned(),
        Trust::Anyone => "anyone".to_owned(),
        Trust::File(path) => path.display().to_string(),
    };
    json!({
        "http2": http2,
        // Concurrent requests per connection.
        "streams": http2.then_some(streams),
        "method": method,
        // The first characters of the data, and its length in bytes.
        "data": data.as_ref().map(|data| data.chars().take(DATA_CHARS).collect::<String>()),
        "data_bytes": data.as_ref().map(String::len),
        "keys": keys.map(|keys| keys.count),
        "key_distribution": keys.map(|keys| match keys.distribution {
            KeyDistribution::Uniform => "uniform".to_owned(),
            KeyDistribution::Zipf(exponent) => format!("zipf:{exponent}"),
        }),
        // For TLS: `system`, `anyone`, or a file of authorities.
        "trust": scheme.is_tls().then_some(trust),
        // For gRPC: the file that describes messages.
        "schema": schema.as_ref().map(|path| path.display().to_string()),
        "answer_bytes": answer_bytes,
        "answer_until": answer_until,
        "datagram_bytes": (scheme == Scheme::Udp).then_some(datagram_bytes),
        // The maximum response length.
        "max_response_bytes": plan.body_bytes_max,
    })
}
