//! Executions of queries, in the order in which they ran.
//!
//! Cost: 16 bytes and O(1) per execution.

use std::collections::BTreeMap;

/// The most executions of a set.
pub const EXECUTIONS_MAX: usize = 100_000_000;

/// Executions of a set of queries, and P of each query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executions {
    classes: Vec<String>,
    queries: Vec<Query>,
    order: Vec<Execution>,
}

/// One query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Query {
    /// An index of the classes.
    pub(super) class: u32,
    /// How often it was executed.
    pub(super) executions: u32,
    /// P, its least service time so far, in nanoseconds.
    pub(super) p_ns: u64,
    /// The first execution that took so long: that one has no jitter by definition.
    least_at: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Execution {
    query: u32,
    service_ns: u64,
}

impl Executions {
    /// No executions yet, of queries whose classes (types) these are, in order: query 0 is of the
    /// first. Give all the same class where there are none.
    pub fn new<C: AsRef<str>>(of_queries: impl IntoIterator<Item = C>) -> Executions {
        let mut known: BTreeMap<String, u32> = BTreeMap::new();
        let mut classes = Vec::new();
        let query = |class: C| {
            let class = *known.entry(class.as_ref().to_owned()).or_insert_with_key(|name| {
                classes.push(name.clone());
                classes.len() as u32 - 1
            });
            Query { class, executions: 0, p_ns: u64::MAX, least_at: 0 }
        };
        let queries = of_queries.into_iter().map(query).collect();
        Executions { classes, queries, order: Vec::new() }
    }

    /// Adds an execution of `query`, counted from 0, that took `service_ns` nanoseconds. They are
    /// added in the order in which they ran, so that hiccups that come in clusters show. False, and
    /// nothing is added, beyond [`EXECUTIONS_MAX`].
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

    /// The classes, in order of their first query.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// How many executions there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// P of `query`, in nanoseconds; none if it was never executed.
    pub fn p_ns(&self, query: usize) -> Option<u64> {
        self.queries.get(query).filter(|query| query.executions > 0).map(|query| query.p_ns)
    }

    /// How often the query was executed that was executed least.
    pub fn repetitions(&self) -> u32 {
        self.queries.iter().map(|query| query.executions).min().unwrap_or(0)
    }

    /// All queries.
    pub fn all(&self) -> View<'_> {
        View { executions: self, class: None }
    }

    /// The queries of the class with this index of [`classes`](Self::classes); none beyond them.
    pub fn class(&self, index: usize) -> Option<View<'_>> {
        (index < self.classes.len()).then_some(View { executions: self, class: Some(index as u32) })
    }
}

/// The executions of one class, or all of them.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    executions: &'a Executions,
    class: Option<u32>,
}

/// One execution, with P of its query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) query: usize,
    pub(super) service_ns: u64,
    pub(super) p_ns: u64,
    /// It is the one that P is from, so that its jitter is no sample.
    pub(super) is_least: bool,
}

impl Measured {
    pub(super) fn jitter_ns(&self) -> u64 {
        self.service_ns.saturating_sub(self.p_ns)
    }
}

impl<'a> View<'a> {
    /// The class; none for all queries.
    pub fn class(&self) -> Option<&'a str> {
        self.class.and_then(|class| self.executions.classes.get(class as usize)).map(String::as_str)
    }

    /// The executions, in the order in which they ran.
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

    /// The queries that were executed, by their numbers.
    pub(super) fn queries(self) -> impl Iterator<Item = (usize, &'a Query)> {
        let all = self.executions.queries.iter().enumerate();
        all.filter(move |(_, query)| query.executions > 0 && self.has(query))
    }

    fn has(self, query: &Query) -> bool {
        self.class.is_none_or(|class| class == query.class)
    }

    /// The number of queries of the whole set, for tables by number.
    pub(super) fn numbers(self) -> usize {
        self.executions.queries.len()
    }
}
