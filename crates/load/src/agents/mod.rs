//! Runs one load from several machines under one coordinator.
//!
//! Each machine runs an agent ([`serve`]). The coordinator ([`run`]) sends one plan to all agents.
//! Each agent sends its part of one schedule, starting at a common time, and returns its
//! measurements as records. The coordinator merges these records as it merges the records of
//! threads: it adds up their counts, so the sum is what a single generator would have counted. The
//! report contains everything that the report on a single run contains: percentiles with confidence
//! intervals, latency parts, the arrival test, and verdicts. It also lists the problems of each
//! agent.
//!
//! The coordinator sends an agent only the plan, and the agent returns only counts. The connection
//! carries the token and is not encrypted, so run agents on loopback, behind a tunnel, or on a
//! trusted network.
//!
//! # Map
//!
//! Both sides exchange `message`s. `agent` admits coordinators and carries out their runs. On the
//! coordinator's side, `crew` drives the agents over its connections to them, and `verdict` draws the
//! conclusions.

mod agent;
mod crew;
mod message;
mod verdict;

use std::fmt;
use std::time::Duration;

use crate::plan::error::PlanError;

pub use crate::results::report::AgentReport;
pub use agent::{Event, serve};
pub use crew::run;

#[cfg(test)]
pub(crate) use verdict::own_plan;

/// Maximum number of agents in a run.
pub const AGENTS_MAX: usize = 64;
/// Maximum length of a token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 1 << 10;

/// Timeout for the greeting. A peer that does not identify itself within this time is neither a
/// coordinator nor an agent.
const GREETING: Duration = Duration::from_secs(5);
/// How long an agent may take to get ready after it receives the plan. During this time it resolves
/// names and renders requests.
const PREPARATION: Duration = Duration::from_secs(60);
/// How long a peer may stay silent during a run.
const SILENCE: Duration = Duration::from_secs(10);

/// Why a run with agents failed. An agent that fails during a run does not cause an error; the
/// report describes the failure instead.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages document the fields")]
pub enum AgentsError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("agents do not support {0}")]
    Unsupported(&'static str),
    #[error("agent `{0}` is not HOST:PORT, such as 10.0.0.2:7400")]
    Address(String),
    #[error("{0} agents; use 1 to {AGENTS_MAX}")]
    Count(usize),
    #[error("agent {0} is used twice; an agent does one run at a time")]
    Twice(String),
    #[error(
        "{agents} agents of {threads} threads each need a connection per thread; use {need} \
         connections or more"
    )]
    Connections { agents: usize, threads: usize, need: usize },
    /// An agent refused the plan or the coordinator. Trying again with the same plan and token does
    /// not help.
    #[error("agent {agent}: {why}")]
    Refused { agent: String, why: String },
    /// An agent is unreachable, is busy, or lacks a feature that the plan needs, or the peer is not
    /// an agent.
    #[error("agent {agent}: {why}")]
    Lacking { agent: String, why: String },
    #[error("interrupted before the agents were ready")]
    Interrupted,
}

/// The reason why a text is not a valid [`Token`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages document the variants")]
pub enum TokenError {
    #[error("it is empty; write a long random text, such as the output of openssl rand -hex 32")]
    Empty,
    #[error(
        "it is longer than {TOKEN_BYTES_MAX} bytes; write a random text, such as the output of \
         openssl rand -hex 32"
    )]
    TooLong,
}

/// A secret that a coordinator and its agents share. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Creates a token from a text, ignoring white space at its start and end.
    ///
    /// # Errors
    ///
    /// Returns a [`TokenError`] if the remaining text is empty or too long.
    pub fn new(text: &str) -> Result<Token, TokenError> {
        let text = text.trim();
        match text.len() {
            0 => Err(TokenError::Empty),
            1..=TOKEN_BYTES_MAX => Ok(Token(text.to_owned())),
            _ => Err(TokenError::TooLong),
        }
    }

    /// Returns true if `other` equals the token. The comparison takes constant time for texts of
    /// equal length.
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
    /// The addresses of 1 to [`AGENTS_MAX`] agents, each as `HOST:PORT`.
    pub addresses: Vec<String>,
    /// The token that the agents require.
    pub token: Option<Token>,
}

/// Parses the address of an agent: `HOST:PORT`.
///
/// # Errors
///
/// Returns [`AgentsError::Address`] if the host or the port is missing or invalid.
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
    fn a_token_admits_only_itself_and_is_not_printed() {
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
            let error = parse_agent(bad).unwrap_err().to_string();
            assert!(error.contains("HOST:PORT"), "{error}");
        }
    }
}
