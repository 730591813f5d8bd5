//! Parses the control messages that come with a received message. They contain the timestamps of a
//! packet and the number of a sent packet.
//!
//! Source: Linux, Documentation/networking/timestamping.rst; `struct scm_timestamping` and `struct
//! sock_extended_err` in include/uapi/linux/errqueue.h.

use nix::libc;

use super::Layer;

const WORD: usize = size_of::<usize>();
/// The size of `struct cmsghdr`: the length of the message, its level and its type.
const HEADER_BYTES: usize = WORD + 8;
const ORIGIN_TIMESTAMPING: u8 = 4;
const STAGE_SENT: u32 = 0;

/// The data from the control messages of one received message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The timestamp of the layer, in nanoseconds on its clock. `None` if the kernel reports zero,
    /// which means that this layer took no timestamp.
    pub(super) stamp_ns: Option<u64>,
    /// The number of the sent packet to which the timestamp belongs.
    pub(super) number: Option<u32>,
}

/// Parses control messages in any order. Stops at the zeros after the last message, or at a
/// truncated message.
pub(super) fn parse(mut rest: &[u8], layer: Layer) -> Found {
    let mut found = Found::default();
    while let Some(length) = word(rest, 0)
        && let Ok(length) = usize::try_from(length)
        && let Some(data) = rest.get(HEADER_BYTES..length)
    {
        let [level, kind] = [WORD, WORD + 4].map(|at| number(rest, at).map(u32::cast_signed));
        match (level.unwrap_or(-1), kind.unwrap_or(-1)) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                found.stamp_ns = stamp_ns(data, layer).or(found.stamp_ns);
            }
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                found.number = sent_number(data).or(found.number);
            }
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(WORD)..).unwrap_or_default();
    }
    found
}

/// Returns the time that the layer recorded. The data contains three times: the software time, an
/// unused one, and the hardware time.
fn stamp_ns(data: &[u8], layer: Layer) -> Option<u64> {
    let at = match layer {
        Layer::Software => 0,
        Layer::Hardware => 2 * 2 * WORD,
    };
    let [seconds, rest] = [at, at + WORD].map(|at| word(data, at));
    let ns = u64::try_from(seconds?).ok()?.checked_mul(1_000_000_000)?;
    let ns = ns.checked_add(u64::try_from(rest?).ok()?)?;
    (ns > 0).then_some(ns)
}

fn sent_number(data: &[u8]) -> Option<u32> {
    let (origin, stage, sent) = (*data.get(4)?, number(data, 8)?, number(data, 12)?);
    (origin == ORIGIN_TIMESTAMPING && stage == STAGE_SENT).then_some(sent)
}

fn word(bytes: &[u8], at: usize) -> Option<isize> {
    bytes.get(at..at + WORD)?.try_into().ok().map(isize::from_ne_bytes)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER_BYTES + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        bytes
    }

    fn stamps(software: [isize; 2], hardware: [isize; 2]) -> Vec<u8> {
        let times = [software, [0, 0], hardware];
        let data: Vec<u8> = times.as_flattened().iter().flat_map(|n| n.to_ne_bytes()).collect();
        message(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &data)
    }

    fn sent(origin: u8, stage: u32, number: u32) -> Vec<u8> {
        let mut data = vec![0, 0, 0, 0, origin, 0, 0, 0];
        data.extend(stage.to_ne_bytes());
        data.extend(number.to_ne_bytes());
        // The address that follows is not read.
        data.extend([7; 16]);
        message(libc::IPPROTO_IP, libc::IP_RECVERR, &data)
    }

    fn both(bytes: &[u8]) -> [Option<u64>; 2] {
        [Layer::Software, Layer::Hardware].map(|layer| parse(bytes, layer).stamp_ns)
    }

    #[test]
    fn each_layer_reads_its_own_time_and_ignores_zero() {
        let (software, hardware) = (Some(5_000_000_007), Some(2_000_000_003));
        assert_eq!(both(&stamps([5, 7], [0, 0])), [software, None]);
        assert_eq!(both(&stamps([0, 0], [2, 3])), [None, hardware]);
        assert_eq!(both(&stamps([5, 7], [2, 3])), [software, hardware]);
        assert_eq!(both(&stamps([-1, 0], [isize::MAX, 0])), [None, None], "beyond any clock");
        assert_eq!(both(&[0; 256]), [None, None]);
    }

    #[test]
    fn messages_may_arrive_in_any_order_and_between_others() {
        let expected = Found { stamp_ns: Some(2_000_000_003), number: Some(41) };
        let other = message(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &[1, 0, 0, 0]);
        let [stamps, sent] = [stamps([0, 0], [2, 3]), sent(ORIGIN_TIMESTAMPING, STAGE_SENT, 41)];
        for parts in [[&stamps, &other, &sent], [&sent, &stamps, &other], [&other, &sent, &stamps]]
        {
            let mut bytes = parts.map(Vec::as_slice).concat();
            bytes.extend([0; 64]);
            assert_eq!(parse(&bytes, Layer::Hardware), expected);
        }
    }

    #[test]
    fn errors_and_other_stages_of_sending_have_no_number() {
        for (origin, stage) in [(2, STAGE_SENT), (ORIGIN_TIMESTAMPING, 1)] {
            assert_eq!(parse(&sent(origin, stage, 41), Layer::Hardware).number, None);
        }
    }

    #[test]
    fn truncated_messages_have_no_timestamp() {
        let whole = [sent(ORIGIN_TIMESTAMPING, STAGE_SENT, 41), stamps([5, 7], [2, 3])].concat();
        for length in 0..whole.len() {
            let found = parse(&whole[..length], Layer::Hardware);
            assert_eq!(found.stamp_ns, None, "{length}");
        }
        // The kernel truncates a message to fit the available room.
        for room in 0..stamps([5, 7], [2, 3]).len() {
            let mut shortened = stamps([5, 7], [2, 3]);
            shortened[..WORD].copy_from_slice(&room.to_ne_bytes());
            assert_eq!(parse(&shortened, Layer::Hardware).stamp_ns, None, "{room}");
        }
        let mut wrong = stamps([5, 7], [2, 3]);
        wrong[..WORD].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(parse(&wrong, Layer::Software), Found::default());
    }
}
