//! Tests an environment that lacks something: stdout and stderr that cannot be written, a full disk, a
//! deleted directory, an unreadable /proc, and a low limit on open files.
#![cfg(target_os = "linux")] // only Linux has a device that is always full

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::serving::{Server, interrupted, saying};
use crate::harness::words::{Ran, curtail_in, folder, read, run};
use crate::harness::{CURTAIL, GOOD, Process, Service, get, until};
use rustix::process::Signal;

/// A pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("the device").into()
}

fn to(stdout: Stdio, line: &str) -> Ran {
    run(Command::new(CURTAIL).args(line.split_whitespace()).stdout(stdout))
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let folder = folder(&[("proxy.toml", GOOD)]);
    let config = folder.path().join("proxy.toml").display().to_string();
    let service = Service::start("psq", "");
    let url = format!("http://{}/search?q=common", service.proxy.address);
    for line in [
        &format!("proxy --config {config} --check")[..],
        &format!("proxy --config {config} --announce"),
        "proxy --schema",
        &format!("load {url} --rate 100 --requests 5 --json"),
        &format!("load {url} --rate 100 --requests 5"),
        "--help",
        "--version",
    ] {
        let error = "error: cannot write to standard output: No space left on device";
        let ran = to(full(), line).ends(3).warns([error]);
        assert!(!ran.err.contains("panicked"), "{line}: {}", ran.err);
        let err = to(closed(), line).ends(3).err;
        assert!(!err.contains("error:") && !err.contains("panicked"), "{line}: {err}");
    }
}

#[test]
fn a_proxy_whose_stderr_is_full_or_closed_serves_and_drains() {
    let text = GOOD.replace("admin = false", "admin = \"127.0.0.1:0\"");
    for format in ["text", "json"] {
        // Log every connection and every signal.
        let log = format!("[log]\nlevel = \"trace\"\nformat = \"{format}\"\n{text}");
        let folder = folder(&[("proxy.toml", &log)]);
        let file = folder.path().join("proxy.toml");
        for stderr in [full(), closed()] {
            let line = format!("proxy --config {} --announce", file.display());
            let proxy = Process::start_with(&line, stderr);
            let admin = proxy.admin.expect("an admin port");
            get(admin, "/status");
            proxy.signal(Signal::HUP);
            get(admin, "/status");
            proxy.signal(Signal::TERM);
            assert_eq!(proxy.wait(), Some(0), "{format}");
        }
    }
}

#[test]
fn bad_input_exits_with_2_even_if_stderr_cannot_be_written() {
    let bad = ["load", "http://127.0.0.1:1/", "--rate", "0"];
    let mut command = Command::new(CURTAIL);
    let status = command.args(bad).stdin(Stdio::null()).stderr(full()).status();
    assert_eq!(status.expect("the binary starts").code(), Some(2));
}

#[test]
fn a_leaf_that_cannot_announce_its_address_ends() {
    let service = Service::start("psq", "");
    let index = service.folder().join("index");
    // Its parent could not find it.
    to(full(), &format!("leaf --index {} --shard 0", index.display()))
        .ends(3)
        .warns(["cannot write to standard output"]);
}

/// A proxy reserves descriptors for its replicas, however many clients connect.
#[test]
fn clients_do_not_take_the_last_open_file() {
    let backend = saying("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    let text = GOOD
        .replace("127.0.0.1:9\"", &format!("{backend}\""))
        .replace("admin = false", "admin = \"127.0.0.1:0\"");
    let folder = folder(&[("proxy.toml", &text)]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\"", CURTAIL, "proxy", "--config"]);
    command.arg(folder.path().join("proxy.toml")).arg("--announce");
    let proxy = Process::spawn(command, Stdio::null());
    let connect = |_| TcpStream::connect(proxy.address).expect("it listens");
    let mut clients: Vec<TcpStream> = (0..100).map(connect).collect();
    let line_to = |client: &TcpStream| {
        let mut line = String::new();
        BufReader::new(client).read_line(&mut line).expect("a response");
        line
    };
    // The proxy sends this when its connection limit is reached. By then, it has accepted all
    // earlier clients.
    let line = line_to(clients.last().expect("a hundred"));
    assert!(line.starts_with("HTTP/1.1 503"), "{line:?}");
    clients[0].write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").expect("it reads");
    let line = line_to(&clients[0]);
    assert!(line.starts_with("HTTP/1.1 200"), "{line:?}");
    let metrics = get(proxy.admin.expect("an admin port"), "/metrics");
    let up = metrics.lines().find(|line| line.starts_with("curtail_server_up{"));
    assert!(up.is_some_and(|line| line.ends_with(" 1")), "{up:?}");
}

/// Runs a shell command in a directory with its own mounts; `None` if this user is not permitted to
/// mount.
fn with_mounts(folder: &Path, line: &str) -> Option<Ran> {
    let unshare = |line: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-ec", line]).current_dir(folder).stdin(Stdio::null()).output()
    };
    if unshare("mkdir -p try && mount -t tmpfs none try").is_ok_and(|tried| tried.status.success())
    {
        return unshare(line).ok().map(Ran::from);
    }
    println!("SKIPPED: this user may not mount a file system");
    None
}

const QUERIES: [(&str, &str); 2] = [("queries.txt", "/a\n/b\n"), ("service.txt", "5ms\n")];

#[test]
fn a_full_disk_loses_files_but_no_figures() {
    let (server, folder) = (Server::start(200), folder(&QUERIES));
    let full = "mkdir -p small && mount -t tmpfs -o size=16k none small";
    let load = format!(
        "{full}; {CURTAIL} load {} --rate 400 --requests 700 --out small/r || echo code $?; ls small/r",
        server.url
    );
    let Some(ran) = with_mounts(folder.path(), &load) else { return };
    let ran = ran.prints(["700 requests, 0 without a good response", "\ncode 3\n"]).warns([
        "cannot write small/r/samples.csv: No space left on device",
        "the report on standard output is complete",
    ]);
    // No part of the file is left.
    assert!(!ran.out.ends_with("report.html\n") && !ran.out.contains("\nreport.html\n"));

    let jitter = format!(
        "{full}; {CURTAIL} jitter {} --queries queries.txt --repeat 400 --floor 5% --out small/j \
         || echo code $?; ls small/j",
        server.url
    );
    with_mounts(folder.path(), &jitter)
        .expect("it worked before")
        .prints(["2 queries, ", "\ncode 3\n"])
        .warns(["cannot write small/j/executions.csv: No space left on device"])
        .omits(["\nexecutions.csv\n"]);
}

#[test]
fn a_removed_directory_is_reported_file_by_file() {
    let (server, folder) = (Server::start(200), folder(&QUERIES));
    let out = folder.path().join("out");
    let mut load = server.command("--rate 200 --requests 200 --out");
    let child = load.arg(&out).spawn().expect("the binary starts");
    until("answers", || server.answered() >= 40);
    fs::remove_dir_all(&out).expect("it is there");
    Ran::from(child.wait_with_output().expect("it ends"))
        .ends(3)
        .prints(["200 requests, 0 without a good response"])
        .warns([
            "latency.hlog: it was removed during the run",
            "samples.csv: it was removed during the run",
            "result.json: No such file or directory",
        ]);
}

#[test]
fn without_proc_only_the_causes_are_missing() {
    let (server, folder) = (Server::start(200), folder(&QUERIES));
    let url = &server.url;
    let both = format!(
        "mount -t tmpfs none /proc; {CURTAIL} load {url} --rate 200 --requests 20; \
         {CURTAIL} jitter {url} --queries queries.txt --repeat 20 --floor 5%"
    );
    let Some(ran) = with_mounts(folder.path(), &both) else { return };
    let ran = ran.prints(["20 requests, 0 without a good response", "2 queries, "]);
    let err = ran.omits(["likely causes"]).err;
    assert!(!err.contains("error") && !err.contains("panicked"), "{err}");
}

#[test]
fn an_interrupted_jitter_reports_and_writes_partial_results() {
    let (server, folder) = (Server::start(200), folder(&QUERIES));
    let mut command = Command::new(CURTAIL);
    command.args(["jitter", &server.url, "--queries", "queries.txt", "--repeat", "100000000"]);
    command.current_dir(folder.path()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // Responses in the first 200 ms are not measured.
    let (start, enough) = (Instant::now(), Duration::from_secs(1));
    until("answers", || start.elapsed() > enough && server.answered() > 100);
    let ran = interrupted(child).ends(130);
    assert!(ran.out.ends_with("interrupted: partial results\n"), "{}", ran.out);
    let samples = read(folder.path().join("out/jitter/service.txt")).lines().count();
    assert!(samples > 10, "{samples} lines");
}

#[test]
fn earlier_samples_stay_until_they_are_replaced() {
    let folder = folder(&QUERIES);
    let line = "jitter http://127.0.0.1:1/ --queries queries.txt --repeat 20 --turn 300ms --out .";
    curtail_in(folder.path(), line).ends(3);
    assert_eq!(read(folder.path().join("service.txt")), "5ms\n");
}
