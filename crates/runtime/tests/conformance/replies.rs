//! Checks that clients get the replies that the cell decided.

use std::time::Duration;

use curtail_kernel::{Action, FailReason, Role, ServerId, ShedReason};
use curtail_runtime::http::Http;
use curtail_runtime::{QueryError, Reply};
use curtail_sim::script::{Entry, Note};

/// The end of a query, according to the log.
#[derive(Clone, Copy)]
enum End {
    QueryResponse { copy: u64 },
    Fail(FailReason),
    Shed(ShedReason),
}

/// Compares each reply with the log of its query.
pub async fn check(log: &[Entry], replies: Vec<Option<Reply<Http>>>) -> Result<(), String> {
    let mut ends = vec![None; replies.len()];
    let mut copies: Vec<(ServerId, Role)> = Vec::new();
    for entry in log {
        let Note::Action(action) = entry.what else { continue };
        match action {
            Action::Start { server, role, .. } => copies.push((server, role)),
            Action::Answer { query, copy } => {
                ends[query.index()] = Some(End::QueryResponse { copy: copy.serial });
            }
            Action::Fail { query, why, .. } => ends[query.index()] = Some(End::Fail(why)),
            Action::Shed { query, why } => ends[query.index()] = Some(End::Shed(why)),
            Action::Stop { .. }
            | Action::Lose { .. }
            | Action::Eject { .. }
            | Action::Restore { .. }
            | Action::Probe { .. } => {}
        }
    }
    for (query, (end, reply)) in ends.into_iter().zip(replies).enumerate() {
        let Some(reply) = reply else { continue };
        let Some(end) = end else {
            // The query waits for a server to return, and the scenario has ended.
            let pending = tokio::time::timeout(Duration::ZERO, reply).await;
            pending
                .err()
                .ok_or_else(|| format!("q{query} has not ended, but its client got a response"))?;
            continue;
        };
        one(query, end, reply, &copies).await?;
    }
    Ok(())
}

async fn one(
    query: usize,
    end: End,
    reply: Reply<Http>,
    copies: &[(ServerId, Role)],
) -> Result<(), String> {
    // The reply is available already, so there is no wait.
    let result = tokio::time::timeout(Duration::ZERO, reply).await;
    let result = result.map_err(|_| format!("q{query} has ended, and its client got nothing"))?;
    let as_decided = match (end, &result) {
        (End::QueryResponse { copy }, Ok(response)) => {
            copies.get(copy as usize) == Some(&(response.server, response.role))
        }
        (End::Fail(FailReason::Timeout), Err(QueryError::Timeout))
        // In this case, the copy was silent for too long, or was lost with its server.
        | (End::Fail(FailReason::CopyFailed), Err(QueryError::Timeout | QueryError::Failed { .. }))
        | (End::Shed(ShedReason::QueueFull), Err(QueryError::QueueFull))
        | (End::Shed(ShedReason::Expired), Err(QueryError::Expired)) => true,
        _ => false,
    };
    if !as_decided {
        return Err(format!("the client of q{query} got another result: {result:?}"));
    }
    if let Ok(response) = result {
        let expected = format!("q{query} by s{}", response.server.0);
        let body = response.response.whole(1 << 10).await.map_err(|why| format!("{why:?}"))?;
        if body != expected {
            return Err(format!("the client of q{query} got {body:?}, not {expected:?}"));
        }
    }
    Ok(())
}
