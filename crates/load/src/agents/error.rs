//! Why several machines did not send a load.

use super::{AGENTS_MAX, TOKEN_BYTES_MAX};
use crate::plan::error::PlanError;

/// Why a run with agents did not take place. Agents that fail during it are part of the report.
#[derive(Debug, thiserror::Error)]
pub enum AgentsError {
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan has something that agents are not told.
    #[error("agents cannot have {0}")]
    Unsupported(&'static str),
    /// Not the address of an agent.
    #[error("agent `{0}` is not HOST:PORT, such as 10.0.0.2:7400")]
    Address(String),
    /// Too many, or none.
    #[error("{0} agents; use 1 to {AGENTS_MAX}")]
    Count(usize),
    /// One address twice.
    #[error("agent {0} is named twice; an agent has one run at a time")]
    Twice(String),
    /// Some thread would have no connection.
    #[error(
        "{agents} agents of {threads} threads each need a connection per thread; use {need} or more"
    )]
    Connections {
        /// How many there are.
        agents: usize,
        /// Of each.
        threads: usize,
        /// Their product.
        need: usize,
    },
    /// An agent does not take this plan or this coordinator, and the mend is in what it was told.
    #[error("agent {agent}: {why}")]
    Refused {
        /// Its address.
        agent: String,
        /// What it says.
        why: String,
    },
    /// An agent cannot be reached, is busy or no agent, or lacks something.
    #[error("agent {agent}: {why}")]
    Lacking {
        /// Its address.
        agent: String,
        /// What is missing.
        why: String,
    },
    /// The run was given up before it began.
    #[error("interrupted before the agents were ready")]
    Interrupted,
}

/// Why a text is no [`Token`](super::Token).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Nothing but white space.
    #[error("it is empty; write a long random text, such as openssl rand -hex 32 prints")]
    Empty,
    /// Longer than any secret.
    #[error(
        "it is longer than {TOKEN_BYTES_MAX} bytes; write a random text, such as openssl rand -hex 32 prints"
    )]
    TooLong,
}
