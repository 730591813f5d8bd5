//! Line 3: the generator beside wrk and oha.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use super::tools::{json, median, number};
use crate::accept::finding::{Finding, Verdict};
use crate::bench::proxy::install;
use crate::cargo::{self, Profile};

/// Turns of each, one after the other.
const ROUNDS: usize = 5;
const ADDRESS: &str = "127.0.0.1:18088";
const RATES: [u32; 2] = [1_000, 5_000];

pub(in super::super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        let why = "one processor: the server would have to share the generator's";
        return Ok(vec![Finding::new("beside wrk and oha", why, Verdict::Skipped)]);
    }
    let curtail = cargo::curtail(root, Profile::Release)?.display().to_string();
    for program in ["nginx", "wrk"] {
        if install::tool(program, true).ok().flatten().is_none() {
            let why = format!("{program} is not installed, and apt-get does not install it");
            return Ok(vec![Finding::new("beside wrk and oha", why, Verdict::Skipped)]);
        }
    }
    let _nginx = Nginx::start(root)?;
    let mut findings = vec![throughput(&curtail)?];
    findings.extend(match oha(root) {
        Ok(oha) => latency(&curtail, &oha)?,
        Err(error) => vec![Finding::new("p50 beside oha", format!("{error:#}"), Verdict::Skipped)],
    });
    Ok(findings)
}

/// Requests per second of one thread with 16 connections, each as fast as answers come.
fn throughput(curtail: &str) -> Result<Finding> {
    let url = format!("http://{ADDRESS}/");
    let (mut wrk, mut ours) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let output = Command::new("taskset")
            .args(["-c", "0", "wrk", "-t1", "-c16", "-d4s", &url])
            .output()
            .context("wrk does not start")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let rate = said.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
        wrk.push(rate.and_then(|rate| rate.trim().parse().ok()).unwrap_or(f64::NAN));
        let arguments = [
            "-c",
            "0",
            curtail,
            "load",
            &url,
            "--closed",
            "--duration",
            "4s",
            "--connections",
            "16",
            "--spin",
            "--json",
        ];
        ours.push(number(&json("taskset", &arguments)?, &["achieved_rate"]));
    }
    let (wrk, ours) = (median(wrk), median(ours));
    Ok(Finding::new(
        "throughput of one thread at least half of wrk's",
        format!("{ours:.0}/s, wrk {wrk:.0}/s: {:.2} of it (medians of {ROUNDS})", ours / wrk),
        ours >= 0.5 * wrk,
    ))
}

/// At fixed rates.
fn latency(curtail: &str, oha: &Path) -> Result<Vec<Finding>> {
    let (url, oha) = (format!("http://{ADDRESS}/"), oha.display().to_string());
    RATES
        .iter()
        .map(|rate| {
            let rate = rate.to_string();
            let (mut theirs, mut ours) = (vec![], vec![]);
            for _ in 0..ROUNDS {
                let arguments = [
                    "-c",
                    "0",
                    &oha,
                    "--no-tui",
                    "--output-format",
                    "json",
                    "--latency-correction",
                    "-q",
                    &rate,
                    "-z",
                    "4s",
                    "-c",
                    "16",
                    &url,
                ];
                theirs.push(
                    number(&json("taskset", &arguments)?, &["latencyPercentiles", "p50"]) * 1e6,
                );
                let arguments = [
                    "-c",
                    "0",
                    curtail,
                    "load",
                    &url,
                    "--rate",
                    &rate,
                    "--arrivals",
                    "constant",
                    "--duration",
                    "4s",
                    "--connections",
                    "16",
                    "--json",
                ];
                ours.push(number(&json("taskset", &arguments)?, &["latency_ns", "p50"]) / 1e3);
            }
            let (theirs, ours) = (median(theirs), median(ours));
            Ok(Finding::new(
                format!("p50 at {rate}/s at most oha's + 50 µs"),
                format!(
                    "{ours:.0} µs, oha --latency-correction {theirs:.0} µs (medians of {ROUNDS})"
                ),
                ours <= theirs + 50.0,
            ))
        })
        .collect()
}

/// Where oha is, after it was compiled if need be: minutes, once.
fn oha(root: &Path) -> Result<PathBuf> {
    let folder = cargo::target_folder(root)?.join("tools");
    let program = folder.join("bin/oha");
    if !program.is_file() {
        let folder = folder.display().to_string();
        let mut install =
            cargo::command(root, &["install", "oha", "--locked", "--quiet", "--root", &folder]);
        anyhow::ensure!(cargo::succeeds(&mut install)?, "oha does not compile here");
    }
    Ok(program)
}

/// One worker on processor 1 that answers 200 to everything.
struct Nginx(Child);

impl Nginx {
    fn start(root: &Path) -> Result<Nginx> {
        let folder = cargo::target_folder(root)?.join("accept-nginx");
        std::fs::create_dir_all(&folder)?;
        let config = folder.join("nginx.conf");
        let text = format!(
            "worker_processes 1; daemon off; pid {0}/pid; error_log {0}/errors;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {0};\n\
             server {{ listen {ADDRESS}; location / {{ return 200 ok; }} }} }}\n",
            folder.display()
        );
        std::fs::write(&config, text)?;
        let mut command = Command::new("taskset");
        command.args(["-c", "1", "nginx", "-c"]).arg(&config).stderr(Stdio::null());
        let child = command.spawn().context("nginx does not start")?;
        let nginx = Nginx(child);
        let start = std::time::Instant::now();
        while std::net::TcpStream::connect(ADDRESS).is_err() {
            anyhow::ensure!(start.elapsed().as_secs() < 10, "nginx does not listen on {ADDRESS}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Ok(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A kill would leave its worker behind: it is asked to stop.
        let asked = Command::new("kill").arg(self.0.id().to_string()).status();
        if asked.is_err() {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}
