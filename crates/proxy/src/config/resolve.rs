//! Resolves [`raw::File`] to [`Config`]: the settings of the file as a whole.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;

use curtail_config::{Given, OrFalse, Report, clash, each, reaches};
use curtail_http::h1::{Limits, Timeouts};
use curtail_net::Address;

use super::model::{Config, Listen, Log, Route, Service};
use super::raw::{ADMIN, HTTP};
use super::{flow, notes, raw, service, shards, tls};

/// Resolves the file. The result is unusable if the report has errors.
pub(super) fn file(raw: &raw::File, report: &mut Report<'_>) -> Config {
    let listen = listen(raw.listen.as_ref().unwrap_or(&raw::Listen::default()), report);
    let log = raw.log.unwrap_or_default();
    let log = Log { format: log.format, level: log.level };
    let tables = each(raw.service.as_ref());
    if tables.is_empty() {
        let fix = "add a [[service]] with a name, slots and a [[service.shard]]";
        report.lacking("there is no service", fix);
    }
    let service = |(raw, at): &(&raw::Service, Range<usize>)| Service {
        request_id: listen.request_id,
        ..service::resolve(raw, at, report)
    };
    let services: Vec<Service> = tables.iter().map(service).collect();
    names(&tables, report);
    routes(&tables, &services, report);
    addresses(&tables, &services, &listen, report);
    let has_roles = tables.iter().any(|(raw, _)| raw.flow.is_some());
    let flow = flow::resolve(raw.flow.as_ref(), has_roles, report);
    let https = listen.https.as_ref().map(|(address, _)| *address);
    let taken: Vec<_> = std::iter::once(listen.http).chain(listen.admin).chain(https).collect();
    flow::services(&tables, &services, flow.is_some(), &taken, report);
    let notes = notes::of(&services);
    Config { listen, log, flow, services, warnings: Vec::new(), notes }
}

type Tables<'r> = [(&'r raw::Service, Range<usize>)];

fn listen(raw: &raw::Listen, report: &mut Report<'_>) -> Listen {
    let http = raw.http.as_ref().map_or(HTTP, |given| given.get().get());
    let admin = admin(raw, http, report);
    let https = tls::listener(raw, &[Some(http), admin], report);
    let limits = Limits {
        head_bytes: raw.max_header_bytes.get(),
        headers: raw.max_headers.get() as usize,
        // Each service has its own limit, which applies once a request is routed.
        body_bytes: usize::MAX,
        ..Limits::default()
    };
    let timeouts = Timeouts {
        idle: raw.idle_timeout.get(),
        head: raw.header_timeout.get(),
        body: raw.body_timeout.get(),
        write: raw.write_timeout.get(),
        ..Timeouts::default()
    };
    let http_span = raw.http.as_ref().map(Given::span);
    let https_span = raw.https.as_ref().map(Given::span);
    let spans = [http_span, raw.admin.as_ref().map(Given::span), https_span];
    let processors = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    Listen {
        http,
        https,
        unix: unix(raw, report),
        proxy_protocol: raw.proxy_protocol,
        request_id: raw.request_id,
        normalize_path: raw.normalize_path,
        admin,
        places: spans.map(|span| span.map(|span| report.place(&span))),
        max_connections: raw.max_connections.get() as usize,
        workers: raw.workers.map_or_else(processors, |given| given.get() as usize),
        max_buffered: raw.max_buffered.get(),
        limits,
        timeouts,
        // Zero is valid: In this case, the proxy does not wait for running requests after SIGTERM.
        drain: raw.drain.get(),
    }
}

fn unix(raw: &raw::Listen, report: &mut Report<'_>) -> Option<PathBuf> {
    let given = raw.unix.as_ref()?;
    match Address::parse(&format!("unix:{}", given.get())) {
        Ok(Address::Unix(path)) if path.is_absolute() => Some(path),
        _ => {
            let fix = "write an absolute path of at most 107 bytes, like \"/run/curtail.sock\"";
            report.error(&given.span(), "unix is not the path of a socket", fix);
            None
        }
    }
}

fn admin(raw: &raw::Listen, http: SocketAddr, report: &mut Report<'_>) -> Option<SocketAddr> {
    let fix = "give them different ports, or write admin = false";
    let Some(given) = &raw.admin else {
        if let Some(given) = raw.http.as_ref().filter(|_| clash(ADMIN, http)) {
            let wrong = format!("admin already listens on this address (its default is {ADMIN})");
            report.error(&given.span(), &wrong, fix);
        }
        return Some(ADMIN);
    };
    let OrFalse::On(socket) = given.get() else { return None };
    let address = socket.get();
    if clash(address, http) {
        report.error(&given.span(), "http already listens on this address", fix);
    }
    if !address.ip().is_loopback() {
        let wrong = "admin is not on loopback: any client that reaches it can read the status and \
                     the metrics";
        report.warn(&given.span(), wrong, "write 127.0.0.1:PORT, or protect this address");
    }
    Some(address)
}

fn names(tables: &Tables<'_>, report: &mut Report<'_>) {
    let mut seen = BTreeMap::new();
    for (raw, _) in tables {
        let Some(given) = &raw.name else { continue };
        if seen.insert(given.get(), ()).is_some() {
            let wrong = "an earlier service has the same name";
            report.error(&given.span(), wrong, "give each service its own name");
        }
    }
}

/// Checks that no two routes match the same requests.
fn routes(tables: &Tables<'_>, services: &[Service], report: &mut Report<'_>) {
    let mut owner: BTreeMap<(Option<usize>, &str, Option<&str>), &str> = BTreeMap::new();
    for (number, ((raw, at), service)) in tables.iter().zip(services).enumerate() {
        // A service with its own address shares requests with no other service.
        let own = service.listen.map(|_| number);
        let spans = each(raw.route.as_ref());
        for (index, Route { path_prefix, method, .. }) in service.routes.iter().enumerate() {
            let key = (own, path_prefix.as_str(), method.as_deref());
            let Some(other) = owner.insert(key, &service.name) else { continue };
            let at = spans.get(index).map_or(at, |(_, span)| span);
            let methods = method.as_deref().unwrap_or("every method");
            let wrong = format!(
                "service {other:?} already has this route (path_prefix {:?}, {methods})",
                shown(path_prefix)
            );
            report.error(at, &wrong, "give each route its own path_prefix or method");
        }
    }
}

/// Returns a prefix as it is written in the file.
fn shown(prefix: &str) -> &str {
    if prefix.is_empty() { "/" } else { prefix }
}

/// Reports servers that are the proxy itself, and servers that belong to two services.
fn addresses(tables: &Tables<'_>, services: &[Service], listen: &Listen, report: &mut Report<'_>) {
    let mut owner: BTreeMap<&Address, usize> = BTreeMap::new();
    let own = services.iter().filter_map(|service| service.listen);
    let https = listen.https.as_ref().map(|(address, _)| *address);
    let ours = std::iter::once(listen.http).chain(listen.admin).chain(https).chain(own);
    let ours: Vec<_> = ours.collect();
    for (index, ((raw, at), service)) in tables.iter().zip(services).enumerate() {
        for server in &service.servers {
            let socket = shards::socket(server);
            if socket.is_some_and(|to| ours.iter().any(|&ours| reaches(to, ours))) {
                let at = replica_span(raw, server).unwrap_or_else(|| at.clone());
                let fix = "name the address of a replica";
                report.error(&at, "the proxy itself listens on this address", fix);
            }
            let known = |address: &Address| owner.get(address).copied();
            let other = known(server).or_else(|| shards::aliases(server).find_map(|at| known(&at)));
            owner.entry(server).or_insert(index);
            if let Some(other) = other.filter(|&other| other != index) {
                let at = replica_span(raw, server).unwrap_or_else(|| at.clone());
                let wrong = format!(
                    "service {:?} has this replica too, and neither counts the copies of the other",
                    services[other].name
                );
                report.warn(&at, &wrong, "put both into one service, as routes or shards");
            }
        }
    }
}

/// Returns the first place where a service lists a server.
fn replica_span(raw: &raw::Service, server: &Address) -> Option<Range<usize>> {
    let shards = each(raw.shard.as_ref()).into_iter();
    let mut replicas = shards.filter_map(|(shard, _)| shard.replicas.as_ref()).flat_map(Given::get);
    replicas.find(|given| shards::replica(given.get()).as_ref() == Ok(server)).map(Given::span)
}
