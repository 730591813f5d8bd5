//! The arguments of the demo, and the plan that they define.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use curtail_dist::{Scale, Spec};
use curtail_kernel::duration::Unit;
use curtail_kernel::{Limits, Policy, Topology, duration, rng};
use curtail_search::leaf_server::Hiccup;

use super::results::same_load;
use crate::args::{Json, Seed, number};
use crate::exit::{Stop, bad};

/// Length of the warm-up, in mean service times. At a utilization of 70 %, the effect of starting
/// with empty queues has faded by the end of the warm-up.
const WARMUP_MEANS: f64 = 100.0;
const WARMUP_LEAST_NS: f64 = 3e8;

/// Requests per cell. At the default loads, the run takes four minutes, and 25 requests exceed each
/// p99.
const REQUESTS: u64 = 2_500;
/// A 99th percentile needs at least 1,000 requests.
const QUICK_REQUESTS: u64 = 1_050;

/// Watch how a real sharded search service loses its tail latency, policy by policy.
///
/// Builds an index over real text, starts five shards of two leaf processes each and a root, and
/// measures them at increasing utilizations, with the same requests for every policy. Each leaf
/// holds back its real response until a drawn service time has passed. The wait does not use the
/// processor, so ten leaves fit on a small machine.
///
/// Utilization is λ P̄ / (r c): λ queries per second with a mean service time of P̄, on the r
/// replicas of a shard with c slots each. It is the fraction of slots that would be busy if every
/// query ran once. "Copies per query" is the mean number of replicas of a shard that run a query: 1
/// without hedging, 2 if every query is sent twice.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run three loads and four policies (no fixed delay), in about a minute
    #[arg(long)]
    quick: bool,
    /// Directory for the report, the figures and the index
    #[arg(long, default_value = "out/demo", value_name = "DIR")]
    pub(super) out: PathBuf,
    /// Text to search: a directory, or a file of JSON lines [default: text found on this machine]
    #[arg(long, value_name = "PATH")]
    pub(super) corpus: Option<PathBuf>,
    /// Utilizations, λ P̄ / (r c), as fractions such as 0.2 [default: 0.2,0.35,0.5,0.65, or
    /// 0.2,0.4,0.6 with --quick]
    #[arg(long = "utilization", alias = "loads", value_delimiter = ',', value_name = "U,…", value_parser = fraction, allow_hyphen_values = true)]
    loads: Vec<f64>,
    /// Policies to compare; gains are relative to psq, or to the first policy if psq is not among
    /// them
    #[arg(long = "policy", alias = "policies", value_delimiter = ',', value_name = "POLICY,…")]
    policies: Vec<String>,
    /// Measured requests per load and policy [default: 2500, or 1050 with --quick]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    requests: Option<u64>,
    /// Number of shards of the index
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) shards: u32,
    /// Number of leaves per shard
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(super) replicas: u32,
    /// Number of queries that a leaf serves at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) slots: u32,
    /// Service time of a query (P)
    #[arg(long, default_value = "exp:3ms", value_name = "DIST")]
    pub(super) service_time: Spec,
    /// Probability and length of a hiccup (J) [default: 0.003 and 15 times the mean service time;
    /// none with --pause or --throttle]
    #[arg(long, value_name = "PROBABILITY:SPAN", allow_hyphen_values = true)]
    hiccup: Option<Hiccup>,
    /// Real hiccups: stop each leaf with a signal RATE times per second, for SPAN each time, such
    /// as 0.2:75ms
    #[arg(long, value_name = "RATE:SPAN", allow_hyphen_values = true)]
    pub(super) pause: Option<Pauses>,
    /// Real hiccups: use control groups to limit each leaf to this share of a core, such as 0.05
    #[arg(long, value_name = "SHARE", value_parser = fraction, allow_hyphen_values = true)]
    pub(super) throttle: Option<f64>,
    #[command(flatten)]
    pub(super) seed: Seed,
    /// Write the timings of each request, shard by shard, to timings.csv in --out
    #[arg(long)]
    pub(super) timings: bool,
    #[command(flatten)]
    pub(super) output: Json,
}

/// The resolved arguments.
pub(super) struct Plan<'a> {
    pub(super) args: &'a Args,
    pub(super) loads: Vec<f64>,
    pub(super) policies: Vec<(String, Policy)>,
    pub(super) requests: u64,
    pub(super) service_mean_ns: f64,
    /// `None` if no hiccups are drawn.
    pub(super) hiccup: Option<Hiccup>,
}

impl Args {
    pub(super) fn plan(&self) -> Result<Plan<'_>, Stop> {
        let bad = |text: String| Err(Stop::BadInput(text));
        let spec = &self.service_time;
        if spec.scale() == Scale::Relative {
            let with = spec.clone().in_unit(Unit::Millisecond);
            return bad(format!(
                "--service-time {spec}: its times have no unit; write {with}, for example"
            ));
        }
        let service = spec.resolve(1e6);
        let mean = service.map_err(|error| bad!("--service-time: {error}"))?.mean();
        if !(1e4..=1e9).contains(&mean) {
            let ms = mean / 1e6;
            return bad(format!(
                "--service-time {spec}: its mean is {ms} ms; give one from 10us to 1s"
            ));
        }
        if let Some(share) = self.throttle
            && !(0.01..=1.0).contains(&share)
        {
            return bad(format!("--throttle {share:?}: give a share of a core from 0.01 to 1"));
        }
        let real = self.pause.is_some() || self.throttle.is_some();
        // These are the hiccups of the paper's compute-optimized machines (document 001 §5).
        let usual = Hiccup { probability: 0.003, duration_ns: (15.0 * mean) as u64 };
        let plan = Plan {
            args: self,
            loads: self.loads()?,
            policies: self.policies(mean)?,
            requests: self.requests.unwrap_or(if self.quick { QUICK_REQUESTS } else { REQUESTS }),
            service_mean_ns: mean,
            hiccup: self.hiccup.or((!real).then_some(usual)),
        };
        let fastest = plan.loads.iter().copied().fold(0.0, f64::max);
        let (rate, most) = (plan.rate(fastest), curtail_load::RATE_MAX);
        if rate > most {
            return bad(format!(
                "--utilization {fastest}: that takes {rate:.0} requests per second, above the \
                 maximum of {most:.0}: give a longer --service-time or fewer slots"
            ));
        }
        Ok(plan)
    }

    fn loads(&self) -> Result<Vec<f64>, Stop> {
        let mut loads = match (&self.loads[..], self.quick) {
            ([], false) => vec![0.2, 0.35, 0.5, 0.65],
            ([], true) => vec![0.2, 0.4, 0.6],
            (given, _) => given.to_vec(),
        };
        let bad = |text: String| Err(Stop::BadInput(text));
        if let Some(load) = loads.iter().find(|load| !(0.01..1.0).contains(*load)) {
            return bad(format!("--utilization {load:?}: give utilizations from 0.01 to below 1"));
        }
        // The loads are sorted for the report and the plots.
        loads.sort_by(f64::total_cmp);
        if let Some(pair) = loads.windows(2).find(|pair| same_load(pair[0], pair[1])) {
            return bad(format!("--utilization {} is used twice; give each load once", pair[0]));
        }
        Ok(loads)
    }

    /// Parses the policies. `mean` is the mean service time of a query, in nanoseconds.
    fn policies(&self, mean: f64) -> Result<Vec<(String, Policy)>, Stop> {
        // In the thesis (document 000 §4.6), a delay of 5 P̄ was best. These are the strongest
        // delayed hedges: they stop the loser, as in the papers, and send copies to the replica
        // with the fewest outstanding copies.
        let delay = duration::format((5.0 * mean) as u64);
        let fixed = format!("delayed:{delay}:cc+least-outstanding");
        let learned = "delayed:p95:cc+least-outstanding";
        let names = match (&self.policies[..], self.quick) {
            ([], false) => ["psq", "laedge", &fixed, learned, "rescue"].map(String::from).to_vec(),
            ([], true) => ["psq", "laedge", learned, "rescue"].map(String::from).to_vec(),
            (given, _) => given.iter().map(|name| name.trim().to_owned()).collect(),
        };
        let policies = names.into_iter().map(|name| -> Result<_, Stop> {
            let policy = crate::root::policy(&name).map_err(|why| bad!("--policy: {why}"))?;
            // Without this check, the root would report the error only after the first policy has
            // been measured.
            let topology = Topology::replicated(self.replicas, self.slots);
            let limits = Limits { cancel: true, ..Limits::default() };
            policy
                .build(&topology, limits, rng(0))
                .map_err(|error| bad!("--policy {name}: {error}"))?;
            Ok((name, policy))
        });
        let policies: Vec<(String, Policy)> = policies.collect::<Result<_, _>>()?;
        for (at, (name, policy)) in policies.iter().enumerate() {
            if let Some((first, _)) = policies[..at].iter().find(|other| other.1 == *policy) {
                let also = if first == name { "" } else { " and means the same" };
                let text = format!("--policy {first}: {name} is also given{also}; give each once");
                return Err(Stop::BadInput(text));
            }
        }
        Ok(policies)
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    number(text, |_| true, "write a fraction such as 0.2")
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Plan<'_> {
    /// Returns the rate in requests per second at a utilization, as the thesis defines it: λ = ρ r
    /// c / P̄.
    pub(super) fn rate(&self, load: f64) -> f64 {
        load * f64::from(self.args.replicas * self.args.slots) / (self.service_mean_ns / 1e9)
    }

    /// Length of the warm-up, in nanoseconds. It opens connections, warms caches, and lets queues
    /// reach their usual lengths.
    pub(super) fn warmup_ns(&self) -> u64 {
        (WARMUP_MEANS * self.service_mean_ns).max(WARMUP_LEAST_NS) as u64
    }

    /// A note that is shown if hiccups push a load beyond the capacity of the leaves.
    pub(super) fn overload(&self) -> Option<String> {
        let hiccup = self.hiccup?;
        let longer_ns = hiccup.probability * hiccup.duration_ns as f64;
        let times = 1.0 + longer_ns / self.service_mean_ns;
        let overloaded = self.loads.iter().find(|&&load| load * times >= 1.0)?;
        Some(format!(
            "note: with hiccups of {hiccup} a leaf is busy with a query for {times:.2} times its \
             mean service time, so loads of {overloaded} and above exceed the capacity of all \
             leaves, unless hiccups are cut short; give a lower --utilization or a smaller --hiccup"
        ))
    }

    /// The source of hiccups, in words.
    pub(super) fn hiccups(&self) -> String {
        let parts = [
            self.hiccup.map(|hiccup| hiccup.to_string()),
            self.args.pause.map(|pause| format!("paused {pause}")),
            self.args.throttle.map(|share| format!("throttled to {share} of a core")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(" + ") }
    }

    /// A sentence on the dependence between drawn hiccups. Empty if none are drawn, or if they are
    /// drawn independently because they are not rare.
    pub(super) fn strata(&self) -> String {
        let queries = self.hiccup.map_or(0.0, |hiccup| (1.0 / hiccup.probability).round());
        if queries < 2.0 {
            return String::new();
        }
        format!(
            "Hiccups are drawn in strata, not independently: of each {queries} consecutive \
             queries, one has a hiccup on a given leaf."
        )
    }

    pub(super) fn honesty(&self) -> String {
        let Args { shards, replicas, service_time, .. } = self.args;
        format!(
            "Real: the text, the index, the scoring, {} leaf processes, a root process and every \
             socket between them; hiccups where they are paused or throttled. Stretched: a leaf \
             delays its real response until a drawn service time has passed ({service_time} per \
             query, the same on every replica and for every policy). Hiccups: {}.",
            shards * replicas,
            self.hiccups()
        )
    }

    pub(super) fn command(&self) -> String {
        let Args { quick, timings, shards, replicas, slots, service_time, seed, .. } = self.args;
        let loads: Vec<String> = self.loads.iter().map(f64::to_string).collect();
        let names: Vec<&str> = self.policies.iter().map(|(name, _)| name.as_str()).collect();
        let mut text = format!(
            "curtail demo --utilization {} --policy {} --requests {} --shards {shards} --replicas \
             {replicas} --slots {slots} --service-time {} --seed {}",
            loads.join(","),
            names.join(","),
            self.requests,
            quoted(&service_time.to_string()),
            seed.seed
        );
        let path = |path: &Path| quoted(&path.display().to_string());
        let flag = |set: &bool| set.then(String::new);
        for (name, value) in [
            ("quick", flag(quick)),
            ("timings", flag(timings)),
            ("hiccup", self.hiccup.map(|hiccup| hiccup.to_string())),
            ("pause", self.args.pause.map(|pause| pause.to_string())),
            ("throttle", self.args.throttle.map(|share| share.to_string())),
            ("corpus", self.args.corpus.as_deref().map(path)),
            ("out", Some(path(&self.args.out))),
        ] {
            text.extend(value.map(|value| format!(" --{name} {value}").trim_end().to_owned()));
        }
        text
    }
}

/// How often each leaf is stopped, and for how long. `0.2:75ms` stops it for 75 ms every five
/// seconds on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pauses {
    pub(super) per_second: f64,
    pub(super) length_ns: u64,
}

impl FromStr for Pauses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FIX: &str = "write RATE:SPAN, such as 0.2:75ms, with 0.001 to 100 pauses per second \
                           of 1ms to 10s";
        let bad = || format!("`{text}`: {FIX}");
        let (often, length) = text.split_once(':').ok_or_else(bad)?;
        let often = often.parse().ok().filter(|often| (0.001..=100.0).contains(often));
        let length_ns = duration::parse(length).map_err(|error| format!("{error}; {FIX}"))?;
        let is_fine = (1_000_000..=10_000_000_000).contains(&length_ns);
        let per_second = often.filter(|_| is_fine).ok_or_else(bad)?;
        Ok(Self { per_second, length_ns })
    }
}

impl fmt::Display for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.per_second, duration::format(self.length_ns))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Demo {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn by_default_delayed_hedges_cancel_and_pick_the_least_outstanding() {
        let names = |flags: &[&str]| {
            let demo = Demo::try_parse_from([&["demo"], flags].concat()).expect("good");
            let policies = demo.args.policies(3e6).unwrap_or_else(|_| panic!("good"));
            policies.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let (fixed, learned) =
            ("delayed:15ms:cc+least-outstanding", "delayed:p95:cc+least-outstanding");
        assert_eq!(names(&[]), ["psq", "laedge", fixed, learned, "rescue"]);
        assert_eq!(names(&["--quick"]), ["psq", "laedge", learned, "rescue"]);
    }

    #[test]
    fn loads_are_in_order() {
        let demo = Demo::try_parse_from(["demo", "--utilization", "0.6,0.2,0.4"]).expect("good");
        assert_eq!(demo.args.loads().expect("good"), [0.2, 0.4, 0.6]);
    }

    #[test]
    fn hiccups_that_take_all_leaves_are_reported() {
        let overload = |flags: &[&str]| {
            let demo =
                Demo::try_parse_from([&["demo", "--utilization", "0.1,0.3,0.4"], flags].concat());
            let args = demo.expect("good").args;
            args.plan().unwrap_or_else(|_| panic!("good")).overload()
        };
        assert_eq!(overload(&[]), None);
        let note = overload(&["--hiccup", "0.05:200ms"]).expect("0.3 becomes 1.3");
        assert!(note.contains("4.33 times") && note.contains("loads of 0.3 and above"), "{note}");
    }

    #[test]
    fn hiccups_that_are_drawn_are_drawn_in_strata_and_real_ones_are_not() {
        let strata = |flags: &str| {
            let words = ["demo"].into_iter().chain(flags.split_whitespace());
            let args = Demo::try_parse_from(words).expect("good").args;
            args.plan().unwrap_or_else(|_| panic!("good")).strata()
        };
        assert!(strata("").contains("in strata, not independently: of each 333 consecutive"));
        assert!(strata("--hiccup 0.01:5ms --pause 1:5ms").contains("of each 100 consecutive"));
        for none in ["--pause 1:5ms", "--throttle 0.05", "--hiccup 0.9:1ms"] {
            assert_eq!(strata(none), "", "{none}");
        }
    }

    #[test]
    fn a_shell_reads_a_word_as_it_was() {
        assert_eq!(quoted("exp:3ms"), "exp:3ms");
        assert_eq!(quoted("two words"), "'two words'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn pauses_read_back_as_printed() {
        for text in ["0.2:75ms", "1:1.5s"] {
            assert_eq!(text.parse::<Pauses>().map(|pauses| pauses.to_string()), Ok(text.into()));
        }
        for bad in
            ["", "75ms", "0:75ms", "-1:75ms", "NaN:5ms", "1000:75ms", "1:75", "1:0ms", "1:1h"]
        {
            let message = bad.parse::<Pauses>().expect_err(bad);
            assert!(
                message.contains("0.2:75ms") && message.contains(bad.rsplit(':').next().unwrap())
            );
        }
    }
}
