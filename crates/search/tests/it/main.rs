//! Tests of the index, the search in it, and the leaf and root servers over sockets.

mod common;
mod equivalence;
mod leaf_cancel;
mod leaf_server;
mod leaf_time;
mod lifecycle;
mod merge;
mod net;
mod query_semantics;
mod root_server;
mod sampling;
