//! One query to every shard, and their answers into one.

use curtail_kernel::ServerId;
use curtail_runtime::http::{Http, Request, Response};
use curtail_runtime::{Cell, Query, QueryError, Reply};
use futures_util::stream::{FuturesUnordered, TryStreamExt as _};
use serde::{Deserialize, Serialize};

use super::timing::ShardTiming;
use crate::leaf::{Hit, SearchAnswer, merge_top_k};
use crate::serve::timing;

/// Longest answer of a leaf, in bytes: 1000 hits with titles of 8 kB.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// What the root answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RootAnswer {
    /// The best documents of all shards, in [`Hit::order`].
    pub hits: Vec<Hit>,
    /// How many documents match in all shards. Exact.
    pub matched: u64,
    /// How many shards were asked. All of them answered.
    pub shards: usize,
}

/// What the root answers, with status 503, where a shard has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardError {
    /// That and why there is no answer, for people.
    pub error: String,
    /// Which shard.
    pub shard: usize,
    /// Why it has none.
    pub why: String,
}

/// The answers of all shards, and what they took.
pub(super) struct Merged {
    pub(super) answer: RootAnswer,
    pub(super) copies: u64,
    pub(super) queued_ns: u64,
    /// Where the time of each shard went, in the order of their answers.
    pub(super) timings: Vec<(usize, ShardTiming)>,
}

/// One shard's answer, and what it took.
struct Part {
    answer: SearchAnswer,
    copies: u32,
    queued_ns: u64,
    shard: usize,
    timing: ShardTiming,
}

/// Asks all shards and merges their answers. The first failure ends it, and dropping the future
/// abandons the queries that still run.
pub(super) async fn ask(
    cells: &[Cell<Http>],
    request: &Request,
    k: usize,
) -> Result<Merged, ShardError> {
    let ask = |(shard, cell): (usize, &Cell<Http>)| {
        // All queries arrive in their cells here, before the first answer is awaited.
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
    let answer = RootAnswer { hits: merge_top_k(hits, k), matched, shards: cells.len() };
    Ok(Merged { answer, copies, queued_ns, timings })
}

async fn part(shard: usize, cell: Cell<Http>, reply: Reply<Http>) -> Result<Part, ShardError> {
    let failed = |why: String| ShardError {
        error: format!("no answer from shard {shard}: {why}; try again later"),
        shard,
        why,
    };
    let answered = reply.await.map_err(|error| failed(explain(&error)))?;
    let (copies, queued_ns, server) = (answered.copies, answered.queued_ns, answered.server);
    let said = answered.response.head.header(timing::HEADER);
    let timing = ShardTiming::new(answered.took_ns, answered.ran_ns, said);
    let answer = read(shard, answered.response).await;
    let answer = answer.map_err(|what| failed(format!("{} {what}", leaf(&cell, server))))?;
    Ok(Part { answer, copies, queued_ns, shard, timing })
}

fn leaf(cell: &Cell<Http>, server: ServerId) -> String {
    format!("the leaf {}", cell.transport().pool(server).address())
}

fn explain(error: &QueryError<Response>) -> String {
    match error {
        QueryError::Failed { response: Some(response), .. } => {
            format!("{error} (the last one answered with status {})", response.head.status())
        }
        error => error.to_string(),
    }
}

/// Reads a leaf's answer. An error says what the leaf did.
async fn read(shard: usize, response: Response) -> Result<SearchAnswer, String> {
    let status = response.head.status();
    if status != 200 {
        return Err(format!("answered with status {status}: is it a leaf?"));
    }
    let body = response.whole(ANSWER_BYTES_MAX).await;
    let body = body.map_err(|_| "broke off inside of its answer".to_owned())?;
    let answer: SearchAnswer = serde_json::from_slice(&body)
        .map_err(|error| format!("sent what is no search answer ({error})"))?;
    // A leaf in the wrong place would show its documents twice and hide those of another.
    if answer.shard as usize != shard {
        return Err(format!("serves shard {}: correct the root's addresses", answer.shard));
    }
    Ok(answer)
}
