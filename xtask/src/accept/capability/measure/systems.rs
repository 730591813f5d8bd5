//! Line 5, its end: reports of systems that nobody here wrote.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::tools::{json, number};
use crate::accept::finding::{Finding, Verdict};
use crate::bench::proxy::install;

/// Keys of memcached, and files of Apache httpd.
const ITEMS: usize = 60;
/// So many bytes have the larger ones more, step by step.
const STEP: usize = 400;
/// What the report has to show.
const REPORT: [&str; 6] =
    ["Figure 1.", "Figure 2.", "Figure 3.", "Figure 4.", "Table 1.", "Table 2."];

/// Measures both.
pub(super) fn judge(curtail: &Path, folder: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (name, program, start) in [
        ("memcached", "memcached", memcached as fn(&Path, &Path) -> Result<System>),
        ("Apache httpd", "apache2", httpd),
    ] {
        let title = format!("{name} has a report with plots");
        let Some(program) = install::tool(program, true).ok().flatten() else {
            let why = format!("{name} is not installed, and apt-get does not install it");
            findings.push(Finding::new(title, why, Verdict::Skipped));
            continue;
        };
        let folder = folder.join(name.replace(' ', "-"));
        std::fs::create_dir_all(&folder)?;
        let system = start(&program, &folder)?;
        let out = folder.join("out");
        let [queries, shown] = [&system.queries, &out].map(|path| path.display().to_string());
        let arguments =
            ["jitter", &system.target, "--queries", &queries, "--out", &shown, "--json"];
        let found = json(curtail, &arguments)?;
        let page = std::fs::read_to_string(out.join("report.html"))?;
        let missing = REPORT.iter().find(|part| !page.contains(**part));
        let plots = ["ccdf.svg", "ranked.svg"].map(|plot| out.join(plot).is_file());
        let figure = format!(
            "{} executions, mean P {:.1} µs, mean J {:.1} µs, hiccups {:.5} of {:.2} ms, whose: {}; {}",
            found["executions"],
            number(&found, &["P_ns", "mean"]) / 1e3,
            number(&found, &["J_ns", "mean"]) / 1e3,
            number(&found, &["seen", "probability"]),
            number(&found, &["seen", "duration_ns"]) / 1e6,
            found["blame"].as_str().unwrap_or("?"),
            missing.map_or("all figures".to_owned(), |part| format!("no {part}")),
        );
        findings.push(Finding::new(title, figure, missing.is_none() && plots == [true, true]));
    }
    Ok(findings)
}

/// A system that runs, and what to ask it.
struct System {
    child: Child,
    target: String,
    queries: PathBuf,
}

impl System {
    fn start(mut command: Command, port: u16, target: String, queries: PathBuf) -> Result<System> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let system = System {
            child: child.with_context(|| format!("{name} does not start"))?,
            target,
            queries,
        };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(start.elapsed().as_secs() < 10, "{name} does not listen on port {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(system)
    }
}

impl Drop for System {
    fn drop(&mut self) {
        // Asked to stop, so that it ends its own processes.
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        if asked.is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn memcached(program: &Path, folder: &Path) -> Result<System> {
    let (port, queries) = (free_port()?, folder.join("queries.txt"));
    // Single and several keys: classes go by the name of the command.
    let gets = (0..ITEMS).map(|at| format!("get key{at}"));
    let many = (0..ITEMS)
        .map(|at| format!("gets key{at} key{} key{}", (at + 1) % ITEMS, (at + 2) % ITEMS));
    std::fs::write(&queries, gets.chain(many).collect::<Vec<_>>().join("\n"))?;
    let mut command = Command::new(program);
    command.args(["-u", "nobody", "-l", "127.0.0.1", "-m", "64", "-p", &port.to_string()]);
    let system = System::start(command, port, format!("memcached://127.0.0.1:{port}"), queries)?;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let mut answers = BufReader::new(stream.try_clone()?);
    for at in 0..ITEMS {
        let value = "x".repeat(STEP * at + 16);
        stream.write_all(format!("set key{at} 0 0 {}\r\n{value}\r\n", value.len()).as_bytes())?;
        let mut line = String::new();
        answers.read_line(&mut line)?;
        ensure!(line.trim() == "STORED", "memcached answers {line:?}");
    }
    Ok(system)
}

fn httpd(program: &Path, folder: &Path) -> Result<System> {
    let (port, queries, files) = (free_port()?, folder.join("queries.txt"), folder.join("files"));
    std::fs::create_dir_all(&files)?;
    let mut lines = String::new();
    for at in 0..ITEMS {
        std::fs::write(files.join(format!("{at}.html")), "x".repeat(STEP * at + 16))?;
        let class = if at < ITEMS / 2 { "short" } else { "long" };
        let _ = writeln!(lines, r#"{{"path": "/{at}.html", "class": "{class}"}}"#);
    }
    std::fs::write(&queries, lines)?;
    let config = folder.join("httpd.conf");
    let modules = "/usr/lib/apache2/modules";
    let text = format!(
        "ServerRoot {0}\nPidFile {0}/pid\nErrorLog {0}/errors\nServerName localhost\n\
         Listen 127.0.0.1:{port}\nDocumentRoot {1}\nMaxKeepAliveRequests 0\n\
         LoadModule mpm_event_module {modules}/mod_mpm_event.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\n",
        folder.display(),
        files.display()
    );
    std::fs::write(&config, text)?;
    let mut command = Command::new(program);
    command.arg("-f").arg(&config).arg("-DFOREGROUND");
    System::start(command, port, format!("http://127.0.0.1:{port}"), queries)
}
