//! The message of a call: the acts of the called process and, within each of its calls, the message
//! for the next process.
//!
//! Source: document 002 §5.3, whose services emulate work by holding resources. The client draws a
//! request as the simulator does ([`RequestPlan`]), so both get the same requests under every
//! control. A visit is a list of acts: `0 resource ns`, or `1 via count` followed by the instance,
//! the length and the visit of each call. Numbers are big-endian.
//!
//! Cost: 22 bytes per call. Parts of a message are forwarded unchanged.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use curtail_sim::graph::{self, RequestPlan};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// An act of a visit.
#[derive(Debug)]
pub(super) enum Act {
    Use {
        resource: usize,
        ns: u64,
    },
    /// Calls in parallel: the instance, and its visit.
    Call {
        via: Option<usize>,
        calls: Vec<(usize, Bytes)>,
    },
}

const NONE: u32 = u32::MAX;
/// The maximum number of parallel calls in a file.
const CALLS_MAX: u32 = 10_000;

/// Encodes the visit of a node and everything below it.
pub(super) fn encode(plan: &RequestPlan, node: u32, into: &mut BytesMut) {
    for act in (0..).map_while(|step| plan.act(node, step)) {
        match act {
            graph::Act::Use { resource, ns } => {
                into.put_u8(0);
                into.put_u32(resource);
                into.put_u64(ns);
            }
            graph::Act::Call { first, count, via } => {
                into.put_u8(1);
                into.put_u32(via.unwrap_or(NONE));
                into.put_u32(count);
                for node in first..first + count {
                    into.put_u32(plan.nodes[node as usize].instance);
                    let at = into.len();
                    into.put_u32(0);
                    encode(plan, node, into);
                    let length = (into.len() - at - 4) as u32;
                    into[at..at + 4].copy_from_slice(&length.to_be_bytes());
                }
            }
        }
    }
}

/// Decodes the acts of a visit. `None` if they are malformed.
pub(super) fn decode(mut bytes: Bytes) -> Option<Vec<Act>> {
    let mut acts = Vec::new();
    while bytes.has_remaining() {
        acts.push(match bytes.try_get_u8().ok()? {
            0 => Act::Use {
                resource: bytes.try_get_u32().ok()? as usize,
                ns: bytes.try_get_u64().ok()?,
            },
            1 => {
                let via = Some(bytes.try_get_u32().ok()?).filter(|&via| via != NONE);
                let count = bytes.try_get_u32().ok().filter(|&count| count <= CALLS_MAX)?;
                let mut calls = Vec::new();
                for _ in 0..count {
                    let instance = bytes.try_get_u32().ok()? as usize;
                    let length = bytes.try_get_u32().ok()? as usize;
                    if length > bytes.remaining() {
                        return None;
                    }
                    calls.push((instance, bytes.split_to(length)));
                }
                Act::Call { via: via.map(|via| via as usize), calls }
            }
            _ => return None,
        });
    }
    Some(acts)
}

/// A codec whose messages are plain bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, bytes: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(bytes);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_or_malformed_visits_are_rejected() {
        let mut leaf = BytesMut::new();
        leaf.put_u8(0);
        leaf.put_u32(3);
        leaf.put_u64(1_000);
        let mut visit = BytesMut::new();
        visit.put_u8(1);
        visit.put_u32(NONE);
        visit.put_u32(1);
        visit.put_u32(7);
        visit.put_u32(leaf.len() as u32);
        visit.put(leaf.clone());
        let visit = visit.freeze();
        let acts = decode(visit.clone()).expect("well-formed");
        let [Act::Call { via: None, calls }] = &acts[..] else { panic!("it is a call") };
        assert_eq!(*calls, [(7, leaf.freeze())]);
        for length in 1..visit.len() {
            assert!(decode(visit.slice(..length)).is_none(), "{length}");
        }
        assert!(decode(Bytes::from_static(&[2])).is_none());
        assert!(decode(Bytes::from_static(&[1, 0, 0, 0, 0, 255, 0, 0, 0])).is_none());
    }
}
