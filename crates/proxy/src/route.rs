//! Routes a request to a service and a shard.
//!
//! # Service
//!
//! The longest `path_prefix` wins. A prefix consists of whole segments of the path: `/a` is a
//! prefix of `/a`, `/a/b` and `/a?x`, but not of `/ab`. If two routes have the same prefix, the one
//! with a method wins. If no route for a prefix accepts the method, the next shorter prefix is
//! tried. Paths are compared byte by byte as the client sent them, neither decoded nor normalized. With
//! `listen.normalize_path`, dot segments are removed first.
//!
//! # Shard
//!
//! The key is the value of a header, the value of a query parameter, or a segment of the path.
//! Parameters and segments are percent-decoded, but a `+` is not converted to a space. A repeated
//! header or parameter must repeat its value, because a replica might use a different occurrence
//! than the proxy does. The key is the name of the shard, or is mapped to a shard by *rendezvous
//! hashing*. The shard with the largest weight wins:
//!
//! ```text
//! weight(shard, key) = XXH64(input: XXH64(input: key, seed: 0) as 8 bytes, little endian,
//!                            seed:  XXH64(input: name of the shard, seed: 0))
//! ```
//!
//! If weights are equal, the name that sorts first wins. The order of the shards does not matter.
//! If a shard is added or removed, only the keys of that shard move.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use curtail_http::h1::RequestHead;
use curtail_runtime::http::Commit;
use percent_encoding::percent_decode_str;
use xxhash_rust::xxh64::xxh64;

use crate::config::{self, Config, Key, Service, ShardBy};
use crate::cost::Cost;
use crate::normalize::normalize;

/// The destination of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Index into [`Config::services`].
    pub(crate) service: usize,
    /// Index into [`Service::shards`].
    pub(crate) shard: usize,
    /// Whether the request may be retried after a failure, and may run on two replicas at the same
    /// time.
    pub(crate) idempotent: bool,
    /// When a copy wins.
    pub(crate) commit: Commit,
    /// Whether connections may switch to another protocol.
    pub(crate) tunnel: bool,
    /// Expected cost, if the request does not declare it.
    pub(crate) cost: Option<Cost>,
    /// Whether the path has dot segments, which were removed before it was routed.
    has_dots: bool,
}

impl Target {
    /// Returns the path and the query by which the request was routed.
    pub(crate) fn path_and_query<'h>(&self, head: &'h RequestHead) -> Cow<'h, str> {
        let sent = head.path_and_query();
        let normal = if self.has_dots { normalize(sent).ok() } else { None };
        normal.unwrap_or(Cow::Borrowed(sent))
    }
}

/// The reason why a request has no destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NoTarget {
    /// No service accepts this path and method (status 404).
    Service,
    /// The shard key is missing or empty (status 400).
    MissingKey,
    /// The shard key is given more than once, with different values (status 400).
    AmbiguousKey,
    /// No shard has the name given by the key (status 404).
    UnknownShard,
    /// The path climbs above the root (status 400).
    AboveRoot,
}

/// The error for a request without a destination. It is cheap to create, because the text is
/// shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteError {
    pub(crate) why: NoTarget,
    /// A description of the key that selects the shard.
    key: Arc<str>,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, key } = self;
        match why {
            NoTarget::Service => write!(f, "no service has a route for this path and method"),
            NoTarget::MissingKey => write!(f, "{key} is missing: it selects the shard"),
            NoTarget::AmbiguousKey => {
                write!(f, "{key} occurs more than once, with different values")
            }
            NoTarget::UnknownShard => write!(f, "{key} names a shard that does not exist"),
            NoTarget::AboveRoot => write!(f, "the path climbs above the root"),
        }
    }
}

impl RouteError {
    /// Returns the status of the response.
    pub(crate) fn status(&self) -> u16 {
        match self.why {
            NoTarget::Service | NoTarget::UnknownShard => 404,
            NoTarget::MissingKey | NoTarget::AmbiguousKey | NoTarget::AboveRoot => 400,
        }
    }
}

/// The routes and shards of a configuration, prepared for lookups.
#[derive(Debug)]
pub(crate) struct Router {
    /// The routes for each prefix. Prefixes have no trailing slash here.
    routes: BTreeMap<Box<str>, Vec<Entry>>,
    /// Maximum number of segments in a prefix.
    depth: usize,
    services: Vec<Chooser>,
    /// Whether dot segments are removed.
    normalizes: bool,
    /// The empty description, for requests without a service.
    nowhere: Arc<str>,
}

/// A route to a service.
#[derive(Debug)]
struct Entry {
    method: Option<Box<str>>,
    service: usize,
    idempotent: Option<bool>,
    commit: Commit,
    tunnel: bool,
    cost: Option<Cost>,
}

/// Selects the shard of a service.
#[derive(Debug)]
struct Chooser {
    idempotent_methods: Vec<String>,
    /// `None` only if there is a single shard.
    by: Option<By>,
    /// A description of the key in `by`.
    key: Arc<str>,
}

#[derive(Debug)]
enum By {
    /// The name and the index of each shard, sorted by name.
    Name(Key, Vec<(Box<[u8]>, usize)>),
    /// The hash of the name and the index of each shard, sorted by name.
    Hash(Key, Vec<(u64, usize)>),
}

impl Router {
    /// Builds the router for `listen.http`.
    pub(crate) fn new(config: &Config) -> Self {
        Self::taking(config, |_, spec| spec.listen.is_none())
    }

    /// Builds the router for a service that has its own address.
    pub(crate) fn of_service(config: &Config, service: usize) -> Self {
        Self::taking(config, |at, _| at == service)
    }

    fn taking(config: &Config, takes: impl Fn(usize, &Service) -> bool) -> Self {
        let mut routes: BTreeMap<Box<str>, Vec<Entry>> = BTreeMap::new();
        let services = config.services.iter().enumerate();
        for (service, spec) in services.filter(|&(at, spec)| takes(at, spec)) {
            for route in &spec.routes {
                let method = route.method.as_deref().map(Box::from);
                let &config::Route { idempotent, commit, tunnel, cost, .. } = route;
                let entry = Entry { method, service, idempotent, commit, tunnel, cost };
                routes.entry(route.path_prefix.as_str().into()).or_default().push(entry);
            }
        }
        for entries in routes.values_mut() {
            // Entries with a method come first.
            entries.sort_by_key(|entry| entry.method.is_none());
        }
        let slashes = |prefix: &str| prefix.bytes().filter(|&byte| byte == b'/').count();
        let depth = routes.keys().map(|prefix| slashes(prefix)).max().unwrap_or(0);
        let services = config.services.iter().map(Chooser::new).collect();
        let normalizes = config.listen.normalize_path;
        Self { routes, depth, services, normalizes, nowhere: "".into() }
    }

    /// Finds the destination of a request. `path_and_query` begins with a slash, and `header`
    /// returns the values of a header, given its name in lower case.
    ///
    /// Allocates only to decode a key that is percent-encoded, and to remove dot segments.
    pub(crate) fn route<'r, 'h, V: IntoIterator<Item = &'h [u8]>>(
        &'r self,
        method: &str,
        path_and_query: &str,
        header: impl FnOnce(&'r str) -> V,
    ) -> Result<Target, RouteError> {
        let nowhere = |why| RouteError { why, key: Arc::clone(&self.nowhere) };
        let normal = if self.normalizes {
            normalize(path_and_query).map_err(|_| nowhere(NoTarget::AboveRoot))?
        } else {
            Cow::Borrowed(path_and_query)
        };
        let (path, query) = normal.split_once('?').unwrap_or((&normal, ""));
        let entry = self.entry(method, path).ok_or_else(|| nowhere(NoTarget::Service))?;
        let chooser = &self.services[entry.service];
        let shard = chooser
            .shard(path, query, header)
            .map_err(|why| RouteError { why, key: Arc::clone(&chooser.key) })?;
        let idempotent = entry.idempotent.unwrap_or_else(|| {
            chooser.idempotent_methods.iter().any(|idempotent| idempotent == method)
        });
        let &Entry { service, commit, tunnel, cost, .. } = entry;
        let has_dots = matches!(normal, Cow::Owned(_));
        Ok(Target { service, shard, idempotent, commit, tunnel, cost, has_dots })
    }

    fn entry(&self, method: &str, path: &str) -> Option<&Entry> {
        // `OPTIONS *` applies to the whole server, so it goes to a service that accepts all paths.
        let whole = path == "*" && method == "OPTIONS";
        if !path.starts_with('/') && !whole {
            return None;
        }
        // Starts with the number of segments of the longest prefix, so that a client cannot prolong
        // this search by sending many slashes.
        let mut cuts = path.bytes().enumerate().filter(|&(_, byte)| byte == b'/').skip(1);
        let deeper = self.depth.checked_sub(1).and_then(|more| cuts.nth(more));
        let mut prefix = match deeper {
            Some((end, _)) => &path[..end],
            None if self.depth == 0 || whole => "",
            None => path,
        };
        loop {
            let entries = self.routes.get(prefix).into_iter().flatten();
            let mut taking = entries.filter(|entry| match &entry.method {
                Some(only) => **only == *method,
                None => true,
            });
            if let Some(entry) = taking.next() {
                return Some(entry);
            }
            prefix = &prefix[..prefix.rfind('/')?];
        }
    }
}

impl Chooser {
    fn new(service: &Service) -> Self {
        let by = service.shard_by.as_ref();
        let description =
            by.map_or_else(String::new, |(ShardBy::Name(key) | ShardBy::Hash(key))| match key {
                Key::Header(name) => format!("the header {name}"),
                Key::Query(name) => format!("the query parameter {name}"),
                Key::PathSegment(at) => format!("segment {at} of the path"),
            });
        let mut names: Vec<_> = service
            .shards
            .iter()
            .enumerate()
            .map(|(at, shard)| (shard.name.as_bytes(), at))
            .collect();
        names.sort_unstable();
        let by = by.map(|by| match by {
            ShardBy::Name(key) => {
                let boxed = names.iter().map(|&(name, at)| (Box::from(name), at));
                By::Name(key.clone(), boxed.collect())
            }
            ShardBy::Hash(key) => {
                let hashed = names.iter().map(|&(name, at)| (xxh64(name, 0), at));
                By::Hash(key.clone(), hashed.collect())
            }
        });
        Self { idempotent_methods: service.idempotent_methods.clone(), by, key: description.into() }
    }

    fn shard<'r, 'h, V: IntoIterator<Item = &'h [u8]>>(
        &'r self,
        path: &str,
        query: &str,
        header: impl FnOnce(&'r str) -> V,
    ) -> Result<usize, NoTarget> {
        let Some(by) = &self.by else { return Ok(0) };
        let (By::Name(key, _) | By::Hash(key, _)) = by;
        let value = value(key, path, query, header)?.ok_or(NoTarget::MissingKey)?;
        match by {
            By::Name(_, shards) => shards
                .binary_search_by(|(name, _)| (**name).cmp(&*value))
                .map(|at| shards[at].1)
                .map_err(|_| NoTarget::UnknownShard),
            By::Hash(_, shards) => rendezvous(shards, &value).ok_or(NoTarget::UnknownShard),
        }
    }
}

/// Returns the value of a key, unless it is empty.
pub(crate) fn value<'r, 'v, 'h: 'v, V: IntoIterator<Item = &'h [u8]>>(
    key: &'r Key,
    path: &'v str,
    query: &'v str,
    header: impl FnOnce(&'r str) -> V,
) -> Result<Option<Cow<'v, [u8]>>, NoTarget> {
    let value: Option<Cow<'v, [u8]>> = match key {
        Key::Header(name) => only(header(name).into_iter().map(Cow::Borrowed))?,
        Key::Query(name) => only(parameters(query, name))?,
        Key::PathSegment(at) => path.split('/').skip(1).nth(*at).map(decode),
    };
    Ok(value.filter(|value| !value.is_empty()))
}

fn decode(text: &str) -> Cow<'_, [u8]> {
    percent_decode_str(text).into()
}

/// Returns the values of a query parameter. Names are decoded before they are compared.
fn parameters<'q>(query: &'q str, name: &str) -> impl Iterator<Item = Cow<'q, [u8]>> {
    query.split('&').filter_map(move |pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        percent_decode_str(key).eq(name.bytes()).then(|| decode(value))
    })
}

/// Returns the value, which may be repeated. Fails if the values differ.
fn only<'v>(
    mut values: impl Iterator<Item = Cow<'v, [u8]>>,
) -> Result<Option<Cow<'v, [u8]>>, NoTarget> {
    let first = values.next();
    if values.any(|other| Some(&other) != first.as_ref()) {
        return Err(NoTarget::AmbiguousKey);
    }
    Ok(first)
}

/// Returns the shard of a key by rendezvous hashing. See the documentation of the module. `shards`
/// is sorted by name.
fn rendezvous(shards: &[(u64, usize)], key: &[u8]) -> Option<usize> {
    // The key is hashed only once, so that a long key costs no more with many shards.
    let key = xxh64(key, 0).to_le_bytes();
    let weighed = shards.iter().map(|&(name, shard)| (xxh64(&key, name), shard));
    // If weights are equal, `max_by_key` would return the last shard.
    weighed.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, shard)| shard)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a router for services with these additional configuration lines. Each service has
    /// two shards, `0` and `b c`.
    fn router(services: &[&str]) -> Router {
        let mut text = String::new();
        for (at, lines) in services.iter().enumerate() {
            text += &format!(
                "[[service]]\nname = \"{at}\"\npolicy = \"random\"\n{lines}\n\
                 [[service.shard]]\nname = \"0\"\nreplicas = [\"127.0.0.1:90{at}1\"]\n\
                 [[service.shard]]\nname = \"b c\"\nreplicas = [\"127.0.0.1:90{at}2\"]\n"
            );
        }
        Router::new(&crate::config::parse("test", &text).expect("a configuration"))
    }

    fn none(_: &str) -> Option<&'static [u8]> {
        None
    }

    #[test]
    fn the_longest_prefix_of_whole_segments_wins() {
        let by = "shard_by = { query = \"s\" }";
        let router = router(&[
            &format!("{by}\nroute = {{ path_prefix = \"/a\" }}"),
            &format!("{by}\nroute = {{ path_prefix = \"/a/b/\" }}"),
            &format!(
                "{by}\nroute = [{{ path_prefix = \"/a\", method = \"POST\" }}, {{ path_prefix = \"/a/b/c\", method = \"PUT\" }}]"
            ),
            &format!("{by}\nroute = {{ path_prefix = \"/long/way/to/go\" }}"),
        ]);
        for (method, target, service) in [
            ("GET", "/a?s=0", Some(0)),
            ("GET", "/a/?s=0", Some(0)),
            ("GET", "/a/x?s=0", Some(0)),
            ("GET", "/a//b?s=0", Some(0)),
            ("GET", "/a/b?s=0", Some(1)),
            ("GET", "/a/b/c/d/e/f/g?s=0", Some(1)),
            ("PUT", "/a/b/c?s=0", Some(2)),
            ("POST", "/a/b/c?s=0", Some(1)),
            ("POST", "/a/x?s=0", Some(2)),
            ("GET", "/long/way/to/go?s=0", Some(3)),
            ("GET", "/long/way/to/go/on/and/on?s=0", Some(3)),
            ("GET", "/long/way/to?s=0", None),
            ("GET", "/ab?s=0", None),
            ("GET", "/a%2Fb?s=0", None),
            ("GET", "/?s=0", None),
            ("GET", "/b?s=/a", None),
            ("OPTIONS", "*", None),
            ("GET", "*", None),
            ("GET", "", None),
        ] {
            let found = router.route(method, target, none);
            assert_eq!(found.as_ref().ok().map(|at| at.service), service, "{method} {target}");
            if let Err(error) = found {
                assert_eq!((error.status(), error.why), (404, NoTarget::Service));
                assert_eq!(error.to_string(), "no service has a route for this path and method");
            }
        }
    }

    #[test]
    fn options_star_goes_to_a_service_that_takes_all_paths() {
        let service = |lines: &[&str], method| {
            let found = router(lines).route(method, "*", |_| Some(&b"0"[..]));
            found.ok().map(|target| target.service)
        };
        let by = "shard_by = { header = \"s\" }\nroute = ";
        let [all, deep] = ["/", "/a/b"].map(|path| format!("{by}{{ path_prefix = \"{path}\" }}"));
        assert_eq!(service(&[&deep, &all], "OPTIONS"), Some(1));
        assert_eq!(service(&[&all], "GET"), None);
        assert_eq!(service(&[&deep], "OPTIONS"), None);
        let options = format!("{by}{{ path_prefix = \"/\", method = \"OPTIONS\" }}");
        let get = format!("{by}{{ path_prefix = \"/\", method = \"GET\" }}");
        assert_eq!(service(&[&get, &options], "OPTIONS"), Some(1));
    }

    #[test]
    fn the_key_names_the_shard() {
        let header = router(&["shard_by = { header = \"X-Shard\" }"]);
        let query = router(&["shard_by = { query = \"k k\" }"]);
        let segment = router(&["shard_by = { path_segment = 1 }"]);
        for (router, target, value, shard) in [
            (&header, "/", Some("0"), Ok(0)),
            (&header, "/", Some("b c"), Ok(1)),
            (&header, "/", Some("1"), Err(404)),
            (&header, "/", Some(""), Err(400)),
            (&header, "/", None, Err(400)),
            (&query, "/?a=1&k%20k=b%20c&k=0", None, Ok(1)),
            (&query, "/?k k=0", None, Ok(0)),
            (&query, "/?k%20k=b+c", None, Err(404)),
            (&query, "/?k%20k=%ff%zz", None, Err(404)),
            (&query, "/?k%20k", None, Err(400)),
            (&query, "/?kk=0", None, Err(400)),
            (&query, "/", None, Err(400)),
            (&segment, "/0/b%20c?x", None, Ok(1)),
            (&segment, "/x/0/y", None, Ok(0)),
            (&segment, "/0", None, Err(400)),
            (&segment, "/0/", None, Err(400)),
            (&segment, "/0/0x", None, Err(404)),
        ] {
            let lookup = |name: &str| {
                assert_eq!(name, "x-shard");
                value.map(str::as_bytes)
            };
            let found = router.route("GET", target, lookup);
            let found = found.map(|target| target.shard).map_err(|error| error.status());
            assert_eq!(found, shard, "{target} {value:?}");
        }
    }

    #[test]
    fn a_key_that_is_repeated_must_repeat_its_value() {
        let header = router(&["shard_by = { header = \"s\" }"]);
        let hash = router(&["shard_by = { hash = { header = \"s\" } }"]);
        let query = router(&["shard_by = { query = \"s\" }"]);
        for (values, found) in [
            (&["0", "0", "0"][..], Ok(0)),
            (&["0", "b c"], Err(NoTarget::AmbiguousKey)),
            (&["", "0"], Err(NoTarget::AmbiguousKey)),
            (&["0", "0", ""], Err(NoTarget::AmbiguousKey)),
            (&["", ""], Err(NoTarget::MissingKey)),
        ] {
            let lookup = |_: &str| values.iter().map(|value| value.as_bytes());
            let by_header = header.route("GET", "/", lookup);
            let pairs: Vec<_> = values.iter().map(|value| format!("%73={value}&t")).collect();
            let by_query = query.route("GET", &format!("/?{}", pairs.join("&")), none);
            for target in [by_header, by_query] {
                let target = target.map(|target| target.shard).map_err(|error| error.why);
                assert_eq!(target, found, "{values:?}");
            }
            let hashed = hash.route("GET", "/", lookup).map(|_| 0).map_err(|error| error.why);
            assert_eq!(hashed, found, "{values:?}");
        }
    }

    #[test]
    fn errors_name_the_key_on_one_line() {
        for (by, target, text) in [
            ("{ header = \"X-Shard\" }", "/", "the header x-shard is missing"),
            (
                "{ query = \"s\" }",
                "/?s=9",
                "the query parameter s names a shard that does not exist",
            ),
            ("{ query = \"s\" }", "/?s=0&s=1", "the query parameter s occurs more than once"),
            ("{ path_segment = 2 }", "/", "segment 2 of the path is missing"),
            ("{ hash = { header = \"k\" } }", "/", "the header k is missing"),
        ] {
            let router = router(&[&format!("shard_by = {by}")]);
            let error = router.route("GET", target, none).expect_err(by);
            let message = error.to_string();
            assert!(message.starts_with(text) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn idempotent_methods_and_routes_may_be_repeated() {
        let router =
            router(&["shard_by = { query = \"s\" }\nidempotent_methods = [\"GET\"]\nroute = [\
             { path_prefix = \"/\" }, { path_prefix = \"/yes\", idempotent = true }, \
             { path_prefix = \"/no\", idempotent = false }, \
             { path_prefix = \"/some\", method = \"POST\", idempotent = true }]"]);
        for (method, target, may) in [
            ("GET", "/?s=0", true),
            ("HEAD", "/?s=0", false),
            ("get", "/?s=0", false),
            ("POST", "/x?s=0", false),
            ("POST", "/yes?s=0", true),
            ("GET", "/no?s=0", false),
            ("POST", "/some?s=0", true),
            ("PUT", "/some?s=0", false),
        ] {
            let found = router.route(method, target, none).expect(target);
            assert_eq!(found.idempotent, may, "{method} {target}");
        }
    }

    /// Returns a router that hashes keys to shards with these names.
    fn hashing(names: &[&str]) -> Router {
        let mut text = String::from(
            "[[service]]\nname = \"a\"\npolicy = \"random\"\nshard_by = { hash = { header = \"k\" } }\n",
        );
        for (at, name) in names.iter().enumerate() {
            let replica = format!("\"127.0.0.1:{}\"", 9000 + at);
            text += &format!("[[service.shard]]\nname = {name:?}\nreplicas = [{replica}]\n");
        }
        Router::new(&crate::config::parse("test", &text).expect("a configuration"))
    }

    fn shards_of<'n>(names: &[&'n str]) -> Vec<&'n str> {
        let router = hashing(names);
        let keys = (0..4000).map(|key| key.to_string());
        keys.map(|key| {
            let found = router.route("GET", "/", |_| Some(key.as_bytes())).expect("a shard");
            names[found.shard]
        })
        .collect()
    }

    #[test]
    fn hashing_spreads_keys_and_moves_as_few_as_it_can() {
        let before = shards_of(&["a", "b", "c", "d"]);
        for name in ["a", "b", "c", "d"] {
            let share = before.iter().filter(|&&at| at == name).count();
            assert!((850..1150).contains(&share), "{name} has {share} of 4000");
        }
        assert_eq!(before, shards_of(&["c", "a", "d", "b"]), "the order does not matter");
        for (before, after) in before.iter().zip(shards_of(&["a", "b", "c", "d", "e"])) {
            assert!(after == *before || after == "e", "only the new shard takes keys");
        }
        for (before, after) in before.iter().zip(shards_of(&["a", "b", "d"])) {
            assert!(after == *before || *before == "c", "only the lost shard gives keys");
        }
    }

    #[test]
    fn the_hash_is_the_documented_one_and_stays() {
        // A reference vector for XXH64: other programs must be able to compute the shard of a key.
        assert_eq!(xxh64(b"", 0), 0xef46_db37_51d8_e999);
        let weight =
            |name: &str, key: &[u8]| xxh64(&xxh64(key, 0).to_le_bytes(), xxh64(name.as_bytes(), 0));
        let names = ["a", "b", "c", "d"];
        for (key, place) in shards_of(&names).into_iter().enumerate() {
            let key = key.to_string();
            let best = names.iter().max_by_key(|name| weight(name, key.as_bytes()));
            assert_eq!(best, Some(&place), "{key}");
        }
    }
}
