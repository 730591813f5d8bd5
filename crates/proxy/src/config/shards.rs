//! Resolves the shards of a service, their replicas, and how a request selects its shard.

use std::collections::BTreeMap;
use std::ops::Range;

use curtail_net::Address;

use super::model::{Key, Shard, ShardBy};
use super::report::Report;
use super::values::{Given, each};
use super::{address, check, raw};

/// Largest index of a path segment.
const SEGMENT_MAX: u32 = 255;

/// Returns the distinct addresses of a service, and its shards.
pub(super) fn resolve(
    raw: &raw::Service,
    at: &Range<usize>,
    report: &mut Report<'_>,
) -> (Vec<Address>, Vec<Shard>) {
    let tables = each(raw.shard.as_ref());
    if tables.is_empty() {
        let fix = "add a [[service.shard]] with name = \"0\" and replicas = [\"IP:PORT\"]";
        report.missing(at, "this service has no shard", fix);
    }
    let mut servers = Servers::default();
    let mut names = BTreeMap::new();
    let mut shards = Vec::new();
    for (raw, at) in tables {
        let name = check::name(report, "shard", raw.name.as_ref(), &at);
        if let Some(given) = &raw.name
            && names.insert(given.get().clone(), ()).is_some()
        {
            let wrong = "an earlier shard of this service has the same name";
            report.error(&given.span(), wrong, "give each shard its own name");
        }
        let replicas = replicas(raw, &at, &mut servers, report);
        shards.push(Shard { name, replicas });
    }
    (servers.list, shards)
}

#[derive(Default)]
struct Servers {
    list: Vec<Address>,
    /// The servers by address. `localhost` is the same server as its IP address.
    index: BTreeMap<Address, usize>,
}

impl Servers {
    fn add(&mut self, address: Address) -> usize {
        let socket = address::socket(&address);
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
        match address::replica(given.get()) {
            Err((wrong, fix)) => report.error(&given.span(), wrong, &fix),
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
    address::socket(address).is_some_and(|socket| socket.ip().to_canonical().is_unspecified())
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
    let mut named = keys(&by.header, &by.query, &by.path_segment, report);
    let mut hashed = by.hash.as_ref().map(|given| {
        let by = given.get();
        (given.span(), keys(&by.header, &by.query, &by.path_segment, report))
    });
    match (&*named, &mut hashed) {
        ([_], None) => return named.pop().map(ShardBy::Name),
        ([], Some((_, keys))) if keys.len() == 1 => return keys.pop().map(ShardBy::Hash),
        ([], Some((at, _))) => {
            let wrong = "hash needs exactly one key";
            report.error(at, wrong, "write { header = … }, { query = … } or { path_segment = … }");
        }
        (ways, hashed) => {
            let wrong = "shard_by needs exactly one of its keys";
            let fix = "write one of header, query, path_segment and hash = { … }";
            if ways.is_empty() && hashed.is_none() {
                report.missing(&given.span(), wrong, fix);
            } else {
                report.error(&given.span(), wrong, fix);
            }
        }
    }
    None
}

/// Returns the keys that are set.
pub(super) fn keys(
    header: &Option<Given<String>>,
    query: &Option<Given<String>>,
    segment: &Option<Given<u64>>,
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
    if segment.is_some() {
        let index = check::count(report, "path_segment", segment.as_ref(), 0..=SEGMENT_MAX, 0);
        keys.push(Key::PathSegment(index as usize));
    }
    keys
}
