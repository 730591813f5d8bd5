//! HTTP/2, gRPC and TLS through `curtail proxy`, with HAProxy as the control: two conformance
//! suites, the cost of a request, and request smuggling.

mod conformance;
mod costs;

use anyhow::Result;

use crate::lab::{Lab, Server};
use crate::line::Line;
use crate::proxies::Proxy;

pub(crate) const LINES: &[Line] = &[
    conformance::H2SPEC_1,
    conformance::INTEROP_2,
    costs::CPU_H2_3,
    costs::CPU_TLS_4,
    costs::STREAMS_6,
    costs::GRPC_STREAMS_10,
    costs::INSTRUCTIONS_11,
    conformance::SMUGGLING_5,
    costs::MEMORY_7,
    conformance::GRPC_8,
    costs::SLOW_READERS_9,
];

/// Values of the configurations, with which a proxy forwards HTTP/1.1 to HTTP/1.1.
const VALUES: [(&str, &str); 11] = [
    ("policy", "least-outstanding"),
    ("slots", "4096"),
    ("listen", r#"http = "127.0.0.1:{port}""#),
    ("protocol", ""),
    ("bind", ""),
    ("towards", ""),
    ("http2", ""),
    ("upstream", ""),
    ("action", r#"return 200 "ok\n";"#),
    ("upstream_protocol", "http_protocol_options"),
    ("tls", ""),
];

/// The value of `listen` for a proxy with TLS.
pub(crate) const LISTEN_TLS: &str = r#"
http = "127.0.0.1:0"
https = "127.0.0.1:{port}"
tls = { certificates = [{ cert = "{folder}/cert.pem", key = "{folder}/key.pem" }] }"#;

/// Starts a proxy in front of a server. nginx needs no server.
pub(crate) fn front(
    lab: &Lab<'_>,
    proxy: Proxy,
    pin: &str,
    servers: &[&Server],
    values: &[(&str, &str)],
) -> Result<Server> {
    proxy.start(lab, pin, "wire-", servers, &[values, &VALUES].concat())
}

/// Returns what was measured. If our proxy lacks a protocol, it does not start, and its figures are
/// `missing`.
fn lenient<T>(proxy: Proxy, measured: Result<T>, missing: T) -> Result<T> {
    match measured {
        Err(error) if proxy.name == "curtail" => {
            eprintln!("note: curtail: {error:#}");
            Ok(missing)
        }
        measured => measured,
    }
}

/// Makes a certificate in the folder of the line, and a file of it with its key.
pub(crate) fn certificate(lab: &Lab<'_>) -> Result<()> {
    let openssl = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
                   -subj /CN=localhost -keyout {folder}/key.pem -out {folder}/cert.pem";
    lab.run(openssl).quiet().output()?;
    let part = |name: &str| std::fs::read_to_string(lab.folder.join(name));
    Ok(std::fs::write(lab.folder.join("both.pem"), part("cert.pem")? + &part("key.pem")?)?)
}

/// Writes the description of the service that `@calls` offers, and returns its path.
pub(crate) fn calls_proto(lab: &Lab<'_>) -> Result<String> {
    let path = lab.folder.join("calls.proto");
    std::fs::write(&path, xtask::CALLS_PROTO)?;
    Ok(path.display().to_string())
}
