//! Messages between a coordinator and an agent: JSON with a length prefix.
//!
//! | coordinator | agent |
//! |---|---|
//! | [`Hello`]: version and token | `welcome`, or `refused` with the reason |
//! | `plan`: the plan, and the agent's part of it | `ready`, or `refused` |
//! | `ping`, several times | `pong`: the agent's clock |
//! | `start` at a time on the agent's clock | |
//! | `ping` every second, as a heartbeat | `record`, twice per second: new measurements |
//! | `drain` or `stop`, to end the run early | `end`, or `failed` with the reason |
//!
//! The formats of [`Hello`] and of [`Refusal::Version`] never change, so any two versions recognize
//! each other. Any other change to a format increments [`PROTOCOL`]. [`PROTOCOL`] must also be
//! incremented if schedules are drawn differently, because all agents of a run must draw the same
//! schedule.
//!
//! The reader limits the length of a message. If a message is too long, the reader rejects it as soon
//! as it has read the length.

use std::io;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use curtail_kernel::duration::format;
use curtail_machine::Taken;
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use tokio_util::codec::{Encoder as _, FramedRead, LengthDelimitedCodec};

use crate::agents::AGENTS_MAX;
use crate::engine::stamp::Stamping;
use crate::plan::protocol::Trust;
use crate::plan::schedule::Part;
use crate::plan::{Plan, StampsBy};
use crate::results::facts::Sender;
use crate::results::record::Record;

/// The version of the message formats that are used after the greeting.
pub(crate) const PROTOCOL: u32 = 6;
/// The release number, which appears in error messages.
pub(crate) const CURTAIL: &str = env!("CARGO_PKG_VERSION");

/// A coordinator's first message. Not `Debug`, because the token is a secret.
#[derive(Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    pub(crate) curtail: String,
    pub(crate) token: Option<String>,
}

/// A coordinator's later messages. Not `Debug`, because headers in a plan may be secrets.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Plan(Box<PartOfPlan>),
    Ping,
    /// Start the schedule at this time, in nanoseconds on the agent's clock.
    Start {
        at_ns: u64,
    },
    /// Send no request that becomes due after this order, and end the run when all requests have
    /// ended.
    Drain,
    /// End immediately.
    Stop,
}

/// An agent's part of a plan.
#[derive(Serialize, Deserialize)]
pub(crate) struct PartOfPlan {
    pub(crate) part: Part,
    /// The agent's plan. The plan's pace describes the whole schedule, but the agent sends only its
    /// part of it.
    pub(crate) plan: Plan,
}

impl PartOfPlan {
    /// Rejects features that agents do not support. In particular, an agent never opens a file that
    /// a coordinator names.
    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        let PartOfPlan { part, plan } = self;
        if part.number >= part.of || part.of > AGENTS_MAX as u64 {
            return Err("a part number that is out of range");
        }
        if plan.protocol.schema.is_some() {
            return Err("a gRPC schema (--proto); write the messages as {\"base64\": \"...\"}");
        }
        if matches!(plan.protocol.trust, Trust::File(_)) {
            return Err(
                "a file of certificate authorities (--cacert); install the authorities on the \
                 agents' machines, or use --insecure",
            );
        }
        if !plan.processors.numbers().is_empty() {
            return Err("--processors, because every machine numbers its own processors");
        }
        if plan.stamps == StampsBy::Xdp {
            return Err("--stamps xdp, which allows only one connection");
        }
        Ok(())
    }
}

/// A message from an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Update {
    Welcome,
    Refused(Refusal),
    /// The agent is ready to start.
    Ready {
        /// `None` if the plan asks only for the program's own timestamps.
        stamps: Option<Stamping>,
    },
    /// The time on the agent's clock, in nanoseconds since the clock's own epoch.
    Pong {
        at_ns: u64,
    },
    /// The measurements since the last record.
    Record(Box<Record>),
    /// The run has ended, and the agent has sent every record.
    End(Done),
    /// The run cannot continue.
    Failed {
        why: String,
    },
}

/// Summary at the end of an agent's run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    /// The intended time of the last request.
    pub(crate) last_ns: u64,
    /// The idle time of the agent's threads.
    pub(crate) sender: Option<Sender>,
    /// The share of the processor time on the agent's machine that other processes and the
    /// hypervisor took.
    pub(crate) machine: Option<Taken>,
}

/// Why an agent refuses an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Refusal {
    /// The agent uses the given protocol version, which differs from the coordinator's.
    Version { protocol: u32, curtail: String },
    /// The agent requires a different token.
    Token,
    /// The agent is busy with another coordinator's run.
    Busy,
    /// The plan cannot be run.
    Plan { why: String },
    /// The agent's machine lacks something that the plan needs.
    Lacking { why: String },
}

/// Length limit for the first messages, so that an unknown peer cannot make this program buffer
/// more.
pub(crate) const GREETING_BYTES_MAX: usize = 4 << 10;
/// Length limit for orders, which leaves room for the longest query file after escaping.
pub(crate) const ORDER_BYTES_MAX: usize = 160 << 20;
/// Length limit for an agent's updates, which leaves room for the times of the first requests of
/// many threads.
pub(crate) const UPDATE_BYTES_MAX: usize = 32 << 20;

/// The reason why the next message could not be received. Each error text is a clause about the
/// peer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("it closed the connection")]
    Closed,
    #[error("it sent nothing for {}", format(.0.as_nanos() as u64))]
    Silent(Duration),
    #[error("it read nothing for {}", format(.0.as_nanos() as u64))]
    Stuck(Duration),
    #[error("it sent an invalid message: {0}; is it a curtail agent?")]
    Malformed(String),
    #[error("a message to it would have {bytes} bytes; at most {most} are allowed")]
    TooLong { bytes: usize, most: usize },
}

/// The peer's messages.
#[derive(Debug)]
pub(crate) struct Frames(FramedRead<OwnedReadHalf, LengthDelimitedCodec>);

impl Frames {
    pub(crate) fn new(stream: OwnedReadHalf) -> Frames {
        Frames(FramedRead::new(stream, codec(GREETING_BYTES_MAX)))
    }

    /// Sets the length limit for the messages that follow.
    pub(crate) fn allow(&mut self, most: usize) {
        self.0.decoder_mut().set_max_frame_length(most);
    }

    /// Returns the next message. Cancel safe.
    pub(crate) async fn next<M: DeserializeOwned>(&mut self) -> Result<M, FrameError> {
        match self.0.next().await {
            Some(frame) => parse(frame),
            None => Err(FrameError::Closed),
        }
    }

    /// Returns the next message, or an error if none arrives within `time`.
    pub(crate) async fn next_within<M: DeserializeOwned>(
        &mut self,
        time: Duration,
    ) -> Result<M, FrameError> {
        timeout(time, self.next()).await.map_err(|_| FrameError::Silent(time))?
    }
}

fn codec(most: usize) -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(most).new_codec()
}

fn parse<M: DeserializeOwned>(frame: io::Result<BytesMut>) -> Result<M, FrameError> {
    match frame {
        Ok(frame) => {
            serde_json::from_slice(&frame).map_err(|e| FrameError::Malformed(e.to_string()))
        }
        // The length exceeds the limit.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(FrameError::Malformed("its length is out of range".to_owned()))
        }
        Err(error) => Err(FrameError::Io(error)),
    }
}

/// Encodes a message with its length prefix.
fn encode(message: &impl Serialize, most: usize) -> Result<BytesMut, FrameError> {
    let json = serde_json::to_vec(message).map_err(io::Error::from)?;
    let (bytes, mut frame) = (json.len(), BytesMut::new());
    let encoded = codec(most).encode(Bytes::from(json), &mut frame);
    encoded.map_err(|_| FrameError::TooLong { bytes, most }).map(|()| frame)
}

/// Sends a message. Each write must make progress within `time`.
pub(crate) async fn send(
    stream: &mut OwnedWriteHalf,
    message: &impl Serialize,
    most: usize,
    time: Duration,
) -> Result<(), FrameError> {
    let mut left = encode(message, most)?;
    while left.has_remaining() {
        let written = timeout(time, stream.write_buf(&mut left)).await;
        if written.map_err(|_| FrameError::Stuck(time))?? == 0 {
            return Err(FrameError::Closed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use curtail_dist::arrivals::Arrivals;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use tokio_util::codec::Decoder as _;

    use super::*;
    use crate::plan::Pace;
    use crate::plan::protocol::ResponseEnd;
    use crate::plan::schedule::{Extent, KeyDistribution, Keys, QueryOrder};

    fn sent(plan: &Plan) -> Value {
        serde_json::to_value(plan).unwrap()
    }

    #[test]
    fn a_plan_survives_serialization() {
        let arrived = |plan: &Plan| serde_json::from_value::<Plan>(sent(plan)).unwrap();
        let mut plan = Plan::new("http://127.0.0.1:1/a?b=c".parse().unwrap(), 1.0);
        let gaps = vec![0.5, 1.5].into();
        let trace = Arrivals::Trace { path: "t.txt".into(), gaps, mean_ns: Some(1.0 / 3.0) };
        for (rate, arrivals) in [
            ("333.3333333333333", Arrivals::Poisson),
            ("10..70", Arrivals::Constant),
            ("1:10s,2:1h", Arrivals::parse("mmpp:5:0.1:50ms", 1.0).unwrap()),
            ("7", trace),
        ] {
            plan.pace = Pace::Open { profile: rate.parse().unwrap(), arrivals };
            assert_eq!(arrived(&plan), plan);
        }
        (plan.pace, plan.extent) = (Pace::Closed, Extent::Requests(u64::MAX));
        plan.headers = vec![("a".to_owned(), "\u{1}ü\"".to_owned())];
        plan.queries = vec!["/ä".to_owned(), "{\"path\": \"/\"}".to_owned()];
        plan.order = QueryOrder::Rounds;
        plan.protocol.keys = Some(Keys { count: 3, distribution: KeyDistribution::Zipf(0.99) });
        plan.protocol.response_end = ResponseEnd::Until(vec![0, 255]);
        plan.protocol.trust = Trust::Anyone;
        assert_eq!(arrived(&plan), plan);
    }

    #[test]
    fn a_part_out_of_range_is_refused() {
        let plan = Plan::new("http://127.0.0.1:1/".parse().unwrap(), 1.0);
        let most = AGENTS_MAX as u64;
        for (number, of, fine) in [
            (0, 1, true),
            (most - 1, most, true),
            (0, 0, false),
            (1, 1, false),
            (0, most + 1, false),
            (u64::MAX - 1, u64::MAX, false),
        ] {
            let sent = PartOfPlan { part: Part { number, of }, plan: plan.clone() };
            assert_eq!(sent.validate().is_ok(), fine, "{number} of {of}");
        }
    }

    #[test]
    fn a_plan_cannot_make_an_agent_open_files() {
        let mut plan = Plan::new("https://127.0.0.1:1/".parse().unwrap(), 1.0);
        plan.protocol.trust = Trust::File("ca.pem".into());
        assert!(PartOfPlan { part: Part::WHOLE, plan: plan.clone() }.validate().is_err());
        let trace =
            |gaps: Value| json!({ "trace": { "name": "t", "gaps": gaps, "mean_ns": null } });
        let none = [trace(json!([])), trace(json!([0.0, 0.0])), trace(json!([-1.0, 3.0]))];
        for process in
            none.into_iter().chain(["trace:/etc/passwd", "trace"].map(|t| json!({"text": t})))
        {
            let mut value = sent(&plan);
            value["pace"]["Open"]["arrivals"] = process;
            assert!(serde_json::from_value::<Plan>(value).is_err());
        }
    }

    /// Takes the first message from the buffer. Returns `None` while the message is incomplete.
    fn take<M: DeserializeOwned>(
        bytes: &mut BytesMut,
        most: usize,
    ) -> Result<Option<M>, FrameError> {
        codec(most).decode(bytes).transpose().map(parse).transpose()
    }

    fn framed(json: &str) -> BytesMut {
        let mut bytes = BytesMut::from(&(json.len() as u32).to_be_bytes()[..]);
        bytes.extend_from_slice(json.as_bytes());
        bytes
    }

    #[test]
    fn messages_that_are_too_long_are_neither_read_nor_sent() {
        let mut http = BytesMut::from(&b"HTTP/1.1 400 Bad Request\r\n"[..]);
        let error = take::<Update>(&mut http, GREETING_BYTES_MAX).unwrap_err().to_string();
        assert!(error.contains("curtail agent?"), "{error}");
        let error = encode(&Order::Stop, 3).unwrap_err().to_string();
        assert!(error.contains("6 bytes; at most 3"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_rejected(mut bytes: Vec<u8>, json: String) {
            let _ = take::<Update>(&mut BytesMut::from(&bytes[..]), 1_000);
            let _ = take::<Order>(&mut framed(&json), 1_000);
            bytes.splice(0..0, (bytes.len() as u32).to_be_bytes());
            let _ = take::<Hello>(&mut BytesMut::from(&bytes[..]), 1_000);
        }
    }
}
