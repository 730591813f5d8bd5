//! The message of a call: the acts of the called process and, within each of its calls, the message
//! for the next process.
//!
//! Source: document 002 §5.3, whose services emulate work by holding resources. The client draws a
//! request as the simulator does ([`RequestPlan`]), so both get the same requests under every
//! control. Parts of a message are forwarded unchanged.

use bytes::{Buf as _, BufMut as _, Bytes};
use curtail_sim::graph::{self, RequestPlan};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// An act of a visit.
#[derive(Debug, Deserialize, Serialize)]
pub(super) enum Act {
    Use {
        resource: usize,
        ns: u64,
    },
    /// Calls in parallel, which may hold a resource.
    Call {
        via: Option<usize>,
        calls: Vec<Call>,
    },
}

/// A call: the instance, and its acts.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Call {
    pub(super) instance: usize,
    acts: Box<RawValue>,
}

impl Call {
    /// Returns the call's message.
    pub(super) fn message(self) -> Bytes {
        Box::<str>::from(self.acts).into_boxed_bytes().into()
    }
}

/// Returns the call of a node and everything below it.
pub(super) fn call_of(plan: &RequestPlan, node: u32) -> Call {
    let act = |act| match act {
        graph::Act::Use { resource, ns } => Act::Use { resource: resource as usize, ns },
        graph::Act::Call { first, count, via } => Act::Call {
            via: via.map(|via| via as usize),
            calls: (first..first + count).map(|node| call_of(plan, node)).collect(),
        },
    };
    let acts: Vec<Act> = (0..).map_while(|step| plan.act(node, step)).map(act).collect();
    let acts = to_raw_value(&acts).expect("it is JSON");
    Call { instance: plan.nodes[node as usize].instance as usize, acts }
}

/// Returns the acts of a message. `None` if it is malformed.
pub(super) fn acts_of(message: &[u8]) -> Option<Vec<Act>> {
    serde_json::from_slice(message).ok()
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
    fn parts_of_a_message_are_messages() {
        let leaf = r#"[{"Use":{"resource":3,"ns":1000}}]"#;
        let visit =
            format!(r#"[{{"Call":{{"via":null,"calls":[{{"instance":7,"acts":{leaf}}}]}}}}]"#);
        let mut acts = acts_of(visit.as_bytes()).expect("well-formed");
        assert_eq!(serde_json::to_string(&acts).expect("JSON"), visit);
        let Some(Act::Call { via: None, calls }) = acts.pop() else { panic!("it is a call") };
        let [call] = <[Call; 1]>::try_from(calls).expect("one call");
        assert_eq!((call.instance, call.message()), (7, Bytes::from(leaf)));
        for length in 0..visit.len() {
            assert!(acts_of(&visit.as_bytes()[..length]).is_none(), "{length}");
        }
    }
}
