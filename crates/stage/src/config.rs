//! The configuration of `curtail stage`. It describes the stages, and the server or data behind
//! each one.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use curtail_kernel::duration;
use ipnet::IpNet;
use serde::Deserialize;
use toml::Spanned;

/// The configuration as it is written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    stage: Vec<Spanned<Raw>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: Spanned<String>,
    kind: Kind,
    listen: Spanned<SocketAddr>,
    #[serde(default)]
    server: Key<SocketAddr>,
    #[serde(default)]
    slots: Key<RawSlots>,
    #[serde(default)]
    queue: Key<u32>,
    #[serde(default)]
    timeout: Key<String>,
    #[serde(default)]
    admin: Key<SocketAddr>,
    #[serde(default)]
    purge: Key<SocketAddr>,
    #[serde(default)]
    root: Key<PathBuf>,
    #[serde(default)]
    reads: Key<u32>,
    #[serde(default)]
    listen_low: Key<SocketAddr>,
    #[serde(default)]
    low_from: Key<Vec<IpNet>>,
    #[serde(default)]
    max_duration: Key<String>,
    #[serde(default)]
    server_first: Key<bool>,
}

/// A value and its position, or `None` if the key is missing.
type Key<T> = Option<Spanned<T>>;

/// A position in the text, in bytes.
type At = usize;

/// The position of an error in a stage, and its message. The position is `None` if the error
/// applies to the stage as a whole.
type Wrong = (Option<At>, String);

fn at<T>(key: &Key<T>) -> Option<At> {
    key.as_ref().map(|value| value.span().start)
}

fn value<T>(key: Key<T>) -> Option<T> {
    key.map(Spanned::into_inner)
}

/// The positions of the values that a stage must not share with others.
struct Places {
    name: At,
    /// The addresses are in the order of [`StageConfig::listens`].
    listens: [Option<At>; 2],
    server: Option<At>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Http,
    Tcp,
    Get,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "slots must be a number from 1 to 4096, or \"auto\"")]
enum RawSlots {
    Number(u32),
    Word(String),
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

/// An error in the configuration. The message contains the file, the line, the value, and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// The size of the largest file that is read, in bytes.
const BYTES_MAX: u64 = 1 << 20;
const SLOTS_MAX: u32 = 4096;
const QUEUE_MAX: u32 = 1_000_000;
/// The default timeout. The default timeout is long because a job may wait behind many others, and
/// because clients have their own timeouts.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The default of `max_duration`. It is longer than most downloads take. A client that keeps its
/// connection open without need occupies a slot for no longer than that.
const MAX_DURATION: Duration = Duration::from_secs(5 * 60);
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Reads and checks a file.
///
/// # Errors
/// The first error in the configuration.
pub fn load(path: &Path) -> Result<Vec<StageConfig>, ConfigError> {
    let name = path.display();
    let fault = |why: String| ConfigError(format!("{name}: {why}"));
    let bytes = fs::metadata(path).map(|of| of.len()).unwrap_or_default();
    if bytes > BYTES_MAX {
        return Err(fault(format!("the file has {bytes} bytes; the limit is {BYTES_MAX}")));
    }
    let text = fs::read_to_string(path).map_err(|why| {
        fault(format!("cannot be read ({why}); name a file that exists and that you may read"))
    })?;
    parse(&name.to_string(), &text)
}

/// Checks the text of a file. Error messages contain `name`.
///
/// # Errors
/// The first error in the configuration.
pub fn parse(name: &str, text: &str) -> Result<Vec<StageConfig>, ConfigError> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count();
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(String::new(), |span| format!(":{}", line(span.start)));
        ConfigError(format!("{name}{at}: {}; see curtail stage --help", error.message()))
    })?;
    if file.stage.is_empty() {
        let why = "the file has no [[stage]]; add one, and see curtail stage --help";
        return Err(ConfigError(format!("{name}: {why}")));
    }
    let mut stages: Vec<StageConfig> = Vec::new();
    for raw in file.stage {
        let (whole, raw) = (raw.span().start, raw.into_inner());
        let (name_of, places) = (raw.name.get_ref().clone(), Places::of(&raw));
        let stage = check(raw).and_then(|stage| match clash(&stages, &stage, &places) {
            Some(wrong) => Err(wrong),
            None => Ok(stage),
        });
        stages.push(stage.map_err(|(at, why)| {
            let at = line(at.unwrap_or(whole));
            ConfigError(format!("{name}:{at}: stage {name_of:?}: {why}"))
        })?);
    }
    Ok(stages)
}

/// Returns the conflict of a stage with the stages before it, if any.
fn clash(before: &[StageConfig], stage: &StageConfig, places: &Places) -> Option<Wrong> {
    if before.iter().any(|other| other.name == stage.name) {
        let why = "the name is used twice; give each stage its own name";
        return Some((Some(places.name), why.to_owned()));
    }
    let mut taken: Vec<SocketAddr> = before.iter().flat_map(StageConfig::listens).collect();
    for (address, at) in stage.listens().zip(places.listens.iter().flatten()) {
        // The system assigns a different port to each address with port 0.
        if address.port() != 0 && taken.contains(&address) {
            let why = format!("{address} is used twice; give each listener its own port");
            return Some((Some(*at), why));
        }
        taken.push(address);
    }
    match stage.behind {
        Behind::Http { server, .. } | Behind::Tcp { server, .. } => {
            let why = if server.port() == 0 {
                format!("server = \"{server}\" has no port; write one from 1 to 65535")
            } else if stage.listens().any(|address| address == server) {
                format!(
                    "server = \"{server}\" is the stage itself; write the address of the server \
                     behind it"
                )
            } else {
                return None;
            };
            Some((places.server, why))
        }
        Behind::Get { .. } => None,
    }
}

impl Places {
    fn of(raw: &Raw) -> Self {
        // A stage of any kind has at most one of these keys.
        let second = at(&raw.admin).or(at(&raw.listen_low)).or(at(&raw.purge));
        Self {
            name: raw.name.span().start,
            listens: [Some(raw.listen.span().start), second],
            server: at(&raw.server),
        }
    }
}

impl StageConfig {
    fn listens(&self) -> impl Iterator<Item = SocketAddr> + use<> {
        let second = match self.behind {
            Behind::Http { admin, .. } => admin,
            Behind::Tcp { listen_low, .. } => listen_low,
            Behind::Get { purge, .. } => Some(purge),
        };
        [Some(self.listen), second].into_iter().flatten()
    }
}

fn check(raw: Raw) -> Result<StageConfig, Wrong> {
    let timeout = duration("timeout", raw.timeout, TIMEOUT)?;
    let kind = raw.kind;
    let name = raw.name.get_ref();
    if name.is_empty() || name.len() > 64 || !name.chars().all(in_names) {
        let why = "name is used in metrics; use 1 to 64 ASCII letters, digits, and - _ .";
        return Err((Some(raw.name.span().start), why.to_owned()));
    }
    let fits = |key: &str, given: Option<At>, fits: &[Kind]| match given {
        Some(_) if !fits.contains(&kind) => {
            let why = format!("{key} has no effect in a stage of kind {kind:?}; remove it");
            Err((given, why.to_lowercase()))
        }
        _ => Ok(()),
    };
    fits("server", at(&raw.server), &[Kind::Http, Kind::Tcp])?;
    fits("admin", at(&raw.admin), &[Kind::Http])?;
    fits("purge", at(&raw.purge), &[Kind::Get])?;
    fits("root", at(&raw.root), &[Kind::Get])?;
    fits("reads", at(&raw.reads), &[Kind::Get])?;
    fits("listen_low", at(&raw.listen_low), &[Kind::Tcp])?;
    fits("low_from", at(&raw.low_from), &[Kind::Tcp])?;
    fits("max_duration", at(&raw.max_duration), &[Kind::Tcp])?;
    fits("server_first", at(&raw.server_first), &[Kind::Tcp])?;
    let slots = slots(raw.slots, kind)?;
    let queue = in_range("queue", raw.queue, 1000, QUEUE_MAX)?;
    let missing = |why: &str| (None, why.to_owned());
    let server = || {
        value(raw.server)
            .ok_or_else(|| missing("server is missing; write server = \"ADDRESS:PORT\""))
    };
    let behind = match kind {
        Kind::Http => Behind::Http { server: server()?, admin: value(raw.admin) },
        Kind::Tcp => Behind::Tcp {
            server: server()?,
            listen_low: value(raw.listen_low),
            low_from: value(raw.low_from).unwrap_or_default(),
            max_duration: duration("max_duration", raw.max_duration, MAX_DURATION)?,
            server_first: value(raw.server_first).unwrap_or_default(),
        },
        Kind::Get => {
            let why = "purge, the address that receives purges, is missing; write \
                       purge = \"ADDRESS:PORT\"";
            let purge = value(raw.purge).ok_or_else(|| missing(why))?;
            if let Some(root) = raw.root.as_ref().filter(|root| !root.get_ref().is_dir()) {
                let why = format!(
                    "root = {:?} is not a folder; name a folder that exists",
                    root.get_ref()
                );
                return Err((at(&raw.root), why));
            }
            let reads = in_range("reads", raw.reads, 4, SLOTS_MAX)?;
            Behind::Get { purge, root: value(raw.root), reads }
        }
    };
    let (name, listen) = (raw.name.into_inner(), raw.listen.into_inner());
    Ok(StageConfig { name, listen, slots, queue, timeout, behind })
}

fn slots(given: Key<RawSlots>, kind: Kind) -> Result<Slots, Wrong> {
    let Some(given) = given else {
        return Ok(if kind == Kind::Get { Slots::Fixed(4) } else { Slots::Auto });
    };
    let at = Some(given.span().start);
    match given.into_inner() {
        RawSlots::Number(slots) => between("slots", at, slots, SLOTS_MAX).map(Slots::Fixed),
        RawSlots::Word(word) if word != "auto" => {
            Err((at, format!("slots = {word:?} is not a number; write a number, or \"auto\"")))
        }
        RawSlots::Word(_) if kind == Kind::Get => {
            let why = "slots = \"auto\" is not allowed for stages of kind get; write a number";
            Err((at, why.to_owned()))
        }
        RawSlots::Word(_) => Ok(Slots::Auto),
    }
}

fn in_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

fn duration(key: &str, given: Key<String>, default: Duration) -> Result<Duration, Wrong> {
    let Some(given) = given else { return Ok(default) };
    let (at, text) = (Some(given.span().start), given.get_ref());
    let parsed = duration::parse(text).map_err(|why| (at, format!("{key} = {text:?} {why}")))?;
    let span = Duration::from_nanos(parsed);
    match (Duration::from_millis(1)..=TIMEOUT_MAX).contains(&span) {
        true => Ok(span),
        false => Err((at, format!("{key} = {text:?} is out of range; use 1ms to 24h"))),
    }
}

fn in_range(key: &str, given: Key<u32>, default: u32, most: u32) -> Result<u32, Wrong> {
    match given {
        None => Ok(default),
        Some(given) => between(key, Some(given.span().start), *given.get_ref(), most),
    }
}

fn between(key: &str, at: Option<At>, value: u32, most: u32) -> Result<u32, Wrong> {
    match (1..=most).contains(&value) {
        true => Ok(value),
        false => Err((at, format!("{key} = {value} is out of range; use 1 to {most}"))),
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
            ("slots = 0", "f:6: stage \"a\": slots = 0 is out of range; use 1 to 4096"),
            ("\n#x\nqueue = 0", "f:8: stage \"a\": queue = 0 is out of range; use 1 to 1000000"),
            (
                "slots = \"many\"",
                "f:6: stage \"a\": slots = \"many\" is not a number; write a number, or \"auto\"",
            ),
            (
                "root = \"/\"",
                "f:6: stage \"a\": root has no effect in a stage of kind http; remove it",
            ),
            ("timeout = \"5\"", "f:6: stage \"a\": timeout = \"5\" "),
            ("timeout = \"0s\"", "is out of range; use 1ms to 24h"),
            (
                "max_duration = \"1s\"",
                "f:6: stage \"a\": max_duration has no effect in a stage of kind http; remove it",
            ),
            ("server_first = true", "server_first has no effect in a stage of kind http"),
            ("sluts = 1", "f:6: unknown field `sluts`"),
            ("queue = -1", "f:6: "),
            ("slots = -1", "f:6: slots must be a number from 1 to 4096, or \"auto\""),
            (
                "admin = \"127.0.0.1:1\"",
                "f:6: stage \"a\": 127.0.0.1:1 is used twice; give each listener its own port",
            ),
            (
                "[[stage]]\nname=\"b\"\nkind=\"tcp\"\nlisten=\"[::1]:1\"",
                "f:6: stage \"b\": server is missing",
            ),
            (HTTP, "f:7: stage \"a\": the name is used twice; give each stage its own name"),
        ] {
            let error = parse("f", &format!("{HTTP}{more}")).unwrap_err().to_string();
            assert!(error.contains(wanted), "{more}: {error}");
        }
        for (server, wanted) in
            [("127.0.0.1:1", "is the stage itself"), ("127.0.0.1:0", "has no port")]
        {
            let wanted = format!("f:5: stage \"a\": server = \"{server}\" {wanted}");
            let error = parse("f", &HTTP.replace("127.0.0.1:2", server)).unwrap_err().to_string();
            assert!(error.contains(&wanted), "{error}");
        }
        let both = HTTP.replace("\"a\"", "\"b\"");
        let error = parse("f", &format!("{HTTP}{both}")).unwrap_err().to_string();
        assert!(error.contains("f:9: stage \"b\": 127.0.0.1:1 is used twice"), "{error}");
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
