//! One load that several machines send, driven from one place.
//!
//! An agent ([`serve`]) waits on each machine. A coordinator ([`run`]) tells all of them one plan, and each
//! sends its part of one schedule, from a common time on. What they measure comes back as records, which are
//! added up as those of threads are: counts by counts, so that the sum is what one generator would have
//! counted. What is said of one run (percentiles with intervals, parts, the arrival test, verdicts) is said of
//! the sum, and beside it what speaks against each agent.
//!
//! Nothing but the plan goes to an agent, and nothing but counts comes back. The connection is not encrypted,
//! and the token goes over it: agents belong on loopback, behind a tunnel, or into a network that one trusts.
//!
//! # Map
//!
//! On both sides `message` is what is said, in `frame`s. The agent's side is `agent`, which lets coordinators in, and `session`, a run for one. The
//! coordinator's side is `link` to one agent, `crew`, which drives all, and `verdict`.

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

/// Who does not say who they are by then are no coordinator, and no agent.
const GREETING: Duration = Duration::from_secs(5);
/// From the plan until an agent is ready: names are looked up, requests made ready.
const PREPARATION: Duration = Duration::from_secs(60);
/// During a run, who says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(10);

/// Why a run with agents did not take place. Agents that fail during it are part of the report.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the fields are")]
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
    Connections { agents: usize, threads: usize, need: usize },
    /// An agent does not take this plan or this coordinator, and what it was told has to change.
    #[error("agent {agent}: {why}")]
    Refused { agent: String, why: String },
    /// An agent cannot be reached, is busy or no agent, or lacks something.
    #[error("agent {agent}: {why}")]
    Lacking { agent: String, why: String },
    /// The run was given up before it began.
    #[error("interrupted before the agents were ready")]
    Interrupted,
}

/// Why a text is no [`Token`].
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

/// A secret that a coordinator and its agents share. It is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// From a text; white space around it is no part of it.
    ///
    /// # Errors
    ///
    /// [`TokenError`] if nothing is left, or too much.
    pub fn new(text: &str) -> Result<Token, TokenError> {
        let text = text.trim();
        match text.len() {
            0 => Err(TokenError::Empty),
            TOKEN_BYTES_MAX.. => Err(TokenError::TooLong),
            _ => Ok(Token(text.to_owned())),
        }
    }

    /// True if the other is the same. Takes as long wherever they differ.
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

/// Who sends a load.
#[derive(Debug, Clone)]
pub struct Agents {
    /// Each as `HOST:PORT`, 1 to [`AGENTS_MAX`].
    pub addresses: Vec<String>,
    /// What they want to be told.
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
        assert!(matches!(Token::new(&"x".repeat(2_000)), Err(TokenError::TooLong)));
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
