//! Selects the attributes that may explain the durations of spans. They tell where a span ran, how
//! it ended, whether it was a retry, and how long it queued. All other attributes are ignored.

use std::collections::BTreeMap;

/// The subject of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// The process, pod or host in which the span ran.
    Place,
    /// The process or host that was called.
    Peer,
    /// How the span ended.
    Status,
    /// Whether the span was a retry, and which attempt.
    Retry,
    /// A number that describes a queue, either its length or the time that the span spent in it.
    Queue,
}

/// The keys of each class, the most specific first. In keys, `_` and `-` are equivalent to `.`, and
/// case is ignored.
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
/// A numeric attribute belongs to [`Class::Queue`] if its key contains one of these words.
const QUEUES: [&str; 2] = ["queue", "wait"];
/// The maximum length of a value, in characters. Longer values are truncated.
const VALUE_CHARS_MAX: usize = 60;

/// Returns the class of an attribute, and the rank of its key within the class. `None` if the
/// attribute is ignored.
fn class(key: &str, value: &str) -> Option<(Class, usize)> {
    let plain = key.to_ascii_lowercase().replace(['_', '-'], ".");
    let listed = KEYS.iter().find_map(|(class, keys)| {
        keys.split(' ').position(|known| known == plain).map(|at| (*class, at))
    });
    let is_number = || value.parse::<f32>().is_ok_and(f32::is_finite);
    let is_queue = || QUEUES.iter().any(|part| plain.contains(part)) && is_number();
    listed.or_else(|| is_queue().then_some((Class::Queue, 0)))
}

/// Returns the attribute unless it is ignored.
pub(super) fn kept(key: String, value: String) -> Option<(String, String)> {
    class(&key, &value).filter(|_| !value.is_empty()).map(|_| (key, value))
}

/// An attribute. The value is empty for class [`Class::Queue`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attribute {
    pub(super) class: Class,
    /// The rank of the key within its class.
    rank: usize,
    pub(super) key: String,
    pub(super) value: String,
}

impl Attribute {
    /// Whether the attribute marks the span as a retry.
    pub(super) fn is_retry(&self) -> bool {
        let first = if self.key.to_ascii_lowercase().contains("attempt") { "1" } else { "0" };
        self.class == Class::Retry && ![first, "0", "false", ""].contains(&&*self.value)
    }
}

/// Interned sets of attributes. Spans refer to a set by its number. The empty set has the number 0.
#[derive(Debug, Default)]
pub(super) struct Sets {
    numbers: BTreeMap<Vec<Attribute>, u32>,
    list: Vec<Vec<Attribute>>,
}

impl Sets {
    /// Returns the number of a span's attribute set, the place where the span ran, and its queueing
    /// time. The number is `None` if there is no room for the set.
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

    /// Returns the attributes in a set.
    pub(super) fn get(&self, set: u32) -> &[Attribute] {
        (set as usize).checked_sub(1).map_or(&[], |at| &self.list[at])
    }
}
