//! A real sharded search service over a real corpus: its engine, its leaves and its root.
//!
//! This is the service that the demo drives and that the tests run against. It is an online
//! data-intensive service in small: a root sends a [`Query`] to one [`Leaf`] of every shard and
//! merges their answers, so the slowest leaf decides how long the user waits.
//!
//! # The one invariant
//!
//! **The merged answer of N shards equals the answer of one index over the same corpus: the same
//! documents, in the same order, with bit-equal scores.** Three things make it hold:
//!
//! 1. every leaf scores with the statistics of the whole corpus, which the index stores beside
//!    the shards ([`index`]);
//! 2. scores are summed in the order of the query's clauses, never in an order that depends on
//!    how many documents a shard happens to have ([`leaf`]);
//! 3. equal scores are ordered by document id, in the leaf and in the merge ([`merge_top_k`]).
//!
//! # Map
//!
//! - the engine: [`corpus`], [`index`], [`query`], [`leaf`], and [`sample`] for a query load;
//! - the service: [`leaf_server`] puts one shard behind HTTP and may stretch its service times,
//!   [`root_server`] asks all shards through the kernel and merges.
//!
//! # How to use the engine
//!
//! ```no_run
//! use std::ops::ControlFlow;
//!
//! use curtail_search::{Corpus, Limits, Query, ShardedIndex, Source, merge_top_k};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let corpus = Corpus::load(&Source::Default, Limits::default())?;
//! let (index, _) = ShardedIndex::open_or_build("index".as_ref(), &corpus, 3, &mut |_, _| ControlFlow::Continue(()))?;
//! let query = Query::parse("+search \"full text\" engine")?;
//! let mut answers = Vec::new();
//! for shard in 0..index.shards() {
//!     answers.push(index.leaf(shard)?.answer(&query, 10)?.hits); // each leaf may be its own process
//! }
//! let best = merge_top_k(answers, 10);
//! # Ok(())
//! # }
//! ```

pub mod corpus;
pub mod index;
pub mod leaf;
pub mod leaf_server;
pub mod query;
pub mod root_server;
pub mod sample;

mod evaluate;
mod schema;
mod serve;

pub use corpus::{Corpus, CorpusError, Document, Limits, Source};
pub use index::{IndexError, Manifest, Outcome, ShardedIndex};
pub use leaf::{Hit, Leaf, MAX_HITS, SearchAnswer, SearchError, merge_top_k};
pub use leaf_server::{LeafConfig, LeafServer};
pub use query::{Query, QueryError};
pub use root_server::{RootConfig, RootServer};
pub use sample::sample_queries;
