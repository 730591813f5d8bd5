//! A real sharded search service over a real corpus: its engine, its leaves and its root. It is what the
//! demo drives and the tests run against: a root sends a [`Query`] to one [`Leaf`] of every shard and
//! merges their answers, so the slowest leaf decides how long the user waits.
//!
//! # The one invariant
//!
//! **The merged answer of N shards equals the answer of one index over the same corpus: the same
//! documents, in the same order, with bit-equal scores.** Three things make it hold:
//!
//! 1. every leaf scores with the statistics of the whole corpus, which the index stores beside
//!    the shards ([`ShardedIndex`]);
//! 2. scores are summed in the order of the query's clauses, never in an order that depends on
//!    how many documents a shard happens to have ([`Leaf`]);
//! 3. equal scores are ordered by document id, in the leaf and in the merge ([`merge_top_k`]).
//!
//! # Map
//!
//! - the engine: [`Corpus`], [`ShardedIndex`], [`Query`], [`Leaf`], and [`sample_queries`] for a load;
//! - the service: [`leaf_server`] puts one shard behind HTTP and may stretch its service times,
//!   [`root_server`] asks all shards through the kernel and merges.

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
pub use leaf::{Hit, Leaf, MAX_HITS, SearchAnswer, SearchError, merge_top_k};
pub use leaf_server::{LeafConfig, LeafServer};
pub use query::{Query, QueryError};
pub use root_server::{RootConfig, RootServer};

/// What serves until it is done. An async function is compiled where it is polled; boxed, a server is compiled in this
/// crate, and not in the command line, which the release profile optimizes less.
pub type Serving = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
pub use sample::sample_queries;
