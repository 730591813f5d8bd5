//! `result.json`: the report, and what was asked of whom.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use curtail_load::{
    AnswerEnd, Extent, KeyDistribution, Pace, Plan, Protocol, QueryOrder, Report, Scheme, Trust,
};
use serde::Serialize;
use serde_json::{Value, json};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime as Rfc3339};

/// The version of the document. Readers of one refuse a later one.
pub(crate) const FORMAT: u32 = 1;
/// So much of `--body` is kept.
const DATA_CHARS: usize = 1_000;

/// A run.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    format: u32,
    /// The version that measured it.
    pub(super) curtail: &'static str,
    #[serde(flatten)]
    pub(super) started: &'a Started,
    pub(super) host: Host,
    pub(super) plan: Value,
    /// Samples that are missing in the table of samples, because it was not written fast enough.
    samples_lost: u64,
    pub(super) report: &'a Report,
}

/// When a run began.
#[derive(Serialize)]
pub(super) struct Started {
    /// In seconds since 1970, and for people.
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
    /// Processors that this program may use.
    pub(super) processors: Option<usize>,
}

impl<'a> Document<'a> {
    pub(super) fn new(plan: &Plan, report: &'a Report, started: &'a Started) -> Self {
        Self {
            format: FORMAT,
            curtail: env!("CARGO_PKG_VERSION"),
            started,
            host: Host::this(),
            plan: asked(plan),
            samples_lost: report.unobserved,
            report,
        }
    }
}

impl Started {
    pub(super) fn now() -> Self {
        let mut text = String::new();
        // A string takes everything.
        let _ = Rfc3339.format_time(&mut Writer::new(&mut text));
        let seconds = text.split(['.', 'Z']).next().unwrap_or_default();
        Self {
            started_utc_s: Self::since_1970().as_millis() as f64 / 1e3,
            started_utc: format!("{seconds}Z"),
        }
    }

    /// Before 1970 no clock is right.
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

/// What was asked, as on the command line. Of headers only the names: some values are secret.
fn asked(plan: &Plan) -> Value {
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
        // That `until_ci` is about.
        "percentiles": until.map(|until| percentiles(&until.per_mille)),
        "connections": plan.connections,
        "backlog": plan.backlog,
        "threads": plan.threads,
        "spin": plan.spin,
        // Of the threads, where they were named: `0,2-4`.
        "processors": (!plan.processors.numbers().is_empty()).then(|| plan.processors.to_string()),
        "stamps": plan.stamps,
        "timeout_s": seconds(plan.timeout_ns),
        "headers": plan.headers.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        // How many different ones; 0 where it is the target's own.
        "queries": plan.queries.len(),
        "shuffle": plan.order == QueryOrder::Random,
        "seed": plan.seed,
        "protocol": protocol(plan),
    })
}

/// What it takes, beside the target, to ask the same again. Null where it is of no use with this target,
/// or was not given.
fn protocol(plan: &Plan) -> Value {
    let Protocol { streams, trust, schema, answer_end, datagram_bytes, method, data, keys, .. } =
        &plan.protocol;
    let (scheme, http2) =
        (plan.target.scheme(), plan.protocol.http2 || plan.target.scheme().is_grpc());
    let (answer_bytes, answer_until) = match answer_end {
        _ if scheme != Scheme::Tcp => (None, None),
        AnswerEnd::Bytes(bytes) => (Some(*bytes), None),
        AnswerEnd::Until(end) => (None, Some(end.escape_ascii().to_string())),
    };
    let trust = match trust {
        Trust::System => "system".to_owned(),
        Trust::Anyone => "anyone".to_owned(),
        Trust::File(path) => path.display().to_string(),
    };
    json!({
        "http2": http2,
        // Requests at once on a connection.
        "streams": http2.then_some(streams),
        "method": method,
        // Its first characters, and how many bytes it has in all.
        "data": data.as_ref().map(|data| data.chars().take(DATA_CHARS).collect::<String>()),
        "data_bytes": data.as_ref().map(String::len),
        "keys": keys.map(|keys| keys.count),
        "key_distribution": keys.map(|keys| match keys.distribution {
            KeyDistribution::Uniform => "uniform".to_owned(),
            KeyDistribution::Zipf(exponent) => format!("zipf:{exponent}"),
        }),
        // Of TLS: `system`, `anyone`, or a file of authorities.
        "trust": scheme.is_tls().then_some(trust),
        // Of gRPC: the file that describes messages.
        "schema": schema.as_ref().map(|path| path.display().to_string()),
        "answer_bytes": answer_bytes,
        "answer_until": answer_until,
        "datagram_bytes": (scheme == Scheme::Udp).then_some(datagram_bytes),
        // The longest response.
        "max_response_bytes": plan.body_bytes_max,
    })
}
