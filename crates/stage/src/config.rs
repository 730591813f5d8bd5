//! The configuration of `curtail stage`. It describes the stages, and the server or data behind
//! each one.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use curtail_config::{
    AutoOr, ConfigErrors, Count, Given, Key, Report, Socket, Time, clash, deserialize, reaches,
    read_text,
};
use ipnet::IpNet;
use serde::Deserialize;

const MS: u64 = 1_000_000;
const MINUTE: u64 = 60_000 * MS;
const DAY: u64 = 24 * 60 * MINUTE;
const SLOTS_MAX: u32 = 4096;

/// The configuration as it is written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "tables [[stage]]")]
struct File {
    stage: Vec<Given<Raw>>,
}

/// A stage as it is written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table [[stage]]")]
struct Raw {
    name: Option<Given<String>>,
    kind: Option<Kind>,
    listen: Option<Given<Socket>>,
    server: Option<Given<Socket>>,
    slots: Option<Given<AutoOr<1, SLOTS_MAX>>>,
    queue: Count<1_000, 1, 1_000_000>,
    /// The default is long because a job may wait behind many others, and because clients have their
    /// own timeouts.
    timeout: Time<MINUTE, MS, DAY>,
    admin: Option<Given<Socket>>,
    purge: Option<Given<Socket>>,
    root: Option<Given<PathBuf>>,
    reads: Key<Count<4, 1, SLOTS_MAX>>,
    listen_low: Option<Given<Socket>>,
    low_from: Key<Vec<IpNet>>,
    /// The default is longer than most downloads take. A client that keeps its connection open
    /// without need occupies a slot for no longer than that.
    max_duration: Key<Time<{ 5 * MINUTE }, MS, DAY>>,
    server_first: Key<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Http,
    Tcp,
    Get,
}

/// The number of jobs that a server processes at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// The smallest number that reaches the maximum throughput, as determined by the throttler.
    Auto,
    /// This number.
    Fixed(u32),
}

/// A stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageConfig {
    /// The name of the stage.
    pub name: String,
    /// The address on which it listens.
    pub listen: SocketAddr,
    /// The number of jobs that are served at the same time.
    pub slots: Slots,
    /// The maximum number of waiting jobs in each class.
    pub queue: u32,
    /// The timeout of a request (`http`), or the idle timeout of a connection (`tcp`, `get`).
    pub timeout: Duration,
    /// The server or data behind the stage.
    pub behind: Behind,
}

/// The server or data behind a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Behind {
    /// An HTTP server.
    Http {
        /// The address of the server.
        server: SocketAddr,
        /// The address that serves metrics and health checks.
        admin: Option<SocketAddr>,
    },
    /// A server that speaks any protocol over TCP.
    Tcp {
        /// The address of the server.
        server: SocketAddr,
        /// Connections to this address are duplicates.
        listen_low: Option<SocketAddr>,
        /// Connections from these networks are duplicates.
        low_from: Vec<IpNet>,
        /// The maximum time for which a connection occupies a slot.
        max_duration: Duration,
        /// Whether the server sends the first byte of a connection.
        server_first: bool,
    },
    /// Files, or made-up data in memory.
    Get {
        /// The address that receives purges.
        purge: SocketAddr,
        /// The folder that contains the files. `None` for made-up data.
        root: Option<PathBuf>,
        /// The maximum number of concurrent disk reads.
        reads: u32,
    },
}

/// Reads and checks a file.
///
/// # Errors
/// The file cannot be read, or every error that [`parse`] finds.
pub fn load(path: &Path) -> Result<Vec<StageConfig>, ConfigErrors> {
    parse(&path.display().to_string(), &read_text(path)?)
}

/// Checks the text of a file. Error messages contain `name`.
///
/// # Errors
/// Every error in the file, each with its line, the value, and the fix.
pub fn parse(name: &str, text: &str) -> Result<Vec<StageConfig>, ConfigErrors> {
    let mut report = Report::new(name, text).help("'curtail stage --help' shows an example");
    let file: Option<File> = deserialize(&mut report);
    let mut stages = Vec::new();
    if let Some(File { stage: tables }) = &file {
        if tables.is_empty() {
            let fix = "add one; 'curtail stage --help' shows an example";
            report.lacking("the file has no [[stage]]", fix);
        }
        check_names(tables, &mut report);
        check_addresses(tables, &mut report);
        stages.extend(tables.iter().filter_map(|raw| stage(raw.get(), &raw.span(), &mut report)));
    }
    report.finish()?;
    Ok(stages)
}

fn check_names(tables: &[Given<Raw>], report: &mut Report<'_>) {
    let mut taken = BTreeSet::new();
    for given in tables.iter().filter_map(|raw| raw.get().name.as_ref()) {
        let name = given.get();
        if name.is_empty() || name.len() > 64 || !name.chars().all(in_names) {
            let fix = "use 1 to 64 ASCII letters, digits, and - _ .";
            report.error(&given.span(), "name is used in metrics", fix);
        }
        if !taken.insert(name) {
            let wrong = "an earlier stage has the same name";
            report.error(&given.span(), wrong, "give each stage its own name");
        }
    }
}

fn in_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

/// Reports addresses that two listeners have, and servers that are the stage itself.
fn check_addresses(tables: &[Given<Raw>], report: &mut Report<'_>) {
    let mut taken: Vec<SocketAddr> = Vec::new();
    for raw in tables.iter().map(Given::get) {
        let listens = [&raw.listen, &raw.admin, &raw.listen_low, &raw.purge];
        let listens = listens.into_iter().flatten();
        for given in listens.clone() {
            let address = given.get().get();
            if taken.iter().any(|&other| clash(address, other)) {
                let wrong = "another listener already has this address";
                report.error(&given.span(), wrong, "give each listener its own port");
            }
            taken.push(address);
        }
        let Some(server) = &raw.server else { continue };
        let address = server.get().get();
        if address.port() == 0 {
            report.error(&server.span(), "has port 0", "write the port that it listens on");
        } else if listens.clone().any(|given| reaches(address, given.get().get())) {
            let fix = "write the address of the server behind it";
            report.error(&server.span(), "the stage itself listens on this address", fix);
        }
    }
}

/// Resolves a stage. `at` is its table.
fn stage(raw: &Raw, at: &Range<usize>, report: &mut Report<'_>) -> Option<StageConfig> {
    let name = required("name", "\"…\"", raw.name.as_ref(), at, report);
    let kind = required("kind", "\"http\", \"tcp\" or \"get\"", raw.kind.as_ref(), at, report);
    let listen = required("listen", ADDRESS, raw.listen.as_ref(), at, report);
    let kind = *kind?;
    check_kind(raw, kind, report);
    let slots = match raw.slots.as_ref().map(Given::get) {
        Some(AutoOr::Number(slots)) => Slots::Fixed(*slots),
        None if kind == Kind::Get => Slots::Fixed(4),
        Some(AutoOr::Auto) | None => Slots::Auto,
    };
    let address = |given: &Option<Given<Socket>>| given.as_ref().map(|given| given.get().get());
    let mut server = || {
        let given = required("server", ADDRESS, raw.server.as_ref(), at, report)?;
        Some(given.get().get())
    };
    let behind = match kind {
        Kind::Http => Behind::Http { server: server()?, admin: address(&raw.admin) },
        Kind::Tcp => Behind::Tcp {
            server: server()?,
            listen_low: address(&raw.listen_low),
            low_from: raw.low_from.get().clone(),
            max_duration: raw.max_duration.get().get(),
            server_first: *raw.server_first.get(),
        },
        Kind::Get => Behind::Get {
            purge: required("purge", ADDRESS, raw.purge.as_ref(), at, report)?.get().get(),
            root: raw.root.as_ref().map(|given| given.get().clone()),
            reads: raw.reads.get().get(),
        },
    };
    Some(StageConfig {
        name: name?.get().clone(),
        listen: listen?.get().get(),
        slots,
        queue: raw.queue.get(),
        timeout: raw.timeout.get(),
        behind,
    })
}

const ADDRESS: &str = "\"IP:PORT\"";

/// Reports a key that every stage of a kind needs if it is missing.
fn required<'r, T>(
    key: &str,
    like: &str,
    given: Option<&'r T>,
    at: &Range<usize>,
    report: &mut Report<'_>,
) -> Option<&'r T> {
    if given.is_none() {
        let wrong = format!("this stage has no {key}");
        report.missing(at, &wrong, &format!("add {key} = {like}"));
    }
    given
}

/// Reports keys and values that have no meaning for the kind of a stage.
fn check_kind(raw: &Raw, kind: Kind, report: &mut Report<'_>) {
    let span = |given: &Option<Given<Socket>>| given.as_ref().map(Given::span);
    let root = raw.root.as_ref();
    for (key, span, kinds) in [
        ("server", span(&raw.server), &[Kind::Http, Kind::Tcp][..]),
        ("admin", span(&raw.admin), &[Kind::Http]),
        ("purge", span(&raw.purge), &[Kind::Get]),
        ("root", root.map(Given::span), &[Kind::Get]),
        ("reads", raw.reads.span(), &[Kind::Get]),
        ("listen_low", span(&raw.listen_low), &[Kind::Tcp]),
        ("low_from", raw.low_from.span(), &[Kind::Tcp]),
        ("max_duration", raw.max_duration.span(), &[Kind::Tcp]),
        ("server_first", raw.server_first.span(), &[Kind::Tcp]),
    ] {
        if let Some(at) = span.filter(|_| !kinds.contains(&kind)) {
            let wrong = format!("{key} has no effect in a stage of kind {kind:?}").to_lowercase();
            report.error(&at, &wrong, "remove it");
        }
    }
    if let Some(given) = raw.slots.as_ref().filter(|given| *given.get() == AutoOr::Auto)
        && kind == Kind::Get
    {
        let wrong = "slots = \"auto\" is not allowed for stages of kind get";
        report.error(&given.span(), wrong, "write a number");
    }
    if let Some(given) = root.filter(|given| kind == Kind::Get && !given.get().is_dir()) {
        report.error(&given.span(), "root is not a folder", "name a folder that exists");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HTTP: &str = "[[stage]]\nname = \"a\"\nkind = \"http\"\nlisten = \"127.0.0.1:1\"\nserver = \"127.0.0.1:2\"\n";

    #[test]
    fn a_stage_has_the_keys_of_its_kind_and_defaults_for_the_rest() {
        let all = parse("f", HTTP).unwrap();
        assert_eq!((all[0].slots, all[0].queue), (Slots::Auto, 1000));
        let get =
            "[[stage]]\nname = \"b\"\nkind = \"get\"\nlisten = \"[::1]:1\"\npurge = \"[::1]:2\"\n";
        let all = parse("f", &format!("{HTTP}{get}")).unwrap();
        assert_eq!(all[1].slots, Slots::Fixed(4));
        let tcp = HTTP.replace("http", "tcp") + "low_from = [\"10.0.0.0/8\"]\nslots = 3";
        assert_eq!(parse("f", &tcp).unwrap()[0].slots, Slots::Fixed(3));
    }

    #[test]
    fn errors_name_the_file_the_line_the_value_and_the_fix() {
        for (more, wanted) in [
            ("slots = 0", "f:6: 0: slots is out of range; use 1 to 4096, or \"auto\""),
            ("\n#x\nqueue = 0", "f:8: 0: queue is out of range; use 1 to 1000000"),
            (
                "slots = \"many\"",
                "f:6: \"many\": slots is not a number; write a number without quotes, or \"auto\"",
            ),
            ("root = \"/\"", "f:6: \"/\": root has no effect in a stage of kind http; remove it"),
            ("timeout = \"5\"", "f:6: \"5\": timeout has no unit; "),
            ("timeout = \"0s\"", "f:6: \"0s\": timeout is zero; use at least \"1ms\""),
            ("timeout = \"25h\"", "timeout is too long; use at most \"24h\""),
            (
                "max_duration = \"1s\"",
                "f:6: \"1s\": max_duration has no effect in a stage of kind http; remove it",
            ),
            ("server_first = true", "server_first has no effect in a stage of kind http"),
            ("sluts = 1", "f:6: sluts: unknown key; did you mean slots?"),
            ("queue = -1", "f:6: -1: queue has the wrong type; write a whole number"),
            ("slots = -1", "f:6: -1: slots is out of range; use 1 to 4096, or \"auto\""),
            (
                "admin = \"127.0.0.1:1\"",
                "f:6: \"127.0.0.1:1\": another listener already has this address; give each listener",
            ),
            (
                "[[stage]]\nname=\"b\"\nkind=\"tcp\"\nlisten=\"[::1]:1\"",
                "f:6: [[stage]]: this stage has no server; add server = \"IP:PORT\"",
            ),
            (HTTP, "f:7: \"a\": an earlier stage has the same name; give each stage its own name"),
        ] {
            let error = parse("f", &format!("{HTTP}{more}")).unwrap_err().to_string();
            assert!(error.contains(wanted), "{more}: {error}");
        }
        for (server, wanted) in
            [("127.0.0.1:1", "the stage itself listens on"), ("127.0.0.1:0", "has port 0")]
        {
            let wanted = format!("f:5: \"{server}\": {wanted}");
            let error = parse("f", &HTTP.replace("127.0.0.1:2", server)).unwrap_err().to_string();
            assert!(error.contains(&wanted), "{error}");
        }
        let both = HTTP.replace("\"a\"", "\"b\"");
        let error = parse("f", &format!("{HTTP}{both}")).unwrap_err().to_string();
        assert!(error.contains("f:9: \"127.0.0.1:1\": another listener"), "{error}");
        // Stage names are inserted into another TOML file.
        let quoted = HTTP.replace("\"a\"", "'a\\'");
        assert!(parse("f", &quoted).unwrap_err().to_string().contains("1 to 64 ASCII letters"));
        assert!(parse("f", "").unwrap_err().to_string().contains("the file has no [[stage]]"));
        assert!(load(Path::new("/absent")).unwrap_err().to_string().contains("cannot be read"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_an_error(text: String, more: String) {
            let _ = parse("f", &text);
            let _ = parse("f", &format!("{HTTP}{more}"));
        }
    }
}
