//! What can go wrong before a run. During one, failures are counted.

use std::io;
use std::path::PathBuf;

use curtail_http1::WriteError;
use curtail_kernel::duration::format;

use crate::plan::profile::STEPS_MAX;

/// Why a text is not a [`Target`](crate::Target). The message names the text and what to write
/// instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It does not begin with a scheme that is known.
    #[error(
        "`{0}` does not begin with http://; write http://HOST:PORT/path, or one of https://, grpc://, \
         grpcs://, memcached://, redis://, tcp:// and udp://"
    )]
    Scheme(String),
    /// No host.
    #[error("`{0}` has no host; write it after the ://, such as http://HOST:PORT/path")]
    NoHost(String),
    /// No port, and the protocol has no customary one.
    #[error("`{0}` has no port; write it behind the host, such as HOST:9000")]
    NoPort(String),
    /// The path is not that of a method of gRPC.
    #[error("`{0}` names no method; write grpc://HOST:PORT/package.Service/Method")]
    NoMethod(String),
    /// A path where the protocol has none.
    #[error(
        "`{text}`: {scheme} has no paths; write {scheme}://HOST:PORT, and what to ask with --data"
    )]
    Path {
        /// As given.
        text: String,
        /// The protocol.
        scheme: &'static str,
    },
    /// The host has characters that no host has.
    #[error(
        "`{0}`: the host may have letters, digits, `.`, `-` and `_`, or be an IPv6 address in []"
    )]
    BadHost(String),
    /// An IPv6 address whose colons could be those before the port.
    #[error("`{0}`: write an IPv6 address in [ ], such as http://[::1]:9100/")]
    NoBrackets(String),
    /// User information in front of the host.
    #[error("`{0}`: a name or password before the host is not supported; use a header")]
    UserInfo(String),
    /// The same of Redis, which has no headers.
    #[error(
        "`{0}`: a name or password before the host is not supported; write AUTH PASSWORD as the first \
         query, and use one connection"
    )]
    RedisUserInfo(String),
    /// The port is not a number from 1 to 65535.
    #[error("`{0}`: the port is not a number from 1 to 65535")]
    BadPort(String),
    /// A fragment, which is never sent.
    #[error("`{0}`: a fragment (#) is never sent to a server; leave it out, or write %23")]
    Fragment(String),
    /// The path has bytes other than visible ASCII.
    #[error("`{0}`: the path has a character that must be percent-encoded, such as a space")]
    BadPath(String),
}

/// Why a [`Plan`](crate::Plan) cannot be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The rate is not a usable number. Debug writes large and small ones with an exponent.
    #[error("rate {0:?} is not above 0 and at most 1000000 requests per second")]
    Rate(f64),
    /// Nothing would be measured.
    #[error("the duration, or the number of requests, is zero; nothing would be measured")]
    Empty,
    /// The duration is too short for the rate.
    #[error(
        "rate {rate:?} × duration {} is {:?} requests, fewer than one; use a higher rate or a longer \
         duration",
        format(*.ns),
        rounded(*.requests)
    )]
    FewerThanOne {
        /// Per second.
        rate: f64,
        /// The duration, in nanoseconds.
        ns: u64,
        /// Their product.
        requests: f64,
    },
    /// The number of connections is out of range.
    #[error("{0} connections; use 1 to 65536")]
    Connections(usize),
    /// The number of threads is out of range.
    #[error("{threads} threads; use 1 to {most}: each has a connection at least")]
    Threads {
        /// As given.
        threads: usize,
        /// What there may be.
        most: usize,
    },
    /// Not one processor for each thread.
    #[error("threads: {threads}, processors: {processors}; name one processor for each thread")]
    Processors {
        /// As given.
        processors: usize,
        /// As given.
        threads: usize,
    },
    /// What does not go past the network stack.
    #[error(
        "past the network stack (AF_XDP) goes UDP, over one connection, on which many requests are under way \
         at once; write udp://HOST:PORT, and leave out --connections (here: {connections})"
    )]
    PastStack {
        /// As given.
        connections: usize,
    },
    /// The time-out is out of range.
    #[error("a time-out of {}; use more than zero and at most 60s", format(*.ns))]
    Timeout {
        /// As given, in nanoseconds.
        ns: u64,
    },
    /// A header is not `name: value`.
    #[error("header `{0}` is not `name: value`")]
    HeaderSyntax(String),
    /// A header that the generator writes itself.
    #[error("header `{0}` is written by the load generator itself; leave it out")]
    HeaderOwned(String),
    /// A header or a query that cannot be sent.
    #[error("{what} cannot be sent: {source}")]
    Unsendable {
        /// The header or the query.
        what: String,
        /// What is wrong with it.
        source: WriteError,
    },
    /// A profile of the rate is none.
    #[error("rate `{text}`: {why}")]
    Profile {
        /// As written.
        text: String,
        /// What to write instead.
        why: String,
    },
    /// Steps that are none.
    #[error("{count} steps of the rate; write 1 to {STEPS_MAX}, each for a time above zero")]
    Steps {
        /// How many there are.
        count: usize,
    },
    /// A precision out of range.
    #[error("a precision is above 0 % and below 100 %, of percentiles above 0 and below 100")]
    Precision,
    /// A ramp over a number of requests.
    #[error("a ramp takes a duration, not a number of requests")]
    RampNeedsDuration,
    /// Steps have a duration of their own.
    #[error("the steps of the rate take {} in all; leave the duration to them", format(*.ns))]
    StepsTake {
        /// Together, in nanoseconds.
        ns: u64,
    },
    /// A request that cannot be sent.
    #[error("request `{request}`: {why}")]
    Request {
        /// Its text, or the start of it.
        request: String,
        /// What is wrong with it, and what to write instead.
        why: String,
    },
    /// A value of [`Plan::protocol`](crate::Plan::protocol) that is out of range, or does not go with
    /// the target.
    #[error("{0}")]
    Protocol(String),
}

/// To three digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Why a file of queries cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum QueriesError {
    /// The file cannot be read, or is too long.
    #[error(transparent)]
    Text(#[from] curtail_dist::TextError),
    /// A line is not a request.
    #[error("{path}:{line}: {what}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong, and what to write instead.
        what: String,
    },
    /// There is no query in the file.
    #[error("{path}: no query; write one request per line")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Why a run did not take place.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The host has no address.
    #[error("cannot resolve {host}: {source}")]
    Resolve {
        /// The host.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// The run was given up before it began.
    #[error("interrupted while the host was being resolved")]
    Interrupted,
    /// The kernel gives no time stamps, or nothing goes past the network stack.
    #[error("--stamps: {0}")]
    Stamps(io::Error),
    /// A thread could not be started, or the system did not let it wait for sockets.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
