//! Tests that a proxy with a low limit on open files reserves descriptors for its replicas, however
//! many clients connect.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::harness::serving::saying;
use crate::harness::{CURTAIL, GOOD, Process, get};

#[test]
fn clients_do_not_take_the_last_open_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("proxy.toml");
    let backend = saying("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    let text = GOOD
        .replace("127.0.0.1:9\"", &format!("{backend}\""))
        .replace("admin = false", "admin = \"127.0.0.1:0\"");
    std::fs::write(&file, text).expect("a configuration");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\"", CURTAIL, "proxy", "--config"]);
    command.arg(&file).arg("--announce");
    let proxy = Process::spawn(command, Stdio::null());
    let connect = |_| TcpStream::connect(proxy.address).expect("it listens");
    let mut clients: Vec<TcpStream> = (0..100).map(connect).collect();
    // The proxy sends this when its connection limit is reached. By then, it has accepted all
    // earlier clients.
    let mut line = String::new();
    let last = clients.last().expect("a hundred");
    BufReader::new(last).read_line(&mut line).expect("a response");
    assert!(line.starts_with("HTTP/1.1 503"), "{line:?}");
    clients[0].write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").expect("it reads");
    line.clear();
    BufReader::new(&clients[0]).read_line(&mut line).expect("a response");
    assert!(line.starts_with("HTTP/1.1 200"), "{line:?}");
    let metrics = get(proxy.admin.expect("an admin port"), "/metrics");
    let up = metrics.lines().find(|line| line.starts_with("curtail_server_up{"));
    assert!(up.is_some_and(|line| line.ends_with(" 1")), "{up:?}");
}
