//! The outcomes of requests: counts that are collected during a run, and percentiles, confidence
//! intervals and verdicts that are derived from them.

pub(crate) mod arrival_test;
pub(crate) mod blocks;
pub(crate) mod conclude;
pub(crate) mod counts;
pub(crate) mod errors;
pub(crate) mod facts;
pub(crate) mod limit;
pub(crate) mod outcome;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod split;
pub(crate) mod summary;
pub(crate) mod verdict;
pub(crate) mod watch;
