//! Contenders take turns on the same nodes, under the same disturbance, and are compared round by
//! round.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::client::{Client, ClientSettings};
use crate::contender::Contender;
use crate::disturb::{Disturbance, Running};
use crate::figures::{self, Latency, Load, Ratio};
use crate::load::{self, Seen};
use crate::nodes;
use crate::servers::Watch;
use crate::workload::{KEYSPACE, Mix, Table};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Contenders, which choose replicas: snitch or token-aware, each optionally with +retry
    /// (speculative, at p99), or a policy such as c3
    #[arg(long = "contender", value_name = "NAME", required = true)]
    contenders: Vec<Contender>,
    /// Requests per second in the open loop; 0 skips this part
    #[arg(long, default_value_t = 800.0)]
    rate: f64,
    /// Length of a turn at that rate
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    seconds: f64,
    /// Number of closed-loop generators, which run for a third of the time; 0 skips this part
    #[arg(long, default_value_t = 0)]
    generators: usize,
    /// Number of turns of each contender
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Length of the warm-up, in which all contenders take turns in a closed loop that is not
    /// measured, so that the nodes compile their hot code
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    warmup: f64,
    /// Number of clients. Each client has its own session and decides independently
    #[arg(long, default_value_t = 5)]
    clients: u32,
    /// Share of reads: 1, 0.95 and 0.5 are YCSB's C, B and A
    #[arg(long, default_value_t = 0.95)]
    reads: f64,
    /// Maximum number of records that a read requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    keys: u32,
    /// Additional updates per second in the second half of a turn
    #[arg(long, value_name = "RATE", default_value_t = 0.0)]
    join: f64,
    /// Table of records
    #[arg(long, value_enum, default_value = "plain")]
    table: Table,
    /// Number of records that `nodes` created
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// Make reads and updates wait for a majority of the replicas
    #[arg(long)]
    quorum: bool,
    /// Disturbance of the third node: none, throttle:SHARE:SECONDS, pause:SECONDS or compact
    #[arg(long, value_name = "WHAT", default_value = "none")]
    disturb: Disturbance,
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// One turn of a contender.
#[derive(Clone, Serialize)]
struct Turn {
    offered: u64,
    answered: u64,
    errors: u64,
    left_out: u64,
    /// How late the generator sent requests, at p99, in ms.
    late_ms: f64,
    latency: Latency,
    /// Responses per second in a closed loop.
    throughput: Option<f64>,
    load: Load,
    /// The highest median of any 50 consecutive reads after the additional updates began.
    after_join: Option<f64>,
}

/// The results of a contender.
#[derive(Serialize)]
struct Whole {
    name: String,
    errors: u64,
    /// Latencies of all reads of all rounds.
    latency: Latency,
    throughput: Option<f64>,
    /// For each figure, the ratios to each of the other contenders.
    over: BTreeMap<String, BTreeMap<&'static str, Ratio>>,
    turns: Vec<Turn>,
}

impl Args {
    /// Checks that every value is in its range.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.rounds > 0 && self.clients > 0, "--rounds and --clients: must be at least 1");
        ensure!((0.0..=1.0).contains(&self.reads), "--reads {}: must be from 0 to 1", self.reads);
        ensure!((1..=1000).contains(&self.keys), "--keys: must be from 1 to 1000");
        ensure!(self.records > 0, "--records: must be at least 1");
        let sane = |value: f64| (0.0..=1e6).contains(&value);
        ensure!(
            sane(self.rate) && sane(self.join),
            "--rate and --join: must be from 0 to 1,000,000"
        );
        ensure!(self.seconds >= 1.0 && self.seconds <= 3600.0, "--seconds: must be from 1 to 3600");
        ensure!(sane(self.warmup), "--warmup: must be from 0 to 1,000,000");
        Ok(())
    }
}

pub(crate) fn run(args: &Args, dir: &Path, runtime: &Runtime) -> Result<()> {
    let admin = runtime.block_on(admin())?;
    let seeds = 0..u64::from(args.clients);
    let connect = |who: &Contender| -> Result<Vec<Client>> {
        let all = seeds.clone().map(|seed| Client::connect(who, args.settings(), seed));
        runtime.block_on(futures_util::future::try_join_all(all))
    };
    let clients = args.contenders.iter().map(connect).collect::<Result<Vec<_>>>()?;
    args.warm_up(&clients, runtime)?;
    let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); args.contenders.len()];
    let mut reads: Vec<Vec<f64>> = vec![Vec::new(); args.contenders.len()];
    for round in 0..args.rounds {
        for turn in 0..args.contenders.len() {
            // The order of contenders rotates from round to round.
            let at = (turn + round) % args.contenders.len();
            let who = &args.contenders[at];
            eprintln!("round {} of {}: {}", round + 1, args.rounds, who.name);
            nodes::set_snitch(dir, who.snitch)?;
            runtime.block_on(set_retry(&admin, args.table, who.retry))?;
            let (turn, seen) = args.turn(&clients[at], round as u64, dir, runtime)?;
            turns[at].push(turn);
            reads[at].extend(seen);
        }
    }
    nodes::set_snitch(dir, true)?;
    let wholes = args.compare(turns, reads);
    match args.json {
        true => println!("{}", serde_json::to_string(&wholes)?),
        false => print!("{}", table(&wholes)),
    }
    Ok(())
}

impl Args {
    fn settings(&self) -> ClientSettings {
        let consistency = if self.quorum { Consistency::Quorum } else { Consistency::One };
        ClientSettings { table: self.table, consistency, clients: self.clients }
    }

    fn mix(&self, reads: f64, seed: u64) -> Result<Mix> {
        Mix::new(
            self.table.records(self.records),
            reads,
            self.keys,
            self.seed.wrapping_mul(1_000_003) + seed,
        )
    }

    fn warm_up(&self, clients: &[Vec<Client>], runtime: &Runtime) -> Result<()> {
        let span = Duration::from_secs_f64(self.warmup / clients.len() as f64);
        for (at, clients) in clients.iter().enumerate() {
            let mix = |of| self.mix(self.reads, 1_000_000 * (at as u64 + 1) + of);
            let mixes = (0..16).map(mix).collect::<Result<Vec<_>>>()?;
            load::closed(runtime, clients, mixes, span)?;
        }
        Ok(())
    }

    /// Runs one turn. All contenders get the same requests in a round. The first fifth of the time
    /// is not measured, because clients start with outdated data about the servers.
    fn turn(
        &self,
        clients: &[Client],
        round: u64,
        dir: &Path,
        runtime: &Runtime,
    ) -> Result<(Turn, Vec<f64>)> {
        let span = Duration::from_secs_f64(self.seconds);
        let disturbed = Running::start(self.disturb, dir)?;
        let mut requests =
            load::schedule(&mut self.mix(self.reads, round)?, self.rate, Duration::ZERO, span);
        if self.join > 0.0 {
            let mut updates = self.mix(0.0, round + 1_000)?;
            requests.extend(load::schedule(&mut updates, self.join, span / 2, span));
            requests.sort_by_key(|(due, _)| *due);
        }
        let watch = runtime.block_on(Watch::start(self.table))?;
        let Seen { offered, answered, errors, left_out, late_ms, reads } =
            load::open(runtime, clients, requests);
        let loads = watch.stop(0.2 * self.seconds..self.seconds);
        let throughput = match self.generators {
            0 => None,
            generators => {
                let mix = |at| self.mix(self.reads, 10_000 * (round + 1) + at as u64);
                let mixes = (0..generators).map(mix).collect::<Result<Vec<_>>>()?;
                Some(load::closed(runtime, clients, mixes, span / 3)?)
            }
        };
        drop(disturbed);
        let from = |share: f64| reads.partition_point(|(due, _)| *due < share * self.seconds);
        let of = |reads: &[(f64, f64)]| reads.iter().map(|(_, ms)| *ms).collect::<Vec<f64>>();
        let counted = of(&reads[from(0.2)..]);
        let after_join =
            (self.join > 0.0).then(|| figures::worst_median(&of(&reads[from(0.5)..]), 50));
        let (latency, load) = (figures::latency(counted.clone()), figures::load(&loads));
        let turn = Turn {
            offered,
            answered,
            errors,
            left_out,
            late_ms,
            latency,
            throughput,
            load,
            after_join,
        };
        Ok((turn, counted))
    }

    fn compare(&self, turns: Vec<Vec<Turn>>, reads: Vec<Vec<f64>>) -> Vec<Whole> {
        let names: Vec<String> = self.contenders.iter().map(|who| who.name.clone()).collect();
        let over = |at: usize| {
            let others = (0..names.len()).filter(|other| *other != at);
            others.map(|other| (names[other].clone(), ratios(&turns[at], &turns[other]))).collect()
        };
        let all: Vec<_> = (0..names.len()).map(over).collect();
        let parts = names.into_iter().zip(all).zip(turns.into_iter().zip(reads));
        parts
            .map(|((name, over), (turns, reads))| {
                let closed: Option<Vec<f64>> = turns.iter().map(|turn| turn.throughput).collect();
                Whole {
                    name,
                    errors: turns.iter().map(|turn| turn.errors + turn.left_out).sum(),
                    latency: figures::latency(reads),
                    throughput: closed.map(|closed| figures::mean(&closed)),
                    over,
                    turns,
                }
            })
            .collect()
    }
}

fn ratios(one: &[Turn], other: &[Turn]) -> BTreeMap<&'static str, Ratio> {
    type Of = fn(&Turn) -> Option<f64>;
    let figures: [(&str, Of); 8] = [
        ("mean", |turn| Some(turn.latency.mean)),
        ("p50", |turn| Some(turn.latency.p50)),
        ("p95", |turn| Some(turn.latency.p95)),
        ("p99", |turn| Some(turn.latency.p99)),
        ("p999", |turn| Some(turn.latency.p999)),
        ("throughput", |turn| turn.throughput),
        ("dispersion", |turn| Some(turn.load.dispersion)),
        ("after_join", |turn| turn.after_join),
    ];
    let ratio = |(name, of): (&'static str, Of)| {
        let values = |turns: &[Turn]| turns.iter().map(of).collect::<Option<Vec<f64>>>();
        Some((name, figures::ratio(&values(one)?, &values(other)?)))
    };
    figures.into_iter().filter_map(ratio).collect()
}

async fn admin() -> Result<Session> {
    let session = SessionBuilder::new().known_node(nodes::address(0) + ":9042").build().await;
    session.context(
        "no node listens: start the nodes with `nodes`, and wait until it prints their addresses",
    )
}

/// Sets whether coordinators read from another replica when one is slower than p99.
async fn set_retry(admin: &Session, table: Table, on: bool) -> Result<()> {
    let when = if on { "99p" } else { "NEVER" };
    let name = table.name();
    let alter = format!("ALTER TABLE {KEYSPACE}.{name} WITH speculative_retry = '{when}'");
    admin.query_unpaged(alter, &[]).await?;
    Ok(())
}

/// Formats a table with a line per contender, which includes its ratios to each of the others.
fn table(wholes: &[Whole]) -> String {
    let mut text = format!(
        "{:<24}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
        "reads, in ms", "mean", "p50", "p95", "p99", "p99.9", "errors", "closed/s"
    );
    for Whole { name, latency: of, errors, throughput, .. } in wholes {
        let closed = throughput.map_or("-".into(), |closed| format!("{closed:.0}"));
        text += &format!(
            "{name:<24}{:>9.2}{:>9.2}{:>9.2}{:>9.2}{:>9.2}{errors:>9}{closed:>9}\n",
            of.mean, of.p50, of.p95, of.p99, of.p999
        );
    }
    for whole in wholes {
        for (other, ratios) in &whole.over {
            text += &format!("\n{} over {other}\n", whole.name);
            for (name, Ratio { ratio, low, high }) in ratios {
                let interval = low.zip(*high).map(|(low, high)| format!("({low:.2} to {high:.2})"));
                text += &format!("  {name:<12}{ratio:>7.2} {}\n", interval.unwrap_or_default());
            }
        }
    }
    text
}
