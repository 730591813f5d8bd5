//! Contenders take turns on the same nodes, under the same disturbance, and are compared round by
//! round.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::value_parser;
use curtail::Timers;
use curtail_load::Histogram;
use curtail_load::open_loop::{self, Bounds, Class, Request, poisson};
use curtail_machine::take_turns;
use curtail_stats::ratio;
use futures_util::future::{join_all, try_join_all};
use scylla::client::session::Session;
use scylla::statement::Consistency;
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::client::{Client, ClientSettings, Contender};
use crate::disturb::{Disturbance, Running};
use crate::nodes;
use crate::servers::Watch;
use crate::workload::{KEYSPACE, Mix, Operation, Table};

/// The number of clients. Each client has its own session and decides independently.
const CLIENTS: u32 = 5;
const SEED: u64 = 42;
/// Limits of the open loop.
const BOUNDS: Bounds = Bounds { outstanding: 4096, rest: Duration::from_secs(15) };
/// The share of a turn that is not measured, because clients start with outdated data about the
/// servers.
const UNMEASURED: f64 = 0.2;
/// The number of consecutive reads whose median shows the effect of additional updates.
const BLOCK: usize = 50;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Contenders, which choose replicas: snitch or token-aware, each optionally with +retry
    /// (speculative, at p99), or a policy such as c3
    #[arg(long = "contender", value_name = "NAME", required = true)]
    contenders: Vec<Contender>,
    /// Requests per second in the open loop; 0 skips this part
    #[arg(long, default_value_t = 800.0, value_parser = within(0.0, 1e6))]
    rate: f64,
    /// Length of a turn at that rate
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, value_parser = within(1.0, 3600.0))]
    seconds: f64,
    /// Number of closed-loop generators, which run for a third of the time; 0 skips this part
    #[arg(long, default_value_t = 0)]
    generators: usize,
    /// Number of turns of each contender
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u16).range(1..))]
    rounds: u16,
    /// Length of the warm-up, in which all contenders take turns in a closed loop that is not
    /// measured, so that the nodes compile their hot code
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = within(0.0, 1e6))]
    warmup: f64,
    /// Share of reads: 1, 0.95 and 0.5 are YCSB's C, B and A
    #[arg(long, default_value_t = 0.95, value_parser = within(0.0, 1.0))]
    reads: f64,
    /// Maximum number of records that a read requests
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1000))]
    keys: u32,
    /// Additional updates per second in the second half of a turn
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = within(0.0, 1e6))]
    join: f64,
    /// Table of records
    #[arg(long, value_enum, default_value = "plain")]
    table: Table,
    /// Number of records that `nodes` created
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1..))]
    records: u64,
    /// Make reads and updates wait for a majority of the replicas
    #[arg(long)]
    quorum: bool,
    /// Disturbance of the third node: none, throttle:SHARE:SECONDS, pause:SECONDS or compact
    #[arg(long, value_name = "WHAT", default_value = "none")]
    disturb: Disturbance,
    /// Print the results on one line
    #[arg(long)]
    json: bool,
}

/// Returns a parser of numbers from `low` to `high`.
fn within(low: f64, high: f64) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let value = text.parse().ok().filter(|value| (low..=high).contains(value));
        value.ok_or_else(|| format!("must be from {low} to {high}"))
    }
}

/// Figures by name.
type Figures = BTreeMap<&'static str, f64>;

/// One turn of a contender.
#[derive(Serialize)]
struct Turn {
    offered: u64,
    answered: u64,
    errors: u64,
    left_out: u64,
    /// How late the generator sent requests, at p99, in ms.
    late_ms: f64,
    /// The latencies of reads in ms, the `dispersion` of the busiest node's load, the `throughput` of
    /// a closed loop in responses per second, and `after_join`: the highest median of any block of
    /// reads after the additional updates began.
    figures: Figures,
    #[serde(skip)]
    reads: Histogram<u64>,
}

/// The results of a contender.
#[derive(Serialize)]
struct Whole {
    name: String,
    errors: u64,
    /// Latencies of all reads of all rounds, in ms.
    latency: Figures,
    /// For each of the other contenders, the ratios of the figures.
    over: BTreeMap<String, BTreeMap<&'static str, Ratio>>,
    turns: Vec<Turn>,
}

/// A ratio measured over several rounds: the median and its 95 % interval.
#[derive(Serialize)]
struct Ratio {
    ratio: f64,
    low: f64,
    high: f64,
}

/// Adds up classes.
fn sum<'a>(classes: impl Iterator<Item = &'a Class>) -> Class {
    classes.fold(Class::default(), |mut sum, class| {
        sum.add(class);
        sum
    })
}

/// Returns the figures of latencies, in ms.
fn latency(reads: &Histogram<u64>) -> Figures {
    let at = |quantile| reads.value_at_quantile(quantile) as f64 / 1e6;
    let quantiles = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];
    let mut all: Figures = quantiles.map(|(name, quantile)| (name, at(quantile))).into();
    all.insert("mean", reads.mean() / 1e6);
    all
}

pub(crate) fn run(args: &Args, dir: &Path, runtime: &Runtime) -> Result<()> {
    let admin = runtime.block_on(nodes::admin())?;
    let connect = |who: &Contender| -> Result<Vec<Client>> {
        let all = (0..CLIENTS).map(|seed| Client::connect(who, args.settings(), seed.into()));
        runtime.block_on(try_join_all(all))
    };
    let clients = args.contenders.iter().map(connect).collect::<Result<Vec<_>>>()?;
    args.warm_up(&clients, runtime)?;
    let turns = take_turns(
        clients.len(),
        args.rounds.into(),
        |at, round| {
            let who = &args.contenders[at];
            eprintln!("round {} of {}: {}", round.calm + 1, args.rounds, who.name);
            nodes::set_snitch(dir, who.policy.is_none())?;
            runtime.block_on(set_retry(&admin, args.table, who.retry))?;
            let disturbed = Running::start(args.disturb, dir)?;
            let turn = args.turn(&clients[at], round.number as u64, runtime);
            disturbed.finish()?;
            turn
        },
        |_| true,
    )?;
    nodes::set_snitch(dir, true)?;
    let wholes = args.compare(turns);
    println!(
        "{}",
        if args.json {
            serde_json::to_string(&wholes)?
        } else {
            serde_json::to_string_pretty(&wholes)?
        }
    );
    Ok(())
}

impl Args {
    fn settings(&self) -> ClientSettings {
        let consistency = if self.quorum { Consistency::Quorum } else { Consistency::One };
        ClientSettings { table: self.table, consistency, clients: CLIENTS }
    }

    fn mix(&self, reads: f64, seed: u64) -> Result<Mix> {
        Mix::new(self.table.records(self.records), reads, self.keys, SEED * 1_000_003 + seed)
    }

    fn warm_up(&self, clients: &[Vec<Client>], runtime: &Runtime) -> Result<()> {
        let span = Duration::from_secs_f64(self.warmup / clients.len() as f64);
        for (at, clients) in clients.iter().enumerate() {
            let mix = |of| self.mix(self.reads, 1_000_000 * (at as u64 + 1) + of);
            closed(runtime, clients, (0..16).map(mix).collect::<Result<_>>()?, span)?;
        }
        Ok(())
    }

    /// Returns the requests of a round. Those whose latencies are not measured have no class. Reads
    /// are in class 0, or in blocks once the additional updates began.
    fn requests(&self, round: u64) -> Result<Vec<Request<Option<usize>, Operation>>> {
        let (span, join) = (Duration::from_secs_f64(self.seconds), self.seconds / 2.0);
        let (mut mix, mut updates) = (self.mix(self.reads, round)?, self.mix(0.0, round + 1_000)?);
        let usual = poisson(self.rate, span, SEED + round).map(|due| (due, mix.draw()));
        let more = poisson(self.join, span / 2, SEED + round + 1_000);
        let more = more.map(|due| (span / 2 + due, updates.draw()));
        let mut all: Vec<(Duration, Operation)> = usual.chain(more).collect();
        all.sort_by_key(|(due, _)| *due);
        let mut joined = BLOCK..;
        let mut class = |due: f64, what: &Operation| match what {
            Operation::Update(..) => None,
            Operation::Read(_) if due < UNMEASURED * self.seconds => None,
            Operation::Read(_) if self.join > 0.0 && due >= join => {
                joined.next().map(|read| read / BLOCK)
            }
            Operation::Read(_) => Some(0),
        };
        let request = |(due, what): (Duration, Operation)| Request {
            class: class(due.as_secs_f64(), &what),
            due,
            what,
        };
        Ok(all.into_iter().map(request).collect())
    }

    /// Runs one turn. All contenders get the same requests in a round.
    fn turn(&self, clients: &[Client], round: u64, runtime: &Runtime) -> Result<Turn> {
        let (requests, turns) = (self.requests(round)?, Cell::new(0));
        let ask = |what| {
            // Clients take turns.
            turns.set(turns.get() + 1);
            let client = clients[turns.get() % clients.len()].clone();
            async move { client.ask(what).await.is_ok() }
        };
        let watch = runtime.block_on(Watch::start(self.table))?;
        let sent = runtime.block_on(async {
            let timers = Timers::precise();
            open_loop::run(requests, BOUNDS, async |at| timers.sleep_until(at).await, ask).await
        });
        let dispersion = watch.stop(UNMEASURED * self.seconds..self.seconds);
        let all = sum(sent.classes.values());
        let reads = sum(sent.classes.iter().filter(|(class, _)| class.is_some()).map(|(_, of)| of));
        let blocks = sent.classes.iter().filter(|(class, of)| {
            class.is_some_and(|block| block > 0) && of.offered == BLOCK as u64
        });
        let after_join = blocks.map(|(_, of)| latency(&of.latencies)["p50"]).reduce(f64::max);
        let mut figures = latency(&reads.latencies);
        figures.insert("dispersion", dispersion);
        figures.extend(after_join.map(|median| ("after_join", median)));
        if self.generators > 0 {
            let mix = |at| self.mix(self.reads, 10_000 * (round + 1) + at as u64);
            let mixes = (0..self.generators).map(mix).collect::<Result<Vec<_>>>()?;
            let span = Duration::from_secs_f64(self.seconds / 3.0);
            figures.insert("throughput", closed(runtime, clients, mixes, span)?);
        }
        Ok(Turn {
            offered: all.offered,
            answered: all.answered(),
            errors: all.errors(),
            left_out: all.left_out,
            late_ms: latency(&sent.lateness)["p99"],
            figures,
            reads: reads.latencies,
        })
    }

    fn compare(&self, turns: Vec<Vec<Turn>>) -> Vec<Whole> {
        let names = || self.contenders.iter().map(|who| who.name.clone());
        let over = |own: &Vec<Turn>| -> BTreeMap<_, _> {
            let others = names().zip(&turns).filter(|(_, other)| !std::ptr::eq(own, *other));
            others.map(|(name, other)| (name, ratios(own, other))).collect()
        };
        let all: Vec<_> = turns.iter().map(over).collect();
        let whole = |((name, over), turns): ((String, _), Vec<Turn>)| {
            let mut reads = open_loop::latencies();
            turns.iter().for_each(|turn| reads.add(&turn.reads).expect("it resizes itself"));
            let errors = turns.iter().map(|turn| turn.errors + turn.left_out).sum();
            Whole { name, errors, latency: latency(&reads), over, turns }
        };
        names().zip(all).zip(turns).map(whole).collect()
    }
}

/// Returns the ratios of the figures of two contenders, which have the same figures.
fn ratios(one: &[Turn], other: &[Turn]) -> BTreeMap<&'static str, Ratio> {
    let names = one.first().into_iter().flat_map(|turn| turn.figures.keys().copied());
    let of = |name| {
        let figure = |turn: &Turn| turn.figures.get(name).copied().unwrap_or(f64::NAN);
        let of = ratio(one.iter().zip(other).map(|(one, other)| figure(one) / figure(other)));
        (name, Ratio { ratio: of.value, low: of.low, high: of.high })
    };
    names.map(of).collect()
}

/// Runs one generator per mix. Each sends a request as soon as it has the response to the previous
/// one. Returns the number of responses per second.
fn closed(runtime: &Runtime, clients: &[Client], mixes: Vec<Mix>, span: Duration) -> Result<f64> {
    let start = Instant::now();
    let generator = |(at, mut mix): (usize, Mix)| {
        let client = clients[at % clients.len()].clone();
        runtime.spawn(async move {
            let mut done = 0_u64;
            while start.elapsed() < span {
                done += u64::from(client.ask(mix.draw()).await.is_ok());
            }
            done
        })
    };
    let all: Vec<_> = mixes.into_iter().enumerate().map(generator).collect();
    let done = runtime.block_on(join_all(all));
    let done: u64 = done.into_iter().collect::<Result<Vec<u64>, _>>()?.into_iter().sum();
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

/// Sets whether coordinators read from another replica when one is slower than p99.
async fn set_retry(admin: &Session, table: Table, on: bool) -> Result<()> {
    let when = if on { "99p" } else { "NEVER" };
    let name = table.name();
    let alter = format!("ALTER TABLE {KEYSPACE}.{name} WITH speculative_retry = '{when}'");
    admin.query_unpaged(alter, &[]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_compared_round_by_round() {
        let turn = |ms: u64| {
            let mut reads = open_loop::latencies();
            reads.record(ms * 1_000_000).expect("it resizes itself");
            let figures = latency(&reads);
            Turn { offered: 1, answered: 1, errors: 0, left_out: 0, late_ms: 0.0, figures, reads }
        };
        let of = ratios(&[turn(2), turn(8)], &[turn(1), turn(1)]);
        let Ratio { ratio, low, high } = of["p99"];
        let near = |is: f64, wanted: f64| (is / wanted - 1.0).abs() < 0.01;
        assert!(near(ratio, 4.0) && near(low, 2.0) && near(high, 8.0), "{ratio} {low} {high}");
    }

    #[test]
    fn reads_after_the_join_are_in_blocks() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let line = ["run", "--contender", "c3", "--rate", "100", "--join", "10", "--reads", "1"];
        let Line { args } = clap::Parser::parse_from(line);
        let all = args.requests(0).expect("requests");
        assert!(all.is_sorted_by_key(|request| request.due));
        let of = |class| all.iter().filter(|request| request.class == class).count();
        // 20 seconds: 4 are not measured, and in the last 10 there are updates.
        assert!(of(Some(0)).abs_diff(600) < 150 && of(None).abs_diff(500) < 150);
        assert_eq!((of(Some(1)), of(Some(2))), (BLOCK, BLOCK));
    }
}
