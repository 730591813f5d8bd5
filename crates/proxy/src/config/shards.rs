//! Resolves the shards of a service, their replicas, and how a request selects its shard.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

use curtail_config::{Given, Report, Socket, SocketError, each};
use curtail_net::Address;

use super::model::{Key, Shard, ShardBy};
use super::{check, raw};

/// The shards of a service, and the distinct addresses of their replicas.
pub(super) struct Resolved {
    pub(super) servers: Vec<Address>,
    pub(super) shards: Vec<Shard>,
}

/// Resolves the shards of a service.
pub(super) fn resolve(raw: &raw::Service, at: &Range<usize>, report: &mut Report<'_>) -> Resolved {
    let tables = each(raw.shard.as_ref());
    if tables.is_empty() {
        let fix = "add a [[service.shard]] with name = \"0\" and replicas = [\"IP:PORT\"]";
        report.missing(at, "this service has no shard", fix);
    }
    let mut servers = Servers::default();
    let mut names = BTreeSet::new();
    let mut shards = Vec::new();
    for (raw, at) in tables {
        let name = check::name(report, "shard", raw.name.as_ref(), &at);
        if let Some(given) = &raw.name
            && !names.insert(given.get())
        {
            let wrong = "an earlier shard of this service has the same name";
            report.error(&given.span(), wrong, "give each shard its own name");
        }
        let replicas = replicas(raw, &at, &mut servers, report);
        shards.push(Shard { name, replicas });
    }
    Resolved { servers: servers.list, shards }
}

#[derive(Default)]
struct Servers {
    list: Vec<Address>,
    /// The servers by address. `localhost` is the same server as its IP address.
    index: BTreeMap<Address, usize>,
}

impl Servers {
    fn add(&mut self, address: Address) -> usize {
        let socket = socket(&address);
        let key = socket.map_or_else(
            || address.clone(),
            |socket| Address::Tcp { host: socket.ip().to_string(), port: socket.port() },
        );
        *self.index.entry(key).or_insert_with(|| {
            self.list.push(address);
            self.list.len() - 1
        })
    }
}

fn replicas(
    raw: &raw::Shard,
    at: &Range<usize>,
    servers: &mut Servers,
    report: &mut Report<'_>,
) -> Vec<usize> {
    let fix = "add replicas = [\"IP:PORT\", \"IP:PORT\"]";
    let Some(given) = &raw.replicas else {
        report.missing(at, "this shard has no replicas", fix);
        return Vec::new();
    };
    if given.get().is_empty() {
        // Wrong entries have already been reported and removed from the list. If the list has
        // become empty, that is not reported as another error, because an empty list counts as a
        // missing key.
        report.missing(&given.span(), "this shard has no replicas", fix);
    }
    let mut indices = Vec::new();
    for given in given.get() {
        match replica(given.get()) {
            Err(SocketError { wrong, fix }) => report.error(&given.span(), wrong, &fix),
            Ok(address) if is_wildcard(&address) => {
                let wrong = "is a wildcard address, which only a listener can have";
                let fix = "write the replica's own address, like \"127.0.0.1:9001\"";
                report.error(&given.span(), wrong, fix);
            }
            Ok(Address::Tcp { port: 0, .. }) => {
                report.error(&given.span(), "has port 0", "write the port that it listens on");
            }
            Ok(address) => {
                let index = servers.add(address);
                if indices.contains(&index) {
                    let wrong = "is listed twice in this shard";
                    report.error(&given.span(), wrong, "list each replica once");
                } else {
                    indices.push(index);
                }
            }
        }
    }
    indices
}

fn is_wildcard(address: &Address) -> bool {
    socket(address).is_some_and(|socket| socket.ip().to_canonical().is_unspecified())
}

/// Parses the address of a replica: `IP:PORT`, `NAME:PORT` or `unix:PATH`.
pub(super) fn replica(text: &str) -> Result<Address, SocketError> {
    match Address::parse(text) {
        Ok(Address::Tcp { host, port }) => {
            // Two spellings of an IP address are the same server.
            let ip = host.parse::<IpAddr>().map(|ip| ip.to_string());
            Ok(Address::Tcp { host: ip.unwrap_or(host), port })
        }
        Ok(unix) => Ok(unix),
        Err(error) => Err(match text.parse::<Socket>() {
            Err(error) if !text.starts_with("unix:") => error,
            _ => SocketError { wrong: "is not an address", fix: error.to_string() },
        }),
    }
}

/// Returns the socket address, if it does not depend on a resolver.
pub(super) fn socket(address: &Address) -> Option<SocketAddr> {
    let Address::Tcp { host, port } = address else { return None };
    if host == "localhost" {
        return Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), *port));
    }
    host.parse().ok().map(|ip| SocketAddr::new(ip, *port))
}

/// Returns the other addresses that may be the same server. The system decides which of them
/// `localhost` is.
pub(super) fn aliases(address: &Address) -> impl Iterator<Item = Address> {
    let others: &[&str] = match address.host() {
        Some("localhost") => &["127.0.0.1", "::1"],
        Some("127.0.0.1" | "::1") => &["localhost"],
        _ => &[],
    };
    let port = if let Address::Tcp { port, .. } = address { *port } else { 0 };
    others.iter().map(move |&host| Address::Tcp { host: host.to_owned(), port })
}

/// Resolves how requests select their shard.
pub(super) fn shard_by(
    raw: &raw::Service,
    shards: usize,
    at: &Range<usize>,
    report: &mut Report<'_>,
) -> Option<ShardBy> {
    let Some(given) = &raw.shard_by else {
        if shards > 1 {
            let wrong = format!("this service has {shards} shards, but no shard_by to choose one");
            let fix = "add shard_by = { header = \"x-shard\" }, or query, path_segment or hash";
            report.missing(at, &wrong, fix);
        }
        return None;
    };
    let by = given.get();
    let mut named = keys(&by.header, &by.query, by.path_segment, report);
    match (&*named, &by.hash) {
        ([_], None) => named.pop().map(ShardBy::Name),
        ([], Some(hash)) => key_of("hash", hash, report).map(ShardBy::Hash),
        (ways, hash) => {
            let wrong = "shard_by needs exactly one of its keys";
            let fix = "write one of header, query, path_segment and hash = { … }";
            if ways.is_empty() && hash.is_none() {
                report.missing(&given.span(), wrong, fix);
            } else {
                report.error(&given.span(), wrong, fix);
            }
            None
        }
    }
}

/// Resolves the part of a request that contains a key. `name` is the key of the table.
pub(super) fn key_of(
    name: &str,
    given: &Given<raw::KeyOf>,
    report: &mut Report<'_>,
) -> Option<Key> {
    let raw::KeyOf { header, query, path_segment } = given.get();
    let mut keys = keys(header, query, *path_segment, report);
    let wrong = format!("{name} needs exactly one key");
    let fix = "write { header = … }, { query = … } or { path_segment = … }";
    match keys.len() {
        0 => report.missing(&given.span(), &wrong, fix),
        1 => {}
        _ => report.error(&given.span(), &wrong, fix),
    }
    keys.pop()
}

/// Returns the keys that are set.
fn keys(
    header: &Option<Given<String>>,
    query: &Option<Given<String>>,
    segment: Option<raw::Segment>,
    report: &mut Report<'_>,
) -> Vec<Key> {
    let mut keys = Vec::new();
    if let Some(given) = header {
        keys.push(Key::Header(check::header(report, given, "x-shard")));
    }
    if let Some(given) = query {
        if given.get().is_empty() {
            let fix = "name the query parameter, like \"shard\"";
            report.error(&given.span(), "is not a valid query parameter", fix);
        }
        keys.push(Key::Query(given.get().clone()));
    }
    keys.extend(segment.map(|index| Key::PathSegment(index.get() as usize)));
    keys
}
