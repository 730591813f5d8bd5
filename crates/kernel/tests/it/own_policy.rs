//! Policies of one's own: a pick and a hedge that use only the public interface.

use curtail_kernel::balance::{NewPick, Pick, RANDOM, Wanted};
use curtail_kernel::hedge::{
    AnyLearner, AnyLearns, DELAYED, Hedge, Journal, LAEDGE, Learner, Learns, NewHedge, Records,
    Snapshot,
};
use curtail_kernel::rand_core::Rng as _;
use curtail_kernel::rate::{NewRate, RATES};
use curtail_kernel::{
    Action, Arguments, Arrive, Catalog, Conduct, CopyId, Core, Descriptor, Event, GroupId, Levels,
    Limits, Needs, Outcome, Policy, QueryId, Rng, Scheduler, ServerId, StartReason, StopReason,
    Timestamp, Topology, rng,
};

use crate::actions::starts;

/// A second copy when a delay ends. The service learns the delay: the longest recent age.
#[derive(Debug)]
struct Own {
    delay_ns: u64,
    ages: Journal<Age>,
}

#[derive(Debug)]
struct Age(u64);

#[derive(Debug)]
struct Delay(u64);

impl<P: Pick + ?Sized> Hedge<P> for Own {
    fn primary_started(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        core.set_timer(query, core.now().after(self.delay_ns));
    }

    fn timer(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        core.duplicate(pick, query, StartReason::Delay);
    }

    fn learns(&mut self) -> Option<&mut dyn AnyLearns> {
        Some(self)
    }
}

impl Learns for Own {
    type Learner = Longest;

    fn answered(&mut self, core: &mut Core, _: QueryId, copy: CopyId, _: ServerId) -> bool {
        self.ages.push(Age(core.ran_ns(copy)));
        false
    }

    fn publish(&mut self, into: &mut Vec<Age>) {
        self.ages.publish(into);
    }

    fn adopt(&mut self, &Delay(ns): &Delay) {
        self.delay_ns = ns;
    }
}

#[derive(Debug)]
struct Longest(u64);

impl Learner for Longest {
    type Record = Age;
    type Snapshot = Delay;

    fn absorb(&mut self, ages: &[Age]) {
        self.0 = ages.iter().map(|age| age.0).max().unwrap_or(self.0);
    }

    fn snapshot(&self) -> Delay {
        Delay(self.0)
    }
}

const TIMED: Needs = Needs { timers: true, budget: true, ..Needs::NOTHING };
const NEW: NewHedge = NewHedge {
    learner: |_, _, _| Some(AnyLearner::new(Longest(0))),
    ..NewHedge::push(|of, _| {
        let delay_ns = of.delay_ns.unwrap_or(10);
        Box::new(Own { delay_ns, ages: Journal::default() })
    })
};
static OWN: Descriptor<NewHedge> = Descriptor {
    name: "own",
    forms: &["own", "own:D[:fast]", "own:pN:Q"],
    about: "a second copy after the longest recent age",
    needs: |_| TIMED,
    builds: NEW,
};

/// A pick that chooses one server, whatever its state.
#[derive(Debug)]
struct Only(u32);

impl Pick for Only {
    fn pick(&mut self, _: Wanted, _: Levels<'_>, _: &mut Rng) -> Option<ServerId> {
        (self.0 > 0).then_some(ServerId(self.0))
    }
}

static ONLY: Descriptor<NewPick> = Descriptor {
    name: "only",
    forms: &["only", "only:D"],
    about: "one server",
    needs: |_| Needs::NOTHING,
    builds: |of, _| Box::new(Only(of.delay_ns.unwrap_or(0) as u32)),
};

static OWN_RATE: Descriptor<NewRate> =
    Descriptor::rate(&[], "steady", "never changes", NewRate::Raise(|paced, _, _| paced.rate));

fn catalog() -> Catalog {
    let catalog = Catalog::new().with_pick(&ONLY).expect("new");
    catalog.with_rate(&OWN_RATE).expect("new").with_hedge(&OWN).expect("new")
}

fn named(text: &str) -> Policy {
    catalog().parse(text, Some(1)).expect(text)
}

fn cell(policy: Policy, servers: u32, limits: Limits) -> Box<dyn Scheduler> {
    policy.build(&Topology::replicated(servers, 1), limits, rng(1)).expect("a cell")
}

fn arrive(cell: &mut dyn Scheduler, now: u64, query: u32) -> Vec<Action> {
    let event = Event::Arrive(Arrive::new(QueryId(query), GroupId(0)));
    cell.handle(Timestamp(now), &event).to_vec()
}

#[test]
fn a_hedge_of_ones_own_duplicates_within_the_rules() {
    let limits = Limits { hedge_budget: 0.0, hedge_burst: 1, ..Limits::default() };
    let mut cell = cell(named("own:7ns"), 3, limits);
    for (query, duplicates) in [(0, 1), (1, 0)] {
        let now = 10 * u64::from(query);
        let (first, server) = starts(&arrive(&mut *cell, now, query))[0];
        let second = starts(cell.handle(Timestamp(now + 7), &Event::Tick));
        assert_eq!(second.len(), duplicates, "the budget holds");
        assert!(second.iter().all(|of| of.1 != server), "{second:?}");
        cell.handle(Timestamp(now + 8), &Event::Finished { copy: first, outcome: Outcome::Good });
    }
    assert_eq!(cell.core().hedges_refused(), 1);
}

/// Calls every verb wrongly, and lists the servers of its group.
#[derive(Debug, Default)]
struct Reckless(Option<CopyId>);

impl<P: Pick + ?Sized> Hedge<P> for Reckless {
    fn conduct(&self) -> Conduct {
        Conduct { preempts: true, ..Conduct::default() }
    }

    fn primary_started(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        let why = StartReason::Hedge;
        let first = core.copies_of(query).next().expect("it has started");
        let none = QueryId(1_000);
        assert_eq!(core.duplicate(pick, none, why), None);
        assert_eq!(core.choose_second(pick, none), None);
        assert!(!core.may_duplicate(none) && core.copies_of(none).next().is_none());
        assert_eq!(core.duplicate_on(first.server, query, why), None, "its server");
        assert_eq!(core.duplicate_on(ServerId(9), query, why), None, "no server");
        assert_eq!(core.duplicate_on(ServerId(3), query, why), None, "of another group");
        assert_eq!(core.duplicate_on(ServerId(1), none, why), None, "no query");
        core.set_timer(none, Timestamp(5));
        core.forbid_duplicates(none);
        core.bias(first.server, true);
        core.stop(CopyId { serial: 77, slot: 77 }, StopReason::Purge);
        assert_eq!(core.ran_ns(CopyId { serial: 77, slot: 77 }), 0);
        // The servers that can take a copy, in an order that the seed of the cell determines.
        let mut servers = core.servers_of(core.group_of(query)).to_vec();
        let turn = core.rng().next_u32() as usize % servers.len();
        servers.rotate_left(turn);
        let started = servers.iter().filter_map(|&on| core.duplicate_on(on, query, why)).count();
        assert!(started <= 2, "three servers, one of which has the first copy");
        assert_eq!(core.duplicate(pick, query, why), None, "it has no room, or two copies");
        core.stop(first.id, StopReason::Purge);
        self.0 = Some(first.id);
    }

    fn starved(&mut self, core: &mut Core, _: GroupId) {
        self.0.into_iter().for_each(|copy| core.stop(copy, StopReason::Preemption));
    }

    fn released(&mut self, core: &mut Core, server: ServerId, _: CopyId) {
        // The query may have ended. A timer would fire for the next query with this id.
        core.set_timer(QueryId(0), core.now());
        assert_eq!(core.duplicate_on(server, QueryId(0), StartReason::Idle), None);
    }
}

static RECKLESS: Descriptor<NewHedge> = Descriptor {
    name: "reckless",
    forms: &[],
    about: "calls every verb wrongly",
    needs: |_| TIMED,
    builds: NewHedge::push(|_, _| Box::<Reckless>::default()),
};

#[test]
fn wrong_calls_change_nothing() {
    let mut topology = Topology::replicated(4, 1);
    topology.groups = vec![(0..3).map(ServerId).collect(), vec![ServerId(3)]];
    let limits = Limits { max_outstanding: 1, queue: 9, ..Limits::default() };
    assert!(!limits.cancel);
    let policy = Policy::hedged(RECKLESS.with(Arguments::NONE));
    let mut cell = policy.build(&topology, limits, rng(1)).expect("a cell");
    let copies = starts(&arrive(&mut *cell, 0, 0));
    assert_eq!(copies.len(), 3, "one on each server of its group");
    assert_eq!(
        arrive(&mut *cell, 1, 1),
        [],
        "it waits, and servers that cannot stop are not asked"
    );
    for (at, &(copy, _)) in copies.iter().enumerate() {
        let good = Event::Finished { copy, outcome: Outcome::Good };
        cell.handle(Timestamp(2 + at as u64), &good);
    }
    assert_eq!(cell.next_deadline(), Timestamp::NEVER, "no timer is left");
    assert!((0..4).all(|server| cell.core().server(ServerId(server)).outstanding <= 1));
}

#[test]
fn a_pick_of_ones_own_cannot_send_copies_where_they_must_not_go() {
    let limits = Limits { max_outstanding: 1, ..Limits::default() };
    for text in ["only:1", "only:99", "only", "naive+only:1"] {
        let mut cell = cell(named(text), 2, limits);
        let mut used: Vec<ServerId> = Vec::new();
        for query in 0..2 {
            used.extend(starts(&arrive(&mut *cell, 0, query)).iter().map(|of| of.1));
        }
        used.sort_unstable();
        assert_eq!(used, [ServerId(0), ServerId(1)], "{text}: each has room for one");
    }
    let mut cell = cell(named("only:1"), 2, limits);
    assert_eq!(starts(&arrive(&mut *cell, 0, 0))[0].1, ServerId(1), "its choice counts");
}

#[test]
fn a_hedge_and_its_learner_exchange_types_of_their_own() {
    let policy = named("own:7ns");
    let mut learner = policy.learner(&Limits::default()).expect("it learns");
    let mut cells = [1, 2].map(|_| cell(policy, 2, Limits::default()));
    let mut records = Records::default();
    for (cell, took) in cells.iter_mut().zip([3, 5]) {
        let (copy, _) = starts(&arrive(&mut **cell, 0, 0))[0];
        cell.handle(Timestamp(took), &Event::Finished { copy, outcome: Outcome::Good });
        cell.publish(&mut records);
    }
    let ages: Vec<u64> = records.list::<Age>().iter().map(|age| age.0).collect();
    assert_eq!(ages, [3, 5], "in the order of the cells");
    learner.absorb(&mut records);
    assert!(records.list::<Age>().is_empty(), "the list is ready for the next epoch");
    assert_eq!(learner.get::<Longest>().map(|longest| longest.0), Some(5));
    let snapshot = learner.snapshot();
    assert_eq!(snapshot.get::<Delay>().map(|delay| delay.0), Some(5));
    for cell in &mut cells {
        cell.adopt(&snapshot);
        cell.adopt(&Snapshot::new(99_u64)); // that of another policy is ignored
        arrive(&mut **cell, 100, 0);
        assert_eq!(cell.next_deadline(), Timestamp(105));
    }
}

#[test]
fn a_learner_that_is_not_that_of_the_hedge_is_refused() {
    static FORGOTTEN: Descriptor<NewHedge> = Descriptor {
        name: "forgotten",
        builds: NewHedge { learner: |_, _, _| None, ..NEW },
        forms: &[],
        about: "",
        needs: |_| TIMED,
    };
    static MIXED_UP: Descriptor<NewHedge> = Descriptor {
        name: "mixed-up",
        builds: NewHedge {
            learner: NEW.learner,
            ..NewHedge::push(|_, _| Box::<Reckless>::default())
        },
        forms: &[],
        about: "",
        needs: |_| TIMED,
    };
    for (of, creates) in [(&FORGOTTEN, "creates no learner,"), (&MIXED_UP, "creates a learner,")] {
        let policy = Policy::hedged(of.with(Arguments::NONE));
        let built = policy.build(&Topology::replicated(2, 1), Limits::default(), rng(1));
        let why = built.err().expect("it cannot learn").to_string();
        assert!(why.contains(creates) && why.contains("NewHedge::learner"), "{why}");
    }
}

#[test]
fn every_form_and_combination_of_ones_own_has_a_name() {
    for text in [
        "own",
        "own:5ms",
        "own:5ms:fast",
        "own:p95:0.5",
        "only",
        "only:5ns",
        "own:5ms+only:5ns",
        "own:5ms+bounded:2+only",
        "rescue+only",
        "delayed:p95+only:1us",
        "own+two-choices",
        "own+steady",
        "psq+only+steady",
    ] {
        assert_eq!(named(text).to_string(), text);
    }
    assert_eq!(named("own:5").delay_ns(), Some(5), "in the unit of the caller");
    assert_eq!(named("only+own").to_string(), "own+only");
    for text in ["own:1:2", "only:1:2", "steady:1", "nothing", "own:p0:0.5", "own+own:5ns"] {
        let why = catalog().parse(text, Some(1)).expect_err(text).to_string();
        let listed = ["only:D", "own:D[:fast]", "own:pN:Q", "steady"];
        let lists = why.contains("use one of ") && listed.iter().all(|form| why.contains(form));
        assert!(lists || why.contains("; use "), "{why}");
    }
    assert!(Policy::parse("own", None).is_err(), "ours are not changed");
    assert!(Catalog::new().rates().count() == RATES.len());
}

#[test]
fn a_name_that_exists_or_that_cannot_be_parsed_is_refused() {
    static TAKEN: Descriptor<NewPick> =
        Descriptor::pick("rescue", "", |_| Needs::NOTHING, |_, _| Box::new(Only(0)));
    let hedge = |name, forms| -> &'static Descriptor<NewHedge> {
        Box::leak(Box::new(Descriptor { name, forms, about: "", needs: |_| TIMED, builds: NEW }))
    };
    let refusal = |part| catalog().with_hedge(part).expect_err("it is wrong").to_string();
    assert!(catalog().with_pick(&TAKEN).is_err() && catalog().with_pick(&RANDOM).is_err());
    for name in ["own", "only", "psq", "steady", "cubic", "o1"] {
        assert!(refusal(hedge(name, &[])).contains("the name of another part"), "{name}");
    }
    let wrong: [(_, &[&str]); 6] = [
        ("", &[]),
        ("Mine", &[]),
        ("my own", &[]),
        ("mine", &["your:D"]),
        ("mine", &["mine:MS"]),
        ("mine", &["mine:a+b"]),
    ];
    for (name, forms) in wrong {
        assert!(
            refusal(hedge(name, forms)).contains("begin each with the name"),
            "{name} {forms:?}"
        );
    }
    catalog().with_hedge(hedge("mine", &["mine", "mine+PICK"])).expect("as rescue");
    // A part that is used without a catalog may have the name of ours, but it is not ours.
    let policy = Policy::hedged(hedge("laedge", &[]).with(Arguments::NONE));
    assert!(policy.hedge().is_some_and(|hedge| !hedge.is(&LAEDGE)));
    assert!(cell(policy, 2, Limits::default()).needs().timers, "LÆDGE needs none");
}

#[test]
fn texts_convert_to_our_policies() {
    assert_eq!("rescue".parse(), Ok(Policy::RESCUE));
    let delayed = Policy::try_from("delayed:5ms+two-choices").expect("a policy");
    assert!(delayed.has(&DELAYED));
    assert!("own".parse::<Policy>().is_err());
}
