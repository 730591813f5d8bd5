//! A policy of one's own: a pick, and a hedge that learns. `cargo run` simulates it beside ours,
//! sweeps it over two loads, and runs it over in-process services.
//!
//! The same policy runs in all three. Copy this file to begin one of your own: the parts of a policy
//! need only `curtail-kernel`, whose documentation describes all hooks and verbs.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use curtail::{Cancel, Curtail, Query, outcome};
use curtail_kernel::balance::{NewPick, Pick, Wanted};
use curtail_kernel::hedge::{AnyLearner, AnyLearns, Hedge, Journal, Learner, Learns, NewHedge};
use curtail_kernel::{
    Catalog, Conduct, CopyId, Core, Descriptor, Levels, Needs, Policy, QueryId, Rng, ServerId,
    StartReason,
};
use curtail_sim::{Candidate, PERCENTILES, Parameters, Plan, UNIT_NS, compare, sweep};

/// `last-used`: the server that has gone without a copy for the longest time.
#[derive(Debug)]
struct LastUsed {
    /// For each server, the number of copies that had been sent when it got its last one.
    sent: Vec<u64>,
    count: u64,
}

static LAST_USED: Descriptor<NewPick> = Descriptor::pick(
    "last-used",
    "the server that has gone without a copy for the longest time",
    // A hook is called only if the pick declares that it needs it.
    |_| Needs { copies: true, ..Needs::NOTHING },
    |_, site| Box::new(LastUsed { sent: vec![0; site.topology.servers.len()], count: 0 }),
);

impl Pick for LastUsed {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        // Only servers with the fewest copies, and ties at random.
        let key = |server: ServerId| (levels.outstanding(server), self.sent[server.index()]);
        levels.least_by(rng, copy.avoid, key)
    }

    fn started(&mut self, server: ServerId, _: curtail_kernel::Timestamp) {
        self.count += 1;
        self.sent[server.index()] = self.count;
    }
}

/// `patient` and `patient:D`: a second copy of a query that is twice as old as nearly all recent
/// queries became. Until that age is known, the second copy starts after `D`, or never.
#[derive(Debug)]
struct Patient {
    delay_ns: Option<u64>,
    ages: Journal<Age>,
}

static PATIENT: Descriptor<NewHedge> = Descriptor {
    name: "patient",
    forms: &["patient", "patient:D"],
    about: "a second copy of a query that is unusually old",
    needs: |_| Needs { timers: true, budget: true, cancellation: true, ..Needs::NOTHING },
    builds: NewHedge {
        learner: |of, _, _| Some(AnyLearner::new(Ages::new(of.delay_ns))),
        ..NewHedge::push(|of, _| {
            Box::new(Patient { delay_ns: of.delay_ns, ages: Journal::default() })
        })
    },
};

impl<P: Pick + ?Sized> Hedge<P> for Patient {
    fn conduct(&self) -> Conduct {
        Conduct { cleans_up: true, ..Conduct::default() } // the loser is stopped
    }

    fn primary_started(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        if let Some(delay_ns) = self.delay_ns {
            core.set_timer(query, core.now().after(delay_ns));
        }
    }

    fn timer(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        core.duplicate(pick, query, StartReason::Delay);
    }

    fn learns(&mut self) -> Option<&mut dyn AnyLearns> {
        Some(self)
    }
}

/// The age at which a query was answered: what a cell records.
#[derive(Clone, Copy, Debug)]
struct Age {
    ns: u64,
}

/// What a cell adopts. `None` until enough ages are known.
#[derive(Clone, Copy, Debug)]
struct Delay {
    ns: Option<u64>,
}

impl Learns for Patient {
    type Learner = Ages;

    fn answered(&mut self, core: &mut Core, query: QueryId, copy: CopyId, _: ServerId) -> bool {
        // The copies that are still running are older than a second copy that wins.
        let first = core.copies_of(query).map(|copy| core.now().since(copy.started)).max();
        self.ages.push(Age { ns: first.unwrap_or(0).max(core.ran_ns(copy)) });
        false
    }

    fn publish(&mut self, into: &mut Vec<Age>) {
        self.ages.publish(into);
    }

    fn adopt(&mut self, learned: &Delay) {
        self.delay_ns = learned.ns;
    }
}

/// Learns from the cells of a service.
#[derive(Debug)]
struct Ages {
    delay: Delay,
    recent: Vec<u64>,
}

impl Ages {
    /// The number of ages from which the delay is computed.
    const ENOUGH: usize = 200;

    fn new(delay_ns: Option<u64>) -> Self {
        Self { delay: Delay { ns: delay_ns }, recent: Vec::new() }
    }
}

impl Learner for Ages {
    type Record = Age;
    type Snapshot = Delay;

    fn absorb(&mut self, ages: &[Age]) {
        self.recent.extend(ages.iter().map(|age| age.ns));
        if self.recent.len() >= Self::ENOUGH {
            self.recent.sort_unstable();
            self.delay.ns = Some(2 * self.recent[self.recent.len() * 9 / 10]);
            self.recent.clear();
        }
    }

    fn snapshot(&self) -> Delay {
        self.delay
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let catalog = Catalog::new().with_pick(&LAST_USED)?.with_hedge(&PATIENT)?;
    let names = ["psq", "rescue", "patient:50ms+last-used", "rescue+last-used"];
    let candidate = |name| Candidate::parse_in(&catalog, name, UNIT_NS);
    let candidates: Vec<Candidate> = names.into_iter().map(candidate).collect::<Result<_, _>>()?;
    simulate(&candidates)?;
    sweep(&candidates)?;
    let policy = catalog.parse("patient:50ms+last-used", None)?;
    serve(policy)
}

/// Ten shards of two servers. One copy in a hundred has a hiccup.
fn parameters() -> Parameters {
    Parameters {
        shards: 10,
        utilization: 0.3,
        service: "exp:5ms".to_owned(),
        jitter: Some("bimodal:0.01:75ms".to_owned()),
        requests: 20_000,
        replications: 2,
        ..Parameters::default()
    }
}

fn simulate(candidates: &[Candidate]) -> Result<(), Box<dyn Error>> {
    let (progress, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let plan = Plan { threads: 2, percentiles: &PERCENTILES, progress: &progress, stop: &stop };
    let outcomes = compare(&parameters().experiment()?, candidates, &plan)?;
    println!("{:<24} {:>9} {:>16}", "policy", "p99, ms", "copies per query");
    for outcome in outcomes.ok_or("stopped")? {
        let p99 = outcome.request.as_ref().and_then(|figures| figures.percentile(99.0));
        let (p99, copies) = p99.zip(outcome.copies_per_query).ok_or("no steady state")?;
        println!("{:<24} {p99:>9.1} {copies:>16.3}", outcome.policy);
    }
    Ok(())
}

fn sweep(candidates: &[Candidate]) -> Result<(), Box<dyn Error>> {
    let loads = vec![sweep::Axis::parse("utilization", "0.2,0.4")?];
    let plan = sweep::Plan::new(&parameters(), loads, candidates.to_vec(), vec![99.0])?;
    let (progress, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let how = Plan { threads: 2, percentiles: &[99.0], progress: &progress, stop: &stop };
    let mut lines: Vec<String> = Vec::new();
    plan.run(&[0, 1], &how, |line| {
        lines.push(line);
        true
    })?;
    println!();
    for line in lines {
        let line: serde_json::Value = serde_json::from_str(&line)?;
        let load = &line["grid"]["utilization"];
        for outcome in line["outcomes"].as_array().into_iter().flatten() {
            let (policy, p99) = (outcome["policy"].as_str(), outcome["request"]["p99"].as_f64());
            let (policy, p99) = policy.zip(p99).ok_or("no steady state")?;
            println!("utilization {load}: {policy:<24} {p99:>9.1} ms");
        }
    }
    Ok(())
}

/// Two servers, one of which sometimes takes 200 ms. The services may be any of tower's.
fn serve(policy: Policy) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = |slow_every: u64| {
            tower::service_fn(move |query: u64| async move {
                let ms = if query.is_multiple_of(slow_every) { 200 } else { 1 };
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok::<_, std::io::Error>(())
            })
        };
        let service = Curtail::builder()
            .policy(policy)
            .shard("a", [("a0", server(25)), ("a1", server(u64::MAX))])
            .cancellation(Cancel::OnDrop)
            .classify(outcome::any_response)
            .repeatable(|query| Some(*query))
            .build()?;
        let shard = service.shard("a");
        let mut slowest = Duration::ZERO;
        for query in 1..=500 {
            slowest = slowest.max(shard.query(Query::idempotent(query)).await?.took);
        }
        let learned = service.learner(|learner| learner.get::<Ages>().map(|ages| ages.delay));
        let delay = learned.flatten().and_then(|delay| delay.ns).map(Duration::from_nanos);
        println!("\nservices: the slowest query took {slowest:.0?}; learned delay {delay:.1?}");
        Ok(())
    })
}
