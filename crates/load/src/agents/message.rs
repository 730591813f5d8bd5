//! What a coordinator and an agent say to each other.
//!
//! | coordinator | agent |
//! |---|---|
//! | [`Hello`]: version and token | `welcome`, or `refused` and why |
//! | `plan`: what to send, and which part of it | `ready`, or `refused` |
//! | `ping`, some times | `pong`: what time it is there |
//! | `start` at a time of the agent's clock | |
//! | `ping` now and then: the coordinator is there | `record`, twice per second: what was measured since |
//! | `drain` or `stop`, where the run is to end early | `end`, or `failed` and why |
//!
//! The forms of [`Hello`] and of [`Refusal::Version`] stay as they are for good, so that any two versions
//! can tell each other apart. Whatever else changes raises [`PROTOCOL`], and so does what changes a schedule:
//! agents of one run must draw the same.

use serde::{Deserialize, Serialize};

use super::asked::Asked;
use super::counted::Counted;
use crate::engine::stamp::Stamping;

/// The version of what follows the greeting.
pub(crate) const PROTOCOL: u32 = 2;
/// The release, for people.
pub(crate) const CURTAIL: &str = env!("CARGO_PKG_VERSION");

/// A coordinator's first words. No `Debug`: the token is a secret.
#[derive(Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    pub(crate) curtail: String,
    pub(crate) token: Option<String>,
}

/// What a coordinator says after that. No `Debug`: headers of a plan may be secrets.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Plan(Box<Asked>),
    Ping,
    /// The schedule begins then, in nanoseconds of the agent's clock.
    Start {
        at_ns: u64,
    },
    /// Send nothing more, and end when all is answered.
    Drain,
    /// End at once.
    Stop,
}

/// What an agent says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    Welcome,
    Refused(Refusal),
    /// All is prepared.
    Ready {
        /// Where the plan asks for stamps of the kernel.
        stamps: Option<Stamping>,
    },
    /// Its clock, in nanoseconds since a moment of its own.
    Pong {
        at_ns: u64,
    },
    /// What was measured since the last one.
    Record(Box<Counted>),
    /// All was told.
    End {
        /// The intended time of the last request.
        last_ns: u64,
    },
    /// The run cannot go on.
    Failed {
        why: String,
    },
}

/// Why an agent does not do what it is asked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Refusal {
    /// It speaks this one.
    Version { protocol: u32, curtail: String },
    /// It wants another one.
    Token,
    /// It has a run of another coordinator.
    Busy,
    /// The plan cannot be run.
    Plan { why: String },
    /// Its machine lacks something.
    Lacking { why: String },
}
