//! Executions of queries, in execution order.
//!
//! Cost: 16 bytes and O(1) per execution.

use std::collections::BTreeMap;

/// The maximum number of executions in a set.
pub const EXECUTIONS_MAX: usize = 100_000_000;

/// The executions of a set of queries, and P of each query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executions {
    classes: Vec<String>,
    queries: Vec<QueryTimes>,
    order: Vec<Execution>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueryTimes {
    /// The index of the query's class.
    pub(super) class: u32,
    /// The number of executions.
    pub(super) executions: u32,
    /// P, the minimum service time so far, in nanoseconds.
    pub(super) p_ns: u64,
    /// The index of the first execution that took this time. The jitter of this execution is 0 by
    /// definition.
    least_at: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Execution {
    query: u32,
    service_ns: u64,
}

impl Executions {
    /// Creates an empty set. `of_queries` yields the class (type) of query 0, of query 1, and so
    /// on. Callers without classes pass the same class for all queries.
    pub fn new<C: AsRef<str>>(of_queries: impl IntoIterator<Item = C>) -> Executions {
        let mut known: BTreeMap<String, u32> = BTreeMap::new();
        let mut classes = Vec::new();
        let query = |class: C| {
            let class = *known.entry(class.as_ref().to_owned()).or_insert_with_key(|name| {
                classes.push(name.clone());
                classes.len() as u32 - 1
            });
            QueryTimes { class, executions: 0, p_ns: u64::MAX, least_at: 0 }
        };
        let queries = of_queries.into_iter().map(query).collect();
        Executions { classes, queries, order: Vec::new() }
    }

    /// Adds an execution of `query` (counted from 0) that took `service_ns` nanoseconds. Executions
    /// must be added in the order in which they ran, because this order reveals clusters of
    /// hiccups. If the set already contains [`EXECUTIONS_MAX`] executions, the new one is not added
    /// and the method returns false.
    pub fn push(&mut self, query: usize, service_ns: u64) -> bool {
        if self.order.len() >= EXECUTIONS_MAX {
            return false;
        }
        let of = &mut self.queries[query];
        if of.executions == 0 || service_ns < of.p_ns {
            of.p_ns = service_ns;
            of.least_at = self.order.len() as u32;
        }
        of.executions += 1;
        self.order.push(Execution { query: query as u32, service_ns });
        true
    }

    /// Returns the classes, in the order of their first queries.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns the number of executions.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether the set contains no executions.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns P of `query`, in nanoseconds. `None` without executions.
    pub fn p_ns(&self, query: usize) -> Option<u64> {
        self.queries.get(query).filter(|query| query.executions > 0).map(|query| query.p_ns)
    }

    /// Returns the number of executions of the query that was executed least often.
    pub fn repetitions(&self) -> u32 {
        self.queries.iter().map(|query| query.executions).min().unwrap_or(0)
    }

    /// Returns a view of all queries.
    pub fn all(&self) -> View<'_> {
        View { executions: self, class: None }
    }

    /// Returns a view of the queries whose class has this index in [`classes`](Self::classes).
    /// `None` if the index is out of range.
    pub fn class(&self, index: usize) -> Option<View<'_>> {
        (index < self.classes.len()).then_some(View { executions: self, class: Some(index as u32) })
    }
}

/// The executions of one class, or of all classes.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    executions: &'a Executions,
    class: Option<u32>,
}

/// An execution and the P of its query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) query: usize,
    pub(super) service_ns: u64,
    pub(super) p_ns: u64,
    /// Whether the P of the query was measured in this execution. If so, its jitter does not count
    /// as a sample.
    pub(super) is_least: bool,
}

impl Measured {
    pub(super) fn jitter_ns(&self) -> u64 {
        self.service_ns.saturating_sub(self.p_ns)
    }
}

impl<'a> View<'a> {
    /// Returns the class. `None` for a view of all queries.
    pub fn class(&self) -> Option<&'a str> {
        self.class.and_then(|class| self.executions.classes.get(class as usize)).map(String::as_str)
    }

    /// Returns the executions, in execution order.
    pub(super) fn iter(self) -> impl Iterator<Item = Measured> + 'a {
        let queries = &self.executions.queries;
        let all = self.executions.order.iter().enumerate();
        all.filter_map(move |(at, execution)| {
            let query = queries.get(execution.query as usize)?;
            self.has(query).then_some(Measured {
                query: execution.query as usize,
                service_ns: execution.service_ns,
                p_ns: query.p_ns,
                is_least: query.least_at as usize == at,
            })
        })
    }

    /// Returns the index and the times of each query that was executed.
    pub(super) fn queries(self) -> impl Iterator<Item = (usize, &'a QueryTimes)> {
        let all = self.executions.queries.iter().enumerate();
        all.filter(move |(_, query)| query.executions > 0 && self.has(query))
    }

    fn has(self, query: &QueryTimes) -> bool {
        self.class.is_none_or(|class| class == query.class)
    }

    /// Returns the number of queries in the whole set. Callers use it as the size of tables that
    /// are indexed by query.
    pub(super) fn numbers(self) -> usize {
        self.executions.queries.len()
    }
}
