//! Sends a query to every shard, and merges the results.

use curtail_kernel::ServerId;
use curtail_runtime::http::{Http, Request, Response};
use curtail_runtime::{Cell, Query, QueryError, Reply};
use futures_util::stream::{FuturesUnordered, TryStreamExt as _};
use serde::{Deserialize, Serialize};

use super::timing::ShardTiming;
use crate::leaf::{Hit, SearchResponse, merge_top_k};
use crate::serve::timing;

/// Maximum length of a leaf's response, in bytes: 1000 hits with titles of 8 kB.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// The search result of the root.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RootResponse {
    /// The best documents of all shards, in [`Hit::order`].
    pub hits: Vec<Hit>,
    /// The exact number of matching documents in all shards.
    pub matched: u64,
    /// The number of shards, all of which responded.
    pub shards: usize,
}

/// The body of the root's response with status 503, if a shard has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardError {
    /// The complete, human-readable error message.
    pub error: String,
    /// The number of the shard.
    pub shard: usize,
    /// The reason alone.
    pub why: String,
}

/// The merged results of all shards, with their times.
pub(super) struct Merged {
    pub(super) answer: RootResponse,
    pub(super) copies: u64,
    pub(super) queued_ns: u64,
    /// The times of each shard, in the order in which the shards responded.
    pub(super) timings: Vec<(usize, ShardTiming)>,
}

/// The result of one shard, with its times.
struct Part {
    answer: SearchResponse,
    copies: u32,
    queued_ns: u64,
    shard: usize,
    timing: ShardTiming,
}

/// Sends the query to all shards and merges the results. Returns as soon as a shard fails. Dropping
/// the future abandons the queries that still run.
pub(super) async fn ask(
    cells: &[Cell<Http>],
    request: &Request,
    k: usize,
) -> Result<Merged, ShardError> {
    let ask = |(shard, cell): (usize, &Cell<Http>)| {
        // All queries are passed to their cells here, before the first result is awaited.
        part(shard, cell.clone(), cell.query(Query::new(request.clone())))
    };
    let mut parts: FuturesUnordered<_> = cells.iter().enumerate().map(ask).collect();
    let (mut hits, mut matched) = (Vec::with_capacity(cells.len()), 0_u64);
    let (mut copies, mut queued_ns) = (0, 0);
    let mut timings = Vec::with_capacity(cells.len());
    while let Some(part) = parts.try_next().await? {
        matched = matched.saturating_add(part.answer.matched);
        hits.push(part.answer.hits);
        copies += u64::from(part.copies);
        queued_ns = queued_ns.max(part.queued_ns);
        timings.push((part.shard, part.timing));
    }
    let answer = RootResponse { hits: merge_top_k(hits, k), matched, shards: cells.len() };
    Ok(Merged { answer, copies, queued_ns, timings })
}

async fn part(shard: usize, cell: Cell<Http>, reply: Reply<Http>) -> Result<Part, ShardError> {
    let failed = |why: String| ShardError {
        error: format!("no response from shard {shard}: {why}; try again later"),
        shard,
        why,
    };
    let answered = reply.await.map_err(|error| failed(explain(&error)))?;
    let (copies, queued_ns, server) = (answered.copies, answered.queued_ns, answered.server);
    let leaf_timing = answered.response.head.header(timing::HEADER);
    let timing = ShardTiming::new(answered.took_ns, answered.ran_ns, leaf_timing);
    let answer = read(shard, answered.response).await;
    let answer = answer.map_err(|why| failed(format!("{} {why}", leaf(&cell, server))))?;
    Ok(Part { answer, copies, queued_ns, shard, timing })
}

fn leaf(cell: &Cell<Http>, server: ServerId) -> String {
    format!("the leaf {}", cell.transport().upstream(server).address())
}

fn explain(error: &QueryError<Response>) -> String {
    match error {
        QueryError::Failed { response: Some(response), .. } => {
            format!("{error} (the last response had status {})", response.response.head.status())
        }
        error => error.to_string(),
    }
}

/// Reads a leaf's result. The error describes what the leaf did wrong.
async fn read(shard: usize, response: Response) -> Result<SearchResponse, String> {
    let status = response.head.status();
    if status != 200 {
        return Err(format!("responded with status {status}: is it a leaf?"));
    }
    let body = response.whole(ANSWER_BYTES_MAX).await;
    let body = body.map_err(|_| "broke off its response".to_owned())?;
    let answer: SearchResponse = serde_json::from_slice(&body)
        .map_err(|error| format!("sent an invalid search response ({error})"))?;
    // If an address led to a leaf of another shard, that leaf's documents would appear twice, and
    // those of the right shard would be missing.
    if answer.shard as usize != shard {
        return Err(format!("serves shard {}: correct the root's addresses", answer.shard));
    }
    Ok(answer)
}
