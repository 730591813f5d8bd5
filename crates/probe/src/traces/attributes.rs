//! Attributes of spans that may explain their times: where a span ran, how it ended, if it was a retry, how long it queued.
//! Everything else that spans carry is skipped.

use std::collections::BTreeMap;

/// What an attribute is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// The process, pod or host that the span ran in.
    Place,
    /// The process or host that a call went to.
    Peer,
    /// How the span ended.
    Status,
    /// If it was a further attempt, and which.
    Retry,
    /// A number about a queue: how long it was, or how long the span was in it.
    Queue,
}

/// Keys by class, the most telling first. `_` and `-` are the same as `.`, and case does not matter.
const KEYS: [(Class, &str); 4] = [
    (
        Class::Place,
        "k8s.pod.name pod pod.name service.instance.id instance instance.id host.name hostname host host.id \
         k8s.node.name node container.id ip",
    ),
    (Class::Peer, "server.address net.peer.name network.peer.address peer.address peer.hostname"),
    (
        Class::Status,
        "http.response.status.code http.status.code rpc.grpc.status.code grpc.status.code status.code status \
         otel.status.code error.type error",
    ),
    (
        Class::Retry,
        "http.request.resend.count http.resend.count retry retries retry.count attempt rpc.attempt",
    ),
];
/// Keys of the last class contain one of these.
const QUEUES: [&str; 2] = ["queue", "wait"];
/// Values are cut to this length, in characters.
const VALUE_CHARS_MAX: usize = 60;

/// The class of an attribute, and its place among the keys of that; none if the attribute is not read.
fn class(key: &str, value: &str) -> Option<(Class, usize)> {
    let plain = key.to_ascii_lowercase().replace(['_', '-'], ".");
    let listed = KEYS.iter().find_map(|(class, keys)| {
        keys.split(' ').position(|known| known == plain).map(|at| (*class, at))
    });
    let is_number = || value.parse::<f32>().is_ok_and(f32::is_finite);
    let is_queue = || QUEUES.iter().any(|part| plain.contains(part)) && is_number();
    listed.or_else(|| is_queue().then_some((Class::Queue, 0)))
}

/// The attribute, if it is one that is read.
pub(super) fn kept(key: String, value: String) -> Option<(String, String)> {
    class(&key, &value).filter(|_| !value.is_empty()).map(|_| (key, value))
}

/// One attribute, without the value where it is a number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attribute {
    pub(super) class: Class,
    /// Its place among the keys of its class.
    rank: usize,
    pub(super) key: String,
    pub(super) value: String,
}

impl Attribute {
    /// If it says that the span is a further attempt.
    pub(super) fn is_retry(&self) -> bool {
        let first = if self.key.to_ascii_lowercase().contains("attempt") { "1" } else { "0" };
        self.class == Class::Retry && ![first, "0", "false", ""].contains(&&*self.value)
    }
}

/// Sets of attributes, each held once. Spans refer to them by number; 0 is the empty set.
#[derive(Debug, Default)]
pub(super) struct Sets {
    numbers: BTreeMap<Vec<Attribute>, u32>,
    list: Vec<Vec<Attribute>>,
}

impl Sets {
    /// The number of a span's set, none if there is no room for it; where it ran; and how long it queued.
    pub(super) fn read(
        &mut self,
        attributes: &[(String, String)],
        max: usize,
    ) -> (Option<u32>, Option<String>, f32) {
        let mut queued = 0.0;
        let read = attributes.iter().filter_map(|(key, value)| {
            let (class, rank) = class(key, value)?;
            let mut value: String = value.chars().take(VALUE_CHARS_MAX).collect();
            if class == Class::Queue {
                queued = value.parse().ok().filter(|_| queued == 0.0)?;
                value.clear();
            }
            Some(Attribute { class, rank, key: key.clone(), value })
        });
        let mut set: Vec<Attribute> = read.collect();
        set.sort_unstable();
        set.dedup();
        let place = set.first().filter(|first| first.class == Class::Place);
        (self.number(&set, max), place.map(|of| of.value.clone()), queued)
    }

    fn number(&mut self, set: &[Attribute], max: usize) -> Option<u32> {
        let known = self.numbers.get(set).copied().or(set.is_empty().then_some(0));
        if known.is_some() || self.list.len() >= max {
            return known;
        }
        self.list.push(set.to_vec());
        self.numbers.insert(set.to_vec(), self.list.len() as u32);
        Some(self.list.len() as u32)
    }

    /// The attributes of a set.
    pub(super) fn get(&self, set: u32) -> &[Attribute] {
        (set as usize).checked_sub(1).map_or(&[], |at| &self.list[at])
    }
}
