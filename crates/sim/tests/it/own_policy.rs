//! A policy of one's own, which learns with types of its own, runs wherever ours do.

use curtail_kernel::balance::{NewPick, Pick, Wanted};
use curtail_kernel::hedge::{
    AnyLearner, AnyLearns, Hedge, Journal, Learner, Learns, NewHedge, Snapshot,
};
use curtail_kernel::{
    Catalog, CopyId, Core, Descriptor, Levels, Limits, Needs, QueryId, Rng, ServerId, StartReason,
};
use curtail_sim::script::{Script, Step, What, play};
use curtail_sim::{Candidate, Outcome, Parameters, UNIT_NS, compare, sweep};

use crate::common::{planned, with};

const MS: u64 = 1_000_000;

/// Sends a second copy after three times the mean age of recent queries, which it learns.
#[derive(Debug, Default)]
struct Patient {
    mean_ns: Option<u64>,
    ages: Journal<u32>,
}

#[derive(Debug)]
struct Mean(Option<u64>);

impl<P: Pick + ?Sized> Hedge<P> for Patient {
    fn primary_started(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        if let Some(ns) = self.mean_ns {
            core.set_timer(query, core.now().after(3 * ns));
        }
    }

    fn timer(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        core.duplicate(pick, query, StartReason::Delay);
    }

    fn learns(&mut self) -> Option<&mut dyn AnyLearns> {
        Some(self)
    }
}

impl Learns for Patient {
    type Learner = MeanAge;

    fn answered(&mut self, core: &mut Core, _: QueryId, copy: CopyId, _: ServerId) -> bool {
        self.ages.push((core.ran_ns(copy) / 1_000) as u32);
        false
    }

    fn publish(&mut self, into: &mut Vec<u32>) {
        self.ages.publish(into);
    }

    fn adopt(&mut self, &Mean(ns): &Mean) {
        self.mean_ns = ns;
    }
}

#[derive(Debug, Default)]
struct MeanAge {
    count: u64,
    sum_us: u64,
}

impl Learner for MeanAge {
    type Record = u32;
    type Snapshot = Mean;

    fn absorb(&mut self, ages_us: &[u32]) {
        self.count += ages_us.len() as u64;
        self.sum_us += ages_us.iter().map(|&us| u64::from(us)).sum::<u64>();
    }

    fn snapshot(&self) -> Mean {
        Mean((self.count > 100).then(|| 1_000 * self.sum_us / self.count))
    }
}

static PATIENT: Descriptor<NewHedge> = Descriptor {
    name: "patient",
    forms: &["patient"],
    about: "a second copy after three mean ages",
    needs: |_| Needs { timers: true, budget: true, ..Needs::NOTHING },
    builds: NewHedge {
        learner: |_, _, _| Some(AnyLearner::new(MeanAge::default())),
        ..NewHedge::push(|_, _| Box::<Patient>::default())
    },
};

#[derive(Debug)]
struct Emptiest;

impl Pick for Emptiest {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        levels.least_by(rng, copy.avoid, |server| levels.outstanding(server))
    }
}

static EMPTIEST: Descriptor<NewPick> = Descriptor::pick(
    "emptiest",
    "the server with the fewest copies",
    |_| Needs::NOTHING,
    |_, _| Box::new(Emptiest),
);

fn catalog() -> Catalog {
    Catalog::new().with_pick(&EMPTIEST).expect("new").with_hedge(&PATIENT).expect("new")
}

fn candidates(names: &[&str]) -> Vec<Candidate> {
    let parse = |text: &&str| Candidate::parse_in(&catalog(), text, UNIT_NS).expect(text);
    names.iter().map(parse).collect()
}

fn outcomes(parameters: &Parameters, names: &[&str]) -> Vec<Outcome> {
    let experiment = parameters.experiment().expect("a good experiment");
    let compared = planned(2, |plan| compare(&experiment, &candidates(names), plan)).0;
    compared.expect("policies fit").expect("nothing stops it")
}

fn hiccups() -> Parameters {
    with(
        "shards = 4, replicas = 2, utilization = 0.3, service = 'det:5ms', requests = 20_000, \
         jitter = 'bimodal:0.01:75ms', replications = 2",
    )
}

#[test]
fn it_is_simulated_beside_ours() {
    let of = outcomes(&hiccups(), &["least-outstanding", "emptiest", "patient+emptiest"]);
    let p99 = |outcome: &Outcome| outcome.request.as_ref().and_then(|of| of.percentile(99.0));
    let [ours, own, hedged] = &of[..] else { panic!("three candidates") };
    assert_eq!(hedged.policy, "patient+emptiest");
    assert_eq!(own.histogram, ours.histogram, "the same decisions and the same draws");
    assert!(p99(hedged) < p99(own), "it learned when a query is stuck");
    let copies = hedged.copies_per_query.expect("a steady state");
    assert!((1.005..1.2).contains(&copies), "{copies}");
    assert!(Candidate::parse("patient", UNIT_NS).is_err(), "ours are not changed");
    let why = Candidate::parse_in(&catalog(), "hasty", UNIT_NS).expect_err("unknown").to_string();
    assert!(why.contains("emptiest, patient") && why.ends_with("o1, oracle"), "{why}");
}

#[test]
fn clients_that_share_servers_learn_on_their_own() {
    let parameters = with(
        "servers = 6, clients = 3, replicas = 3, utilization = 0.3, service = 'exp:5ms', \
         jitter = 'bimodal:0.01:75ms', requests = 10_000, replications = 1",
    );
    let of = outcomes(&parameters, &["patient+emptiest", "rescue+emptiest"]);
    assert!(of.iter().all(|of| of.copies_per_query > Some(1.0)), "both hedge");
}

#[test]
fn it_is_swept() {
    let axes = vec![sweep::Axis::parse("utilization", "0.2,0.4").expect("two loads")];
    let parameters = Parameters { requests: 2_000, ..hiccups() };
    let names = ["psq", "patient+emptiest"];
    let plan = sweep::Plan::new(&parameters, axes, candidates(&names), vec![99.0]);
    let plan = plan.expect("a grid");
    assert_eq!(
        (plan.policies(), plan.check().expect("it fits").len()),
        (&names.map(String::from)[..], 2)
    );
    let mut lines = Vec::new();
    let push = |line: String| {
        lines.push(line);
        true
    };
    assert!(planned(2, |how| plan.run(&[0, 1], how, push)).0.expect("it runs"));
    let named = |line: &&String| line.contains(r#""policy":"patient+emptiest""#);
    assert_eq!(lines.iter().filter(named).count(), 2);
}

#[test]
fn it_is_scripted_with_what_it_has_learned() {
    let query = What::Arrive { service_ns: 5 * MS, jitter_ns: [50 * MS, 0] };
    let mut script = Script {
        policy: catalog().parse("patient", None).expect("a policy"),
        servers: 2,
        slots: 1,
        limits: Limits::default(),
        seed: 1,
        learned: Some(Snapshot::new(Mean(Some(4 * MS)))),
        steps: vec![Step { at_ns: 0, what: query }],
    };
    let answer = |script: &Script| {
        let log = play(script).expect("a script that can be played");
        let log: Vec<String> = log.iter().map(ToString::to_string).collect();
        log.into_iter().find(|line| line.contains("answer")).expect("it responds")
    };
    assert!(answer(&script).contains("17.000000 ms  -> answer q0 by c1"), "after 3 · 4 ms");
    script.learned = None;
    assert!(answer(&script).contains("55.000000 ms  -> answer q0 by c0"), "it knows nothing");
}
