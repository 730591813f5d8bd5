//! A real sharded search service over a real corpus, with its engine, its leaf servers and its root
//! server. The demo and the tests use it. A root sends a [`Query`] to one [`Leaf`] of every shard
//! and merges their results, so the slowest leaf determines how long the user waits.
//!
//! # The one invariant
//!
//! **The merged result of N shards equals the result of one index over the same corpus: the same
//! documents, in the same order, with bit-equal scores.** This invariant holds for three reasons:
//!
//! 1. every leaf scores with the statistics of the whole corpus, which the index stores together
//!    with the shards ([`ShardedIndex`]);
//! 2. scores are summed in the order of the query's clauses, never in an order that depends on how
//!    many documents a shard has ([`Leaf`]);
//! 3. equal scores are ordered by document id, in the leaf and in the merge ([`merge_top_k`]).
//!
//! # Map
//!
//! - the engine: [`Corpus`], [`ShardedIndex`], [`Query`], [`Leaf`], and [`sample_queries`], which
//!   generates a query load;
//! - the service: [`leaf_server`] serves one shard over HTTP and may stretch its service times.
//!   [`root_server`] sends queries to all shards through the kernel and merges the results.

mod corpus;
mod evaluate;
mod index;
mod leaf;
pub mod leaf_server;
mod query;
pub mod root_server;
mod sample;
mod schema;
mod serve;

pub use corpus::{Corpus, CorpusError, Document, Limits, Source};
pub use index::{IndexError, Outcome, Progress, ShardedIndex};
pub use leaf::{Hit, Leaf, MAX_HITS, SearchError, SearchResponse, merge_top_k};
pub use leaf_server::LeafConfig;
pub use query::{Query, QueryError};
pub use root_server::RootConfig;
pub use sample::sample_queries;
pub use serve::{BindError, Server};
