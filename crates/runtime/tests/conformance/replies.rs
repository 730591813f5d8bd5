//! Checks that clients get the replies that the cell decided.

use curtail_kernel::{Action, FailReason, Role, ServerId, ShedReason};
use curtail_runtime::http::Response;
use curtail_runtime::{QueryError, QueryResponse};
use curtail_sim::script::{Entry, Note};

use crate::client::Client;
use crate::leaf;

/// The end of a query, according to the log.
#[derive(Clone, Copy)]
enum End {
    QueryResponse { copy: u64 },
    Fail(FailReason),
    Shed(ShedReason),
}

/// Compares each reply with the log of its query.
pub async fn check(log: &[Entry], clients: Vec<Option<Client>>) -> Result<(), String> {
    let mut ends = vec![None; clients.len()];
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
    for (query, (end, client)) in ends.into_iter().zip(clients).enumerate() {
        let Some(client) = client else { continue };
        match (end, client.result()) {
            // The query waits for a server to return, and the scenario has ended.
            (None, None) => {}
            (None, Some(_)) => {
                return Err(format!("q{query} has not ended, but its client got a response"));
            }
            (Some(_), None) => {
                return Err(format!("q{query} has ended, and its client got nothing"));
            }
            (Some(end), Some(result)) => one(query, end, result, &copies).await?,
        }
    }
    Ok(())
}

async fn one(
    query: usize,
    end: End,
    result: Result<QueryResponse<Response>, QueryError<Response>>,
    copies: &[(ServerId, Role)],
) -> Result<(), String> {
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
        let expected = leaf::body(query as u32, response.server.0);
        let body = response.response.whole(1 << 10).await.map_err(|why| format!("{why:?}"))?;
        if body != expected {
            return Err(format!("the client of q{query} got {body:?}, not {expected:?}"));
        }
    }
    Ok(())
}
