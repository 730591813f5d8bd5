//! Our proxy compared with popular ones.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::Value;

use crate::figures::{at, first_numbers, mean, median, texts};
use crate::lab::{Lab, Server, kept_up};
use crate::line::Line;
use crate::proxies::{CURTAIL, ENVOY, HAPROXY, NGINX, Proxy};
use crate::verdict::{Bound, Figures, above, least, listed, most, noted};

pub(crate) const PROXY_7: Line = Line {
    number: 7,
    name: "proxy",
    text: "p99 of the proxy, compared with other proxies",
    seconds: 900,
    quick_seconds: 100,
    judge: proxy,
    ..Line::NEW
};

pub(super) const SATURATE_8: Line = Line {
    number: 8,
    name: "saturate",
    text: "CPU per request and requests per second, with tiny responses in a closed loop",
    seconds: 220,
    quick_seconds: 50,
    needs: &["cores:2", "apt:nginx", "apt:wrk"],
    judge: saturate,
    ..Line::NEW
};

pub(super) const REQUEST_9: Line = Line {
    number: 9,
    name: "request",
    text: "instructions per proxied request, one after the other on one connection",
    seconds: 120,
    quick_seconds: 120,
    needs: &["program:valgrind", "program:curl", "apt:nginx"],
    judge: request,
    ..Line::NEW
};

/// A proxy under comparison, and why it is missing on this machine.
struct Contender {
    proxy: Proxy,
    missing: Option<String>,
}

impl Contender {
    fn all<const N: usize>(lab: &Lab<'_>, proxies: [Proxy; N]) -> [Self; N] {
        proxies.map(|proxy| Self { proxy, missing: lab.lacking(proxy.need) })
    }

    /// Judges a claim, or records that it was not judged because the proxy is missing.
    fn check(&self, lab: &mut Lab<'_>, claim: String, figures: impl Into<Figures>, bound: Bound) {
        match &self.missing {
            Some(why) => lab.skip(claim, why),
            None => lab.check(claim, figures, bound),
        }
    }
}

const LOADS: [Load; 2] = [Load { load: "0.3", rate: 120 }, Load { load: "0.6", rate: 240 }];

struct Load {
    load: &'static str,
    rate: u32,
}

/// A run with one load.
struct Reply {
    report: Value,
    proxy_ns: f64,
    leaf_ns: f64,
}

impl Reply {
    fn p99(&self) -> f64 {
        at(&self.report, "/latency_ns/p99")
    }

    /// Returns p99 of a valid run.
    fn valid_p99(&self) -> f64 {
        if self.report["valid"] == true { self.p99() } else { f64::NAN }
    }
}

impl Load {
    fn measure(&self, lab: &Lab<'_>, proxy: Proxy, round: usize) -> Result<Reply> {
        let Self { load, rate } = self;
        let requests = lab.number("requests", 3000, 1000)?;
        let mut queries = String::new();
        for number in 1..=requests + 1000 {
            writeln!(queries, "/search?q=hedge&n={round}.{load}.{number}")?;
        }
        let file = lab.folder.join(format!("queries-{load}.txt"));
        std::fs::write(&file, queries)?;
        let leaf = |replica: u32| {
            let leaf = "@curtail leaf --shard 0 --slots 1 --service-time exp:5ms --queue 4096";
            lab.server(format!("{leaf} --tied-to-stdin --replica {replica}"))?.announced()
        };
        let leaves = [leaf(0)?, leaf(1)?];
        let values = [("policy", "psq"), ("slots", "1")];
        let front = start(lab, proxy, "", &leaves, values)?;
        let [before, leaf_before] = [front.cpu_ns()?, leaves[0].cpu_ns()?];
        let run = lab.run(format!(
            "@curtail load http://{} --rate {rate} --seed 42{round} --connections 1024 \
             --requests {requests} --warmup 2s --json --queries",
            front.address
        ));
        let report = run.arg(file).json()?;
        // The warmup lasts 2 s.
        let all = f64::from(requests + 2 * rate);
        let proxy_ns = (front.cpu_ns()? - before) / all;
        Ok(Reply { report, proxy_ns, leaf_ns: (leaves[0].cpu_ns()? - leaf_before) / all })
    }
}

/// Starts a proxy in front of two servers. `values` are the policy and the slots.
fn start(
    lab: &Lab<'_>,
    proxy: Proxy,
    pin: &str,
    servers: &[Server; 2],
    values: [(&str, &str); 2],
) -> Result<Server> {
    let values = [&values[..], &[("more", ""), ("selection", "FULL_SCAN")]].concat();
    proxy.start(lab, pin, "", &servers.each_ref(), &values)?.ready("/health")
}

/// Compares p99 of proxies in front of the same leaves. In a round, every proxy has one run with
/// the same schedule and the same queries. Service times depend only on the query, so they are the
/// same, too. The proxies differ in when they send a query to which leaf, and in what that costs. A
/// round in which the load generator fell behind does not count and is repeated, but one in which
/// only a proxy failed counts. There are enough open connections for a proxy that stalls for
/// seconds.
fn proxy(lab: &mut Lab<'_>) -> Result<()> {
    let all = Contender::all(lab, [CURTAIL, HAPROXY, ENVOY]);
    let turn = |side: usize, round: usize| {
        let Contender { proxy, missing } = &all[side];
        let loads = LOADS.iter().filter(|_| missing.is_none());
        loads.map(|load| load.measure(lab, *proxy, round)).collect()
    };
    let is_sound = |replies: &Vec<Reply>| replies.iter().all(|reply| kept_up(&reply.report));
    let found = lab.rounds(all.len(), lab.number("rounds", 7, 1)?, turn, is_sound)?;
    // Returns a figure of each run of a side with one of the loads.
    let figures = |side: usize, load: usize, figure: fn(&Reply) -> f64| -> Vec<f64> {
        found[side].iter().filter_map(|replies| replies.get(load)).map(figure).collect()
    };

    let ours = || found[0].iter().flatten().map(|reply| &reply.report);
    let reasons = ours().flat_map(|report| report["invalid_because"].as_array()).flatten();
    let (valid, reasons) = (texts(ours(), "/valid"), texts(reasons, "/text").join("; "));
    let holds = valid.iter().all(|valid| valid == "true");
    lab.holds("every run of our proxy is valid", format!("{} [{reasons}]", listed(&valid)), holds);
    let peers = || (1..all.len()).flat_map(|peer| [0, 1].map(|load| (peer, load)));
    // A comparison with a proxy that mostly failed would be meaningless.
    let valid = |reply: &Reply| at(&reply.report, "/valid");
    for (side, load) in peers() {
        let (name, of) = (all[side].proxy.name, LOADS[load].load);
        let claim = format!("{name} at a load of {of} is valid in more than half of the rounds");
        all[side].check(lab, claim, mean(&figures(side, load, valid)), above(0.5));
    }
    for (side, load) in peers() {
        let (name, of) = (all[side].proxy.name, LOADS[load].load);
        let [ours, theirs] = [0, side].map(|side| median(&figures(side, load, Reply::valid_p99)));
        let claim = format!("at a load of {of} the median p99 is at most 1.05 times {name}'s");
        all[side].check(lab, claim, ours / theirs, most(1.05));
    }
    type Figure = fn(&Reply) -> f64;
    let kinds: [(&str, Figure); 4] = [
        ("p99", Reply::p99),
        ("p50", |reply| at(&reply.report, "/latency_ns/p50")),
        ("CPU per request, probes included", |reply| reply.proxy_ns),
        ("CPU of the first leaf per request", |reply| reply.leaf_ns),
    ];
    for (kind, figure) in kinds {
        for (load, Load { load: of, .. }) in LOADS.iter().enumerate() {
            for (side, contender) in all.iter().enumerate() {
                let claim = format!("{} at a load of {of}: {kind}", contender.proxy.name);
                contender.check(lab, claim, figures(side, load, figure), noted().unit("ns"));
            }
        }
    }
    Ok(())
}

/// What the requests of a closed loop cost. The server counts if there is a proxy.
#[derive(Default)]
pub(crate) struct Cost {
    pub(crate) per_second: f64,
    pub(crate) proxy_ns: f64,
    backend_ns: f64,
}

impl Cost {
    /// Measures the cost of a request if there is nothing to decide: a fast server with tiny
    /// responses, and 16 connections, each of which sends its next request as soon as it has a
    /// response. The proxy has its own core. The server and the clients share another one.
    pub(crate) fn measure(lab: &Lab<'_>, proxy: Option<Proxy>, policy: &str) -> Result<Self> {
        let span = lab.number("span", 5.0, 5.0)?;
        let backend = |file: &str| {
            let nginx = lab.server("taskset -c 0 nginx -p {folder} -e stderr -c")?;
            nginx.config(file, &[])?.listening()?.ready("/")
        };
        let wrk = |server: &Server| -> Result<f64> {
            let target = format!("http://{}/", server.address);
            let wrk = lab.run(format!("taskset -c 0 wrk -t1 -c16 -d{span}s {target}"));
            Ok(first_numbers(&wrk.lines("Requests/sec:")?).first().copied().unwrap_or(f64::NAN))
        };
        let Some(proxy) = proxy else {
            let per_second = wrk(&backend("nginx-backend.conf")?)?;
            return Ok(Self { per_second, ..Self::default() });
        };
        let backends = [backend("nginx-backend.conf")?, backend("nginx-backend2.conf")?];
        let values = [("policy", policy), ("slots", "16")];
        let front = start(lab, proxy, "taskset -c 1", &backends, values)?;
        let [before, backend_before] = [front.cpu_ns()?, backends[0].cpu_ns()?];
        let per_second = wrk(&front)?;
        let requests = per_second * span;
        let proxy_ns = (front.cpu_ns()? - before) / requests;
        let backend_ns = (backends[0].cpu_ns()? - backend_before) / requests;
        Ok(Self { per_second, proxy_ns, backend_ns })
    }
}

/// Measures the cost of a request through each proxy. The results have no bounds.
fn saturate(lab: &mut Lab<'_>) -> Result<()> {
    let all = Contender::all(lab, [CURTAIL, HAPROXY, ENVOY, NGINX]);
    // The last side has no proxy.
    let turn = |side: usize, _| match all.get(side) {
        Some(Contender { missing: Some(_), .. }) => Ok(Cost::default()),
        contender => Cost::measure(lab, contender.map(|of| of.proxy), "psq"),
    };
    let found = lab.rounds(all.len() + 1, lab.number("rounds", 5, 1)?, turn, |_| true)?;
    let figures = |side: usize, figure: fn(&Cost) -> f64| -> Vec<f64> {
        found[side].iter().map(figure).collect()
    };
    let direct = figures(all.len(), |cost| cost.per_second);
    lab.check("without a proxy: requests per second", direct, noted());
    type Figure = fn(&Cost) -> f64;
    let kinds: [(&str, Figure, &str); 3] = [
        ("CPU per request", |cost| cost.proxy_ns, "ns"),
        ("requests per second", |cost| cost.per_second, ""),
        ("CPU of the first backend per request", |cost| cost.backend_ns, "ns"),
    ];
    for (kind, figure, unit) in kinds {
        for (side, contender) in all.iter().enumerate() {
            let claim = format!("{}: {kind}", contender.proxy.name);
            contender.check(lab, claim, figures(side, figure), noted().unit(unit));
        }
    }
    Ok(())
}

/// Counts the instructions of a proxied request. The count is the difference between a longer and a
/// shorter run, so it excludes startup and shutdown. The bound is for a release build; `cargo xtask
/// package` sets a lower one.
fn request(lab: &mut Lab<'_>) -> Result<()> {
    let limit = lab.number("most", 26_500.0, 26_500.0)?;
    let bounds = [most(limit).least(5000.0), least(5000.0)];
    let claims = ["policy psq", "HAProxy, leastconn"];
    let all = Contender::all(lab, [CURTAIL, HAPROXY]);
    for ((contender, claim), bound) in all.into_iter().zip(claims).zip(bounds) {
        let Contender { proxy: Proxy { name, .. }, missing } = &contender;
        let count = match missing {
            Some(_) => f64::NAN,
            None => {
                let script = "sh lab/accept/files/instructions.sh @curtail";
                lab.run(format!("{script} {name}")).fields()?.number("instructions")
            }
        };
        contender.check(lab, claim.to_owned(), count, bound);
    }
    Ok(())
}
