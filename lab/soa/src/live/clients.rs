//! The clients that a graph file defines, over gRPC: open clients send on a schedule, and closed
//! clients send after each response.
//!
//! The simulator determines the sender, the time and the content of each request ([`Senders`]), and
//! its books record the results. Latency counts from the time at which a request was due, so it
//! includes the delay of a late start. A client that gives up drops its call. The number of
//! outstanding requests of an open client is limited only by the file's `timeout`.
//!
//! Cost: a task per request; one short lock when it starts and one when it ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use curtail_runtime::Timers;
use curtail_sim::graph::{
    Act, Ask, Book, Ending, Graph, NewRequest, RequestPlan, Senders, deadline_ns,
};
use rand_pcg::Pcg64Mcg;
use tokio::task::JoinSet;
use tokio::time::timeout_at;
use tonic::Code;
use tonic::metadata::AsciiMetadataValue;

use super::SEED;
use super::clock::Clock;
use super::guarded::RequestMeta;
use super::message::call_of;
use super::process::WORKFLOW;
use super::rpc::{Client, call};

/// The results of all clients.
pub(super) struct Seen {
    pub(super) books: Vec<Book>,
    pub(super) all: Book,
    /// The planned work of the good requests, in ns.
    pub(super) good_ns: u128,
    /// The number of requests that failed for a reason other than control, and the last such
    /// reason.
    pub(super) errors: u64,
    pub(super) error: Option<String>,
    /// The total lateness of sends, in ns.
    pub(super) lag_ns: u64,
    pub(super) sent: u64,
}

struct Clients {
    graph: Arc<Graph>,
    clock: Clock,
    timers: Timers,
    /// Connections to the instances of the entry service.
    entries: Vec<Client>,
    senders: Mutex<Senders>,
    seen: Mutex<Seen>,
    /// The name of each workflow, and the time after which its requests are late, in ns.
    workflows: Vec<(AsciiMetadataValue, u64)>,
    /// Whether requests contain the user and the deadline.
    sends_deadlines: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the clients until the end of the run.
pub(super) async fn run(
    graph: &Arc<Graph>,
    entries: Vec<Client>,
    sends_deadlines: bool,
    clock: Clock,
) -> Result<Seen> {
    let samples = graph.samples() as usize;
    let named = |of: &curtail_sim::graph::Workflow| {
        let name = AsciiMetadataValue::try_from(&of.name);
        let name = name.with_context(|| format!("workflow {:?}: must be ASCII", of.name))?;
        Ok((name, deadline_ns(graph, of)))
    };
    let seen = Seen {
        books: graph.workflows.iter().map(|of| Book::new(&of.name, samples)).collect(),
        all: Book::new("all", samples),
        good_ns: 0,
        errors: 0,
        error: None,
        lag_ns: 0,
        sent: 0,
    };
    let senders = Senders::new(graph, SEED);
    let count = senders.count();
    let clients = Arc::new(Clients {
        clock,
        timers: Timers::precise(),
        entries,
        senders: Mutex::new(senders),
        seen: Mutex::new(seen),
        workflows: graph.workflows.iter().map(named).collect::<Result<_>>()?,
        sends_deadlines,
        graph: Arc::clone(graph),
    });
    let mut tasks = JoinSet::new();
    for sender in 0..count {
        tasks.spawn(send(Arc::clone(&clients), sender));
    }
    tokio::time::sleep_until(clock.at(graph.duration_ns)).await;
    tasks.shutdown().await;
    let mut seen = lock(&clients.seen);
    let empty = || Book::new("", 0);
    Ok(Seen {
        books: std::mem::take(&mut seen.books),
        all: std::mem::replace(&mut seen.all, empty()),
        error: seen.error.take(),
        ..*seen
    })
}

/// Runs one client.
async fn send(clients: Arc<Clients>, sender: u32) {
    let mut next = lock(&clients.senders).first(sender);
    while let Some(due) = next {
        clients.timers.sleep_until(clients.clock.at(due)).await;
        let (workflow, rng, open) = {
            let mut senders = lock(&clients.senders);
            let NewRequest { workflow, rng } = senders.request(sender);
            (workflow as usize, rng, senders.next_open(sender, due))
        };
        let request = request(Arc::clone(&clients), workflow, rng, due);
        if open.is_some() {
            tokio::spawn(request);
            next = open;
        } else {
            let ending = request.await;
            next = lock(&clients.senders).next_closed(sender, clients.clock.now(), ending);
        }
    }
}

/// Sends one request and records its result.
async fn request(clients: Arc<Clients>, workflow: usize, mut rng: Pcg64Mcg, due: u64) -> Ending {
    let Clients { graph, clock, .. } = &*clients;
    let plan = RequestPlan::draw(graph, &graph.workflows[workflow], &mut rng);
    let (name, deadline_ns) = &clients.workflows[workflow];
    let mut request = tonic::Request::new(call_of(&plan, 0).message());
    request.metadata_mut().insert(WORKFLOW, name.clone());
    if clients.sends_deadlines {
        let business = graph.workflows[workflow].settings.priority;
        let (ask, deadline) = (Ask { business, user: plan.user }, clock.at(due + deadline_ns));
        RequestMeta { ask, deadline }.write(&mut request);
    }
    let lag_ns = clock.now().saturating_sub(due);
    let entry = clients.entries[plan.nodes[0].instance as usize].clone();
    let gives_up = clock.at(due + graph.timeout_ns);
    let (ending, error) = match timeout_at(gives_up, call(entry, request)).await {
        Ok(Ok(_)) => (Ending::Responded, None),
        Ok(Err(status)) => match status.code() {
            Code::ResourceExhausted | Code::DeadlineExceeded => (Ending::Dropped, None),
            _ => (Ending::Dropped, Some(status)),
        },
        Err(_) => (Ending::TimedOut, None),
    };
    let now = clock.now();
    let took_ns = now.saturating_sub(due);
    let seen = &mut *lock(&clients.seen);
    seen.lag_ns += lag_ns;
    seen.sent += 1;
    if let Some(error) = error {
        seen.errors += 1;
        seen.error = Some(error.to_string());
    }
    if ending == Ending::Responded && took_ns <= *deadline_ns {
        seen.good_ns += work_ns(&plan);
    }
    let (at, counts) = ((now / graph.sample_ns) as usize, graph.counted_ns().contains(&due));
    // `None` after the end of the run.
    let Some(book) = seen.books.get_mut(workflow) else { return ending };
    for book in [book, &mut seen.all] {
        book.ended(at, ending, took_ns, *deadline_ns, counts);
    }
    ending
}

fn work_ns(plan: &RequestPlan) -> u128 {
    let nodes = 0..plan.nodes.len() as u32;
    let acts = nodes.flat_map(|node| (0..).map_while(move |step| plan.act(node, step)));
    acts.map(|act| match act {
        Act::Use { ns, .. } => u128::from(ns),
        Act::Call { .. } => 0,
    })
    .sum()
}
