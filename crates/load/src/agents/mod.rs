//! Runs one load from several machines under one coordinator.
//!
//! Each machine runs an agent ([`serve`]). The coordinator ([`run`]) sends one plan to all agents, and each
//! agent sends its part of one schedule, starting at a common time. Agents return their measurements as
//! records. The coordinator merges these like the records of threads: counts add up, so the sum is what one
//! generator would have counted. The report concludes from the sum what it concludes from a single run
//! (percentiles with intervals, parts, the arrival test, verdicts), and lists the reasons against each agent.
//!
//! Only the plan goes to an agent, and only counts come back. The connection is not encrypted and carries the
//! token: run agents on loopback, behind a tunnel, or in a trusted network.
//!
//! # Map
//!
//! Both sides exchange `message`s in `frame`s. An agent has `agent`, which admits coordinators, and
//! `session`, one run. A coordinator has `link` to one agent, `crew` to drive all, and `verdict`.

mod agent;
mod crew;
mod frame;
mod link;
mod message;
mod session;
mod verdict;

use std::fmt;
use std::time::Duration;

use crate::plan::error::PlanError;

pub use agent::{Event, serve};
pub use crew::run;
pub use verdict::AgentReport;
#[cfg(test)]
pub(crate) use verdict::own_plan;

/// Most agents of a run.
pub const AGENTS_MAX: usize = 64;
/// The longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 1 << 10;

/// A peer that does not identify itself by then is neither a coordinator nor an agent.
const GREETING: Duration = Duration::from_secs(5);
/// From the plan until an agent is ready: the agent resolves names and renders requests.
const PREPARATION: Duration = Duration::from_secs(60);
/// During a run, a peer that sends nothing for this long is gone.
const SILENCE: Duration = Duration::from_secs(10);

/// Why a run with agents failed. An agent that fails during a run is part of the report instead.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the fields are")]
pub enum AgentsError {
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan needs something that agents do not support.
    #[error("agents cannot have {0}")]
    Unsupported(&'static str),
    /// Not the address of an agent.
    #[error("agent `{0}` is not HOST:PORT, such as 10.0.0.2:7400")]
    Address(String),
    /// Too many agents, or none.
    #[error("{0} agents; use 1 to {AGENTS_MAX}")]
    Count(usize),
    /// One address is given twice.
    #[error("agent {0} is named twice; an agent has one run at a time")]
    Twice(String),
    /// Some thread would have no connection.
    #[error(
        "{agents} agents of {threads} threads each need a connection per thread; use {need} or more"
    )]
    Connections { agents: usize, threads: usize, need: usize },
    /// An agent refuses this plan or this coordinator, and what the coordinator sends has to change.
    #[error("agent {agent}: {why}")]
    Refused { agent: String, why: String },
    /// An agent is unreachable, busy or no agent, or lacks something.
    #[error("agent {agent}: {why}")]
    Lacking { agent: String, why: String },
    /// The run was cancelled before it began.
    #[error("interrupted before the agents were ready")]
    Interrupted,
}

/// Why a text is not a [`Token`].
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

/// A secret that a coordinator and its agents share. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Creates a token from a text, without the white space around it.
    ///
    /// # Errors
    ///
    /// [`TokenError`] if nothing is left, or too much.
    pub fn new(text: &str) -> Result<Token, TokenError> {
        let text = text.trim();
        match text.len() {
            0 => Err(TokenError::Empty),
            1..=TOKEN_BYTES_MAX => Ok(Token(text.to_owned())),
            _ => Err(TokenError::TooLong),
        }
    }

    /// True if `other` is the token. Takes constant time for texts of one length.
    fn admits(&self, other: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), other.as_bytes());
        let differ = own.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b));
        own.len() == other.len() && std::hint::black_box(differ) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The agents of a run.
#[derive(Debug, Clone)]
pub struct Agents {
    /// Each as `HOST:PORT`, 1 to [`AGENTS_MAX`].
    pub addresses: Vec<String>,
    /// The token that the agents require.
    pub token: Option<Token>,
}

/// Reads the address of an agent: `HOST:PORT`.
///
/// # Errors
///
/// [`AgentsError::Address`] if it has no host or no port.
pub fn parse_agent(text: &str) -> Result<String, AgentsError> {
    let text = text.trim();
    let (host, port) = text.rsplit_once(':').unwrap_or_default();
    let whole = host.starts_with('[') == host.ends_with(']')
        && (host.starts_with('[') || !host.contains(':'));
    if host.is_empty() || !whole || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(AgentsError::Address(text.to_owned()));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_admits_itself_and_is_not_shown() {
        let token = Token::new(" s3cret\n").unwrap();
        assert!(token.admits("s3cret"));
        assert!(!token.admits("s3cre") && !token.admits("s3creT") && !token.admits(""));
        assert_eq!(format!("{token:?}"), "Token");
        assert!(matches!(Token::new(" \n"), Err(TokenError::Empty)));
        assert!(Token::new(&"x".repeat(TOKEN_BYTES_MAX)).is_ok());
        assert!(matches!(Token::new(&"x".repeat(TOKEN_BYTES_MAX + 1)), Err(TokenError::TooLong)));
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for good in ["127.0.0.1:7400", " a.example:1", "[::1]:7400"] {
            assert_eq!(parse_agent(good).unwrap(), good.trim());
        }
        for bad in ["", "127.0.0.1", ":7400", "a:0", "a:70000", "::1:7400", "a:b", "[::1:7400"] {
            let said = parse_agent(bad).unwrap_err().to_string();
            assert!(said.contains("HOST:PORT"), "{said}");
        }
    }
}
