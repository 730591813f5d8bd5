//! The format of our member in a call's `baggage`: `curtail=1:workflow:service:work:total
//! service:total work:caller:wanted`, followed by `:tag` if there is a [`MemberKey`].
//!
//! Source: W3C Baggage, and document 002 Table 5.3. The first field is a version. Later versions
//! can add fields before the tag. The name is percent-encoded, times are in ns, and numbers are
//! hexadecimal. The member is at most 240 bytes long, because names are bounded and numbers above
//! [`super::NS_MAX`] are neither written nor read.
//!
//! Cost: one pass over the header.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use curtail_kernel::flow::{Progress, Spent};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{MILLI_MAX, MemberKey, NS_MAX, milli, parse_hex};

/// The maximum length of the header, in bytes. If the header would be longer, only our member is
/// written.
const HEADER_BYTES_MAX: usize = 8_192;
/// The maximum length of the member, in bytes, including its key.
const MEMBER_BYTES_MAX: usize = 240;
/// The maximum length of a percent-encoded name, in bytes.
const NAME_BYTES_MAX: usize = 96;
const KEY: &str = "curtail";
/// All characters except the unreserved ones of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The name of a workflow: not empty, and at most 96 bytes when percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkflowName(Arc<str>);

impl WorkflowName {
    /// Creates a name. `None` if it is empty or too long.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        // Each byte is encoded as at least one byte.
        let is_short = name.len() <= NAME_BYTES_MAX
            && utf8_percent_encode(name, ENCODED).map(str::len).sum::<usize>() <= NAME_BYTES_MAX;
        (is_short && !name.is_empty()).then(|| Self(name.into()))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkflowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The metadata of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallMeta {
    /// The workflow of its request.
    pub workflow: WorkflowName,
    /// a: the time and work spent on the request before this call.
    pub spent: Spent,
    /// T: the total time and work of a request of the workflow, as estimated when the request
    /// entered the system. Zero if unknown.
    pub totals: Spent,
    /// The number of the calling process, which is random.
    pub caller: u32,
    /// The rate at which the caller wants to send requests of this workflow, before its own limits
    /// apply, in requests per second.
    pub wanted: f64,
}

impl CallMeta {
    /// Creates metadata with this workflow, and with zero for everything else.
    #[must_use]
    pub fn of(workflow: WorkflowName) -> Self {
        Self { workflow, spent: Spent::default(), totals: Spent::default(), caller: 0, wanted: 0.0 }
    }

    /// Returns the initial counters of the request at the called process.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            upstream: self.spent,
            here: Spent::default(),
            total_service_ns: self.totals.service_ns,
            total_work_ns: self.totals.work_ns,
        }
    }

    /// Formats the metadata as a member of `baggage`, in at most 240 bytes.
    #[must_use]
    pub fn to_member(&self, key: Option<&MemberKey>) -> String {
        let Self { workflow, spent, totals, caller, wanted } = self;
        let name = utf8_percent_encode(workflow.as_str(), ENCODED);
        let [service, work] = [spent.service_ns, spent.work_ns].map(|ns| ns.min(NS_MAX));
        let [all, all_work] = [totals.service_ns, totals.work_ns].map(|ns| ns.min(NS_MAX));
        let wanted = milli(*wanted);
        let mut member = String::with_capacity(MEMBER_BYTES_MAX);
        // Writing to a string cannot fail.
        let _ = write!(
            member,
            "{KEY}=1:{name}:{service:x}:{work:x}:{all:x}:{all_work:x}:{caller:x}:{wanted:x}"
        );
        if let Some(key) = key {
            key.sign(&mut member, KEY.len() + 1);
        }
        member
    }

    fn parse(value: &str) -> Option<Self> {
        let mut fields = value.split(':');
        if fields.next()? != "1" {
            return None;
        }
        let name = percent_decode_str(fields.next()?).decode_utf8().ok()?;
        let workflow = WorkflowName::new(&name)?;
        let mut number = |most| fields.next().and_then(|digits| parse_hex(digits, most));
        let spent = Spent { service_ns: number(NS_MAX)?, work_ns: number(NS_MAX)? };
        let totals = Spent { service_ns: number(NS_MAX)?, work_ns: number(NS_MAX)? };
        let caller = number(u64::from(u32::MAX))? as u32;
        let wanted = number(MILLI_MAX)? as f64 / 1e3;
        Some(Self { workflow, spent, totals, caller, wanted })
    }
}

/// Returns the members of all lines of the header, without surrounding whitespace.
fn members<'a>(lines: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
    let members = lines.flat_map(|line| line.split(|&byte| byte == b','));
    members.map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// Returns the value of our member, without properties. `None` for a member of another vendor.
fn ours(member: &[u8]) -> Option<&[u8]> {
    let rest = member.strip_prefix(KEY.as_bytes())?.trim_ascii_start().strip_prefix(b"=")?;
    let end = rest.iter().position(|&byte| byte == b';').unwrap_or(rest.len());
    Some(rest[..end].trim_ascii())
}

/// Whether a line contains our member, well-formed or not.
pub(super) fn has_ours(line: &[u8]) -> bool {
    members([line].into_iter()).any(|member| ours(member).is_some())
}

/// Returns our member, or the first one if there are several. `None` if there is none, or if that
/// one is malformed or was not signed with the key.
pub(super) fn find<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    key: Option<&MemberKey>,
) -> Option<CallMeta> {
    let value = members(lines).find_map(ours)?;
    let is_short = value.len() + KEY.len() < MEMBER_BYTES_MAX;
    let value = str::from_utf8(value).ok().filter(|_| is_short)?;
    CallMeta::parse(value).filter(|_| key.is_none_or(|key| key.has_signed(value)))
}

/// Joins our member and those of other vendors into one line. If the line would be too long, the
/// result contains only our member. `None` if there is nothing to write.
pub(super) fn join<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    member: Option<String>,
) -> Option<Vec<u8>> {
    let mut joined = member.unwrap_or_default().into_bytes();
    let alone = joined.len();
    for other in members(lines).filter(|member| ours(member).is_none()) {
        if joined.len() + other.len() >= HEADER_BYTES_MAX {
            joined.truncate(alone);
            break;
        }
        if !joined.is_empty() {
            joined.push(b',');
        }
        joined.extend_from_slice(other);
    }
    (!joined.is_empty()).then_some(joined)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &[u8]) -> Option<CallMeta> {
        find([text].into_iter(), None)
    }

    #[test]
    fn hostile_members_are_ignored() {
        let good = "curtail=1:a:1:2:3:4:5:6";
        assert!(found(good.as_bytes()).is_some());
        assert!(found(format!("{good}:later;property=1").as_bytes()).is_some());
        let long = format!("curtail=1:{}:1:2:3:4:5:6", "a".repeat(97));
        let padded = format!("{good}:{}", "0".repeat(240));
        let bad = [
            "curtail=2:a:1:2:3:4:5:6",
            "curtail=1::1:2:3:4:5:6",
            "curtail=1:a:1:2:3:4:5",
            "curtail=1:a:-1:2:3:4:5:6",
            "curtail=1:a:+1:2:3:4:5:6",
            "curtail=1:a:NaN:2:3:4:5:6",
            "curtail=1:a:ffffffffffffffff:2:3:4:5:6",
            "curtail=1:a:11111111111111111:2:3:4:5:6",
            "curtail=1:a:1:2:3:4:100000000:6",
            "curtail=1:%ff:1:2:3:4:5:6",
            "curtail",
            "curtails=1:a:1:2:3:4:5:6",
            &long,
            &padded,
        ];
        for bad in bad {
            assert_eq!(found(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(found(b"curtail=1:\xff:1:2:3:4:5:6"), None);
    }

    #[test]
    fn the_header_is_bounded_and_members_are_never_cut() {
        let others = vec![b'x'; 8_000];
        let ours = "curtail=1:a:1:2:3:4:5:6";
        let kept = join([&others[..]].into_iter(), Some(ours.to_owned())).expect("there is one");
        assert_eq!(kept.len(), ours.len() + 1 + others.len());
        let lines = [&others[..], b"y=1".as_slice(), &others[..200]];
        assert_eq!(join(lines.into_iter(), Some(ours.to_owned())), Some(ours.as_bytes().to_vec()));
        assert_eq!(join([b" , ".as_slice()].into_iter(), None), None);
    }

    proptest! {
        #[test]
        fn members_round_trip_and_are_short(
            name in ".{1,40}",
            spent: [u64; 4],
            caller: u32,
            key in proptest::option::of(any::<[u8; 16]>()),
            wanted in prop_oneof![-1e9..1e15, Just(f64::NAN), Just(f64::INFINITY)],
        ) {
            let Some(workflow) = WorkflowName::new(&name) else { return Ok(()) };
            let key = key.and_then(|bytes| MemberKey::new(&bytes));
            let [service_ns, work_ns, all, all_work] = spent;
            let meta = CallMeta {
                workflow,
                spent: Spent { service_ns, work_ns },
                totals: Spent { service_ns: all, work_ns: all_work },
                caller,
                wanted,
            };
            let member = meta.to_member(key.as_ref());
            prop_assert!(member.len() <= MEMBER_BYTES_MAX, "{}", member);
            let read = found(member.as_bytes()).expect("well-formed");
            prop_assert_eq!(read.to_member(key.as_ref()), &*member);
            if let Some(key) = &key {
                let signed = |text: &str| find([text.as_bytes()].into_iter(), Some(key)).is_some();
                prop_assert!(signed(&member));
                prop_assert!(!signed(&meta.to_member(None)), "no tag");
                // Another workflow, and a tag that is too short or too long.
                let other = member.replacen("curtail=1:", "curtail=1:x", 1);
                for forged in [&*other, &member[..member.len() - 1], &format!("{member}0")] {
                    prop_assert!(!signed(forged), "{}", forged);
                }
                prop_assert!(found(member.as_bytes()).is_some(), "readers without the key");
            }
            prop_assert_eq!((&read.workflow, read.caller), (&meta.workflow, caller));
            prop_assert_eq!(read.spent.service_ns, service_ns.min(NS_MAX));
        }
    }
}
