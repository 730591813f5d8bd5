//! Tests stdout and stderr that cannot be written, because of a full disk or because the reader has
//! left.
#![cfg(target_os = "linux")] // only Linux has a device that is always full

use std::fs::File;
use std::process::{Command, Output, Stdio};

use crate::harness::words::folder;
use crate::harness::{CURTAIL, GOOD, Process, Service, get};
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

fn run(args: &[&str], stdout: Stdio) -> Output {
    let mut command = Command::new(CURTAIL);
    command.args(args).stdin(Stdio::null()).stdout(stdout);
    command.output().expect("the binary starts")
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let folder = folder(&[("proxy.toml", GOOD)]);
    let config = folder.path().join("proxy.toml").display().to_string();
    let service = Service::start("psq", "");
    let url = format!("http://{}/search?q=common", service.proxy.address);
    let load = ["load", &url, "--rate", "100", "--requests", "5", "--json"];
    for args in [
        &["proxy", "--config", &config, "--check"][..],
        &["proxy", "--config", &config, "--announce"],
        &["proxy", "--schema"],
        &load,
        &load[..6],
        &["--help"],
        &["--version"],
    ] {
        let output = run(args, full());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {stderr}");
        let error = "error: cannot write to standard output: No space left on device";
        assert!(stderr.contains(error) && !stderr.contains("panicked"), "{args:?}: {stderr}");
        let output = run(args, closed());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {stderr}");
        assert!(!stderr.contains("error:") && !stderr.contains("panicked"), "{args:?}: {stderr}");
    }
}

#[test]
fn a_proxy_whose_stderr_is_full_or_closed_serves_and_drains() {
    let text = GOOD.replace("admin = false", "admin = \"127.0.0.1:0\"");
    for format in ["text", "json"] {
        // Log every connection and every signal.
        let log = format!("[log]\nlevel = \"trace\"\nformat = \"{format}\"\n{text}");
        let folder = folder(&[("proxy.toml", &log)]);
        let file = folder.path().join("proxy.toml").display().to_string();
        for stderr in [full(), closed()] {
            let args = ["proxy", "--config", &file, "--announce"];
            let proxy = Process::start_with(&args, stderr);
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
    let index = service.folder().join("index").display().to_string();
    let output = run(&["leaf", "--index", &index, "--shard", "0"], full());
    assert_eq!(output.status.code(), Some(3), "its parent could not find it");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("cannot write to standard output"), "{stderr}");
}
