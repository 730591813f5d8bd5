//! The load generator and IQ-jitter.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use xtask::{cargo, page};

use crate::figures::{at, each, first_numbers, mean, median, members, text, texts, with};
use crate::lab::{Lab, Server, kept_up};
use crate::line::Line;
use crate::verdict::{Finding, Verdict, above, below, least, most, noted};

pub(crate) const LINES: &[Line] = &[
    TRUTH_1,
    STALL_1,
    ARRIVALS_2,
    LAG_2,
    WRK_3,
    OHA_3,
    OMISSION_4,
    JITTER_5,
    CALM_5,
    MEMCACHED_5,
    HTTPD_5,
    CHAIN_6,
];

const TRUTH_1: Line = Line {
    number: 1,
    name: "truth",
    text: "the report matches what the server counted",
    seconds: 190,
    quick_seconds: 60,
    judge: truth,
    ..Line::NEW
};

const STALL_1: Line = Line {
    number: 1,
    name: "stall",
    text: "a stall of 1 s every 10 s appears in the corrected p99 and not in the uncorrected one",
    seconds: 32,
    quick_seconds: 22,
    judge: stall,
    ..Line::NEW
};

const ARRIVALS_2: Line = Line {
    number: 2,
    name: "arrivals",
    text: "Poisson schedules pass the Kolmogorov–Smirnov test at 0.001, others do not: 400 seeds, three profiles",
    seconds: 20,
    quick_seconds: 20,
    judge: arrivals,
    ..Line::NEW
};

const LAG_2: Line = Line {
    number: 2,
    name: "lag",
    text: "requests are sent when they are due",
    seconds: 250,
    quick_seconds: 52,
    needs: &["cores:2"],
    judge: lag,
    ..Line::NEW
};

const WRK_3: Line = Line {
    number: 3,
    name: "wrk",
    text: "compared with wrk: throughput of one thread at least half of wrk's",
    seconds: 45,
    quick_seconds: 10,
    needs: &["cores:2", "apt:nginx", "apt:wrk"],
    judge: wrk,
    ..Line::NEW
};

const OHA_3: Line = Line {
    number: 3,
    name: "oha",
    text: "compared with oha: p50 at fixed rates at most oha's + 50 µs",
    seconds: 90,
    needs: &["cores:2", "apt:nginx", "cargo:oha"],
    judge: oha,
    ..Line::NEW
};

const OMISSION_4: Line = Line {
    number: 4,
    name: "omission",
    text: "a closed loop hides a stall of 1 s that an open loop shows",
    seconds: 62,
    quick_seconds: 42,
    judge: omission,
    ..Line::NEW
};

const JITTER_5: Line = Line {
    number: 5,
    name: "jitter",
    text: "injected hiccups are found",
    seconds: 580,
    quick_seconds: 40,
    judge: jitter,
    ..Line::NEW
};

const CALM_5: Line = Line {
    number: 5,
    name: "calm",
    text: "without injection, no hiccups are attributed to the leaf",
    seconds: 130,
    judge: calm,
    ..Line::NEW
};

const MEMCACHED_5: Line = Line {
    number: 5,
    name: "memcached",
    text: "memcached has a report with plots",
    seconds: 40,
    needs: &["apt:memcached"],
    judge: memcached,
    ..Line::NEW
};

const HTTPD_5: Line = Line {
    number: 5,
    name: "httpd",
    text: "Apache httpd has a report with plots",
    seconds: 40,
    needs: &["apt:apache2"],
    judge: httpd,
    ..Line::NEW
};

const CHAIN_6: Line = Line {
    number: 6,
    name: "chain",
    text: "the commands of docs/chain.md, in full: the measured gain matches the predicted one",
    seconds: 310,
    judge: chain,
    ..Line::NEW
};

/// A protocol of the stub server, with the target and the flags with which it gets requests.
struct Protocol {
    name: &'static str,
    path: &'static str,
    flags: &'static [&'static str],
}

const PROTOCOLS: [Protocol; 7] = [
    Protocol { name: "http1", path: "/x", flags: &[] },
    Protocol { name: "http2", path: "/x", flags: &["--http2"] },
    Protocol { name: "grpc", path: "/stub.Stub/Ask", flags: &["--data", r#"{"base64":""}"#] },
    Protocol { name: "memcached", path: "", flags: &["--data", "get key"] },
    Protocol { name: "redis", path: "", flags: &["--data", "GET key"] },
    Protocol { name: "tcp", path: "", flags: &["--data", r"ask\n"] },
    Protocol { name: "udp", path: "", flags: &[] },
];

impl Protocol {
    /// Returns the report of the load generator, with the server's own document as `said`.
    fn measure(&self, lab: &Lab<'_>, delay: &str) -> Result<Value> {
        let stub = lab.server(format!("@stub {} {delay}", self.name))?.announced()?;
        let scheme = if self.name.starts_with("http") { "http" } else { self.name };
        let (target, span) =
            (format!("{scheme}://{}{}", stub.address, self.path), span(lab, 12, 3));
        let load = format!("@curtail load {target} --rate 500 --duration {span} --json");
        let mut report = lab.run(load).args(self.flags).json()?;
        report["said"] = stub.last_words()?;
        Ok(report)
    }
}

/// Returns the duration of a run.
fn span(lab: &Lab<'_>, full: u32, quick: u32) -> String {
    lab.var("span", &format!("{full}s"), &format!("{quick}s"))
}

/// Each protocol runs without a delay and with one. The run without a delay measures the path there
/// and back.
fn truth(lab: &mut Lab<'_>) -> Result<()> {
    let reports = |delay: &str| -> Result<Vec<Value>> {
        PROTOCOLS.iter().map(|protocol| protocol.measure(lab, delay)).collect()
    };
    let (plain, delayed) = (reports("")?, reports("uniform:1ms:30ms")?);
    let more = with(&each(&delayed, "/requests"), &each(&delayed, "/said/requests"), |a, b| a - b);
    let claim = "all protocols: the number of requests equals the server's count";
    lab.check(claim, more, most(0.0).least(0.0));
    lab.check("all protocols: no errors", members(&delayed, "/errors"), most(0.0));
    for ((protocol, plain), delayed) in PROTOCOLS.iter().zip(&plain).zip(&delayed) {
        for of in ["p50", "p90", "p95", "p99"] {
            let claim = "is within 2 % of the truth, or within the path's own time";
            let truth = at(delayed, &format!("/said/truth_ns/{of}"));
            let latency = format!("/latency_ns/{of}");
            let off = at(delayed, &latency) - truth;
            let (mut figure, mut verdict) = most(0.02).least(-0.02).judge(&[off / truth]);
            if verdict == Verdict::Broken {
                let path = [off / at(plain, &latency)];
                let (of_path, within_path) = most(1.0).least(-1.0).judge(&path);
                (figure, verdict) = (format!("{figure}; else {of_path}"), within_path);
            }
            let claim = format!("{}: {of} {claim}", protocol.name);
            lab.findings.push(Finding { claim, figure, verdict });
        }
    }
    Ok(())
}

/// Starts a server that stalls for 1 s every 10 s.
fn stalling(lab: &Lab<'_>) -> Result<Server> {
    lab.server("@stub http1 det:1ms 10s/1s")?.announced()
}

/// Sends requests with 8 connections to a server that stalls.
fn load(lab: &Lab<'_>, server: &Server, flags: &str) -> Result<Value> {
    let (address, span) = (server.address, span(lab, 30, 20));
    let load = format!("@curtail load http://{address}/x --duration {span} --connections 8");
    lab.run(format!("{load} {flags} --json")).json()
}

fn stall(lab: &mut Lab<'_>) -> Result<()> {
    let report = load(lab, &stalling(lab)?, "--rate 500")?;
    let claim = "8 connections, 500/s, a stall of 1 s every 10 s: the corrected p99";
    lab.check(claim, at(&report, "/latency_ns/p99"), above(500e6).unit("ns"));
    lab.check("the uncorrected p99", at(&report, "/uncorrected_ns/p99"), below(100e6).unit("ns"));
    Ok(())
}

fn omission(lab: &mut Lab<'_>) -> Result<()> {
    let server = stalling(lab)?;
    let (closed, open) = (load(lab, &server, "--closed")?, load(lab, &server, "--rate 500")?);
    let claim = "p99 of 8 connections in a closed loop, with a stall of 1 s every 10 s";
    lab.check(claim, at(&closed, "/latency_ns/p99"), below(100e6).unit("ns"));
    let p99 = at(&open, "/latency_ns/p99");
    lab.check("p99 of an open loop at 500/s", p99, above(500e6).unit("ns"));
    Ok(())
}

fn arrivals(lab: &mut Lab<'_>) -> Result<()> {
    let tests = lab.run("cargo test -q -p curtail-load --lib arrival_test");
    let results = tests.lines("test result: ")?;
    lab.all(lab.text, &results, |result| result.contains("ok."));
    lab.check("tests that ran", first_numbers(&results), above(0.0));
    Ok(())
}

/// The lag is compared while the generator only waits for the time of a request. Therefore requests
/// are evenly spaced, and none is due while another one is being sent. In a Poisson process this
/// happens at every rate, and a single thread sends such requests one after the other, so chance
/// would decide p99. The even rate has no common divisor with the rate of the kernel's ticks, so
/// requests meet the ticks at all phases.
fn lag(lab: &mut Lab<'_>) -> Result<()> {
    const SIDES: [&str; 3] = [
        "--rate 1993 --arrivals constant --duration 10s",
        "--rate 50 --arrivals poisson --duration 24s",
        "--rate 2000 --arrivals poisson --duration 5s",
    ];
    let stub = lab.server("taskset -c 1 @stub http1")?.announced()?;
    let target = format!("http://{}/x", stub.address);
    let turn = |side: usize, round| match SIDES.get(side) {
        None => lab.run("taskset -c 0 @lateness 1993 10").json(),
        Some(flags) => {
            let load = format!("@curtail load {target} {flags} --seed {round}");
            lab.run(format!("{load} --spin --processors 0 --json")).json()
        }
    };
    let reports = lab.rounds(SIDES.len() + 1, lab.number("rounds", 5, 1)?, turn, kept_up)?;
    let [even, sparse, crowded, bare] = &reports[..] else { unreachable!("four sides") };
    for (name, reports) in [("sparse", sparse), ("crowded", crowded)] {
        let claim = format!("the sent requests pass the test of their process, {name}");
        lab.all(claim, &texts(reports, "/arrival_test/failed"), |failed| failed == "false");
    }
    for (name, reports) in [("even", even), ("sparse", sparse), ("crowded", crowded)] {
        let claim = format!("p50 of the lag under 10 µs with spinning, {name}");
        lab.check(claim, each(reports, "/schedule_lag_ns/p50"), below(10e3).unit("ns"));
    }
    for of in ["p95", "p99"] {
        let ours = median(&each(even, &format!("/schedule_lag_ns/{of}")));
        let ratio = ours / median(&each(bare, &format!("/{of}")));
        let claim = format!("{of} of the lag at most 1.5 × that of a bare loop on the same core");
        lab.check(claim, ratio, most(1.5));
    }
    for (claim, reports, pointer) in [
        ("p99 of the bare loop", bare, "/p99"),
        ("p99 of the lag, even", even, "/schedule_lag_ns/p99"),
        ("p99 of the lag, Poisson at 50/s", sparse, "/schedule_lag_ns/p99"),
        ("p99 of the lag, Poisson at 2000/s", crowded, "/schedule_lag_ns/p99"),
        ("time to send at 2000/s", crowded, "/split_ns/p50/client_send"),
    ] {
        lab.check(claim, each(reports, pointer), noted().unit("ns"));
    }
    Ok(())
}

/// Starts a server with tiny responses on the second core.
fn tiny(lab: &Lab<'_>) -> Result<Server> {
    let nginx = lab.server("taskset -c 1 nginx -e stderr -c")?.config("nginx-ok.conf", &[])?;
    nginx.listening()?.ready("/")
}

fn wrk(lab: &mut Lab<'_>) -> Result<()> {
    let server = tiny(lab)?;
    let target = format!("http://{}/", server.address);
    let turn = |side: usize, _| {
        if side == 0 {
            let wrk = lab.run(format!("taskset -c 0 wrk -t1 -c16 -d4s {target}"));
            let rate = first_numbers(&wrk.lines("Requests/sec:")?).first().copied();
            return Ok(json!({ "achieved_rate": rate }));
        }
        let load = format!("taskset -c 0 @curtail load {target} --closed --duration 4s");
        lab.run(format!("{load} --connections 16 --spin --json")).json()
    };
    let reports = lab.rounds(2, lab.number("rounds", 5, 1)?, turn, kept_up)?;
    let [wrk, ours] = [0, 1].map(|side| each(&reports[side], "/achieved_rate"));
    lab.check_line(median(&ours) / median(&wrk), least(0.5));
    lab.check("requests per second, ours", ours, noted());
    lab.check("requests per second, wrk's", wrk, noted());
    Ok(())
}

fn oha(lab: &mut Lab<'_>) -> Result<()> {
    const RATES: [u32; 2] = [1000, 5000];
    let server = tiny(lab)?;
    let target = format!("http://{}/", server.address);
    // Sides are oha and ours at one rate, and then at the next.
    let turn = |side: usize, _| {
        let rate = RATES[side / 2];
        let (oha, ours) = (
            format!(
                "@oha --no-tui --output-format json --latency-correction -q {rate} -z 4s -c 16"
            ),
            format!(
                "@curtail load --rate {rate} --arrivals constant --duration 4s --connections 16 --json"
            ),
        );
        let command = if side.is_multiple_of(2) { oha } else { ours };
        lab.run(format!("taskset -c 0 {command} {target}")).json()
    };
    let reports = lab.rounds(2 * RATES.len(), 5, turn, kept_up)?;
    for (rate, sides) in RATES.into_iter().zip(reports.chunks(2)) {
        let ours = median(&each(&sides[1], "/latency_ns/p50")) / 1e9;
        let more = ours - median(&each(&sides[0], "/latencyPercentiles/p50"));
        let claim = format!("p50 at {rate}/s at most oha's + 50 µs: the difference of the medians");
        lab.check(claim, more, most(50e-6).unit("s"));
    }
    Ok(())
}

/// What was injected into a leaf, and what `curtail jitter` found.
struct Hiccups {
    probability: f64,
    found: f64,
    /// Whether at least 200 hiccups were expected. The criterion is the expected number, not the
    /// observed one: runs with 200 observed hiccups have often reached that number only by chance,
    /// so they tend to have too many.
    many: bool,
    /// The relative errors of what was found.
    probability_off: f64,
    duration_off: f64,
    /// 1 if the interval covers the truth, and 0 if not. A run with too few hiccups prints no
    /// duration, which counts as neither covered nor missed.
    probability_covered: f64,
    duration_covered: f64,
}

impl Hiccups {
    /// Compares the hiccups that were found with those that the leaf really had.
    ///
    /// The real duration is longer than the configured one, because a long sleep ends late.
    /// Executions without a hiccup also have a delay beyond P. This delay is not part of a hiccup,
    /// so it is subtracted.
    fn new(probability: f64, report: &Value, stats: &Value) -> Self {
        let counted = |name: &str| at(stats, &format!("/{name}"));
        let late = counted("late_time_ns") / (counted("served") - counted("hiccups"));
        let took_ns = counted("hiccup_time_ns") / counted("hiccups") - late;
        let covers = |name: &str, truth: f64| {
            let [low, high] = [0, 1].map(|end| at(report, &format!("/hiccup/{name}_ci95/{end}")));
            f64::from(u8::from(low <= truth && truth <= high))
        };
        let found = at(report, "/hiccup/probability");
        let duration = at(report, "/hiccup/duration_ns");
        Self {
            probability,
            found,
            many: probability * at(report, "/executions") >= 200.0,
            probability_off: (found / probability - 1.0).abs(),
            duration_off: (duration / took_ns - 1.0).abs(),
            probability_covered: covers("probability", probability),
            duration_covered: if duration.is_nan() {
                duration
            } else {
                covers("duration", took_ns)
            },
        }
    }
}

/// The probability of hiccups and their length in ms in each run, whose seed is its place. The very
/// first run of a quick run has enough hiccups for the bounds on their figures.
fn injected(quick: bool) -> Vec<(u32, f64, u32)> {
    let mut runs = Vec::new();
    for length in [10, 20, 40, 100] {
        for probability in [0.002, 0.005, 0.01, 0.02, 0.05] {
            runs.push((runs.len() as u32, probability, length));
        }
    }
    runs[..5].rotate_right(1);
    runs.truncate(if quick { 3 } else { runs.len() });
    runs
}

/// Starts a leaf with service times that are exponential with a mean of 2 ms.
fn leaf(lab: &Lab<'_>, flags: &str, seed: u32) -> Result<Server> {
    let leaf = format!("@curtail leaf {flags} --service-time exp:2ms --seed {seed}");
    lab.server(format!("{leaf} --tied-to-stdin"))?.announced()
}

/// Runs IQ-jitter with the queries of a file.
fn report(lab: &Lab<'_>, target: &str, queries: &str, flags: &str) -> Result<Value> {
    let jitter = format!("@curtail jitter {target} --queries lab/accept/files/{queries}");
    lab.run(format!("{jitter} {flags} --out {{folder}}/out --json")).json()
}

/// Seeded runs with hiccups, for each probability and each length. Each run has 9,000 executions,
/// which determine the widths of the intervals.
fn jitter(lab: &mut Lab<'_>) -> Result<()> {
    let demo = "@curtail demo --quick --loads 0.1 --policies psq --out {folder}/demo";
    lab.run(demo).quiet().output()?;
    let repeat = lab.number("repeat", 110, 70)?;
    let mut runs = Vec::new();
    for (seed, probability, length) in injected(lab.quick) {
        let index = "--index {folder}/demo/index --shard 0";
        let leaf = leaf(lab, &format!("{index} --hiccup {probability}:{length}ms"), seed)?;
        let (target, flags) =
            (format!("http://{}", leaf.address), format!("--repeat {repeat} --seed {seed}"));
        let report = report(lab, &target, "jitter-queries.txt", &flags)?;
        runs.push(Hiccups::new(probability, &report, &leaf.json("/stats")?));
    }
    let of = |figure: fn(&Hiccups) -> f64, which: fn(&Hiccups) -> bool| -> Vec<f64> {
        runs.iter().filter(|run| which(run)).map(figure).collect()
    };
    let claim = "the intervals of the probability cover the true value in 18 of 20 runs";
    lab.check(claim, mean(&of(|run| run.probability_covered, |_| true)), least(0.9));
    let claim = "the printed intervals of the duration cover the true value in 9 of 10 runs";
    lab.check(claim, mean(&of(|run| run.duration_covered, |_| true)), least(0.9));
    let claim = "with 200 expected hiccups, the probability is within 15 %";
    lab.check(claim, of(|run| run.probability_off, |run| run.many), most(0.15));
    let claim = "with 200 expected hiccups, the duration is within 5 %";
    lab.check(claim, of(|run| run.duration_off, |run| run.many), most(0.05));
    let claim = "with 50 expected hiccups, a duration is printed; its error";
    lab.check(claim, of(|run| run.duration_off, |run| run.probability >= 0.01), least(0.0));
    let silent = of(|run| run.probability, |run| run.duration_covered.is_nan());
    lab.check("runs that print no duration", silent.len() as f64, noted());
    let outside = of(|run| run.duration_off, |run| run.duration_covered == 0.0);
    lab.check("the error of durations outside their interval", outside, noted());
    lab.check("the injected probability", of(|run| run.probability, |_| true), noted());
    lab.check("the found probability", of(|run| run.found, |_| true), noted());
    Ok(())
}

fn calm(lab: &mut Lab<'_>) -> Result<()> {
    let mut reports = Vec::new();
    for seed in 20..25 {
        let leaf = leaf(lab, "", seed)?;
        let (target, flags) =
            (format!("http://{}", leaf.address), format!("--repeat 110 --seed {seed}"));
        reports.push(report(lab, &target, "jitter-queries.txt", &flags)?);
    }
    let calm = texts(&reports, "/blame").into_iter().filter(|of| of != "leaf" && of != "both");
    lab.check_line(calm.count() as f64, least(5.0));
    let floor = each(&reports, "/floor/probability");
    lab.check("the machine's floor is reported", floor, least(0.0));
    Ok(())
}

/// Judges the report on a service and its plots.
fn judge_report(lab: &mut Lab<'_>, claim: &str, name: &str, report: &Value) -> Result<()> {
    let out = lab.folder.join("out");
    let page = std::fs::read_to_string(out.join("report.html"))?;
    let parts = ["Figure 1.", "Figure 2.", "Figure 3.", "Figure 4.", "Table 1.", "Table 2."];
    let parts = parts.iter().filter(|part| page.contains(**part)).count();
    let claim = format!("{claim}: four figures and two tables");
    lab.check(claim, parts as f64, least(6.0).show(text(report, "/blame")));
    let plots = ["ccdf.svg", "ranked.svg"].iter().filter(|plot| out.join(plot).exists()).count();
    lab.check("plots as SVG", plots as f64, least(2.0));
    for of in ["P", "J"] {
        let mean = at(report, &format!("/{of}_ns/mean"));
        lab.check(format!("mean {of} of {name}"), mean, noted().unit("ns"));
    }
    Ok(())
}

/// Returns the length of each of sixty values, each of which is longer than the previous one.
fn lengths() -> impl Iterator<Item = usize> {
    (0..60).map(|number| 400 * number + 16)
}

fn fill(memcached: SocketAddr) -> Result<()> {
    let stream = TcpStream::connect(memcached)?;
    let mut responses = BufReader::new(&stream).lines();
    for (number, bytes) in lengths().enumerate() {
        let value = "x".repeat(bytes);
        write!(&stream, "set key{number} 0 0 {bytes}\r\n{value}\r\n")?;
        let response = responses.next().context("memcached closed the connection")??;
        ensure!(response.trim() == "STORED", "memcached responds with {response:?}");
    }
    Ok(())
}

fn memcached(lab: &mut Lab<'_>) -> Result<()> {
    let server = lab.server("memcached -u nobody -l 127.0.0.1 -m 64 -p {port}")?.listening()?;
    fill(server.address)?;
    let target = format!("memcached://{}", server.address);
    let report = report(lab, &target, "memcached-queries.txt", "")?;
    judge_report(lab, lab.text, "memcached", &report)
}

fn httpd(lab: &mut Lab<'_>) -> Result<()> {
    let files = lab.folder.join("files");
    std::fs::create_dir_all(&files)?;
    for (number, bytes) in lengths().enumerate() {
        std::fs::write(files.join(format!("{number}.html")), vec![0; bytes])?;
    }
    let server = lab.server("apache2 -DFOREGROUND -f")?.config("httpd.conf", &[])?.listening()?;
    let report = report(lab, &format!("http://{}", server.address), "httpd-queries.txt", "")?;
    judge_report(lab, lab.text, "httpd", &report)
}

/// Runs all commands of docs/chain.md and compares the predicted gain with the measured gain.
fn chain(lab: &mut Lab<'_>) -> Result<()> {
    let text_of_page = std::fs::read_to_string(lab.root.join("docs/chain.md"))?;
    let mut commands = page::commands(&text_of_page);
    // This is the same `advise` command again. It yields the same result, but as JSON and without
    // `--out`.
    let advise = commands.iter().find(|command| command.starts_with("curtail advise"));
    let advise = advise.context("the page contains no advice")?.split(" --out").next();
    commands.push(format!("{} --json", advise.unwrap_or_default()));
    commands.push("curtail report before after --json".to_owned());
    let all = cargo::run_page(lab.root, &commands, &lab.folder.join("page"))?;
    for ran in &all {
        eprintln!("$ {}\n{}", ran.command, ran.printed);
        ensure!(matches!(ran.code, Some(0 | 1)), "{} ended with {:?}", ran.command, ran.code);
    }
    let [.., predicted, measured] = &all[..] else { unreachable!("two commands were added") };
    let predicted: Value = serde_json::from_str(&predicted.printed)?;
    let measured: Value = serde_json::from_str(&measured.printed)?;
    let gain = at(&predicted, "/gain/p99");
    let [low, high] = [0, 1].map(|end| at(&predicted, &format!("/gain_ci95/p99/{end}")));
    let ours = 1.0 - at(&measured, "/runs/1/ratio_to_first/p99");
    // The lowest ratio is the highest gain.
    let [ours_high, ours_low] =
        [0, 1].map(|end| 1.0 - at(&measured, &format!("/runs/1/ratio_ci95/p99/{end}")));
    // Combines the halves of the two intervals that face each other.
    let chance = if ours < gain {
        (gain - low).hypot(ours_high - ours)
    } else {
        (high - gain).hypot(ours - ours_low)
    };
    let valid = texts(measured["runs"].as_array().into_iter().flatten(), "/valid");
    lab.all("both loads are valid", &valid, |valid| valid == "true");
    let claim = "the measured gain at p99 matches the predicted one: the difference as a share of the range of chance";
    let bound = most(1.0).show(text(&predicted, "/policy"));
    lab.check(claim, (ours - gain).abs() / chance, bound);
    lab.check("the predicted gain", gain, noted());
    lab.check("the measured gain", ours, noted());
    Ok(())
}
