//! Tests `curtail stage` through the binary.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::harness::Process;
use crate::harness::serving::saying;
use crate::harness::words::{curtail, curtail_in, folder, refused};
use rustix::process::Signal;

fn config(kind: &str, more: &str) -> String {
    format!(
        "[[stage]]\nname = \"a\"\nkind = \"{kind}\"\nlisten = \"127.0.0.1:0\"\n{more}\n\
         server = \"127.0.0.1:9\"\n"
    )
}

#[test]
fn check_reports_what_separates_classes_on_this_machine() {
    let text =
        config("http", "") + &config("get", "purge = \"127.0.0.1:0\"").replace("\"a\"", "\"b\"");
    let text = text.rsplit_once("server").expect("its last key").0.to_owned();
    let folder = folder(&[("stage.toml", &text)]);
    let check =
        |more| curtail_in(folder.path(), &format!("stage --check --config stage.toml{more}"));
    check("").ends(0).prints(["valid, 2 stage(s)", "link 127.0.0.1"]);
    let document = check(" --json").json();
    assert_eq!(document["verdict"]["kind"], "fine");
    assert_eq!(document["resources"][0]["resource"], "processor");
}

#[test]
fn the_example_of_the_help_can_be_used_as_it_is() {
    let help = curtail("stage --help").out;
    let start = help.find("  [[stage]]").expect("an example");
    let (example, _) = help[start..].split_once("--check also").expect("its end");
    let example = example.replace("/srv/data", "/");
    for text in [example.clone(), example.replace("\n  # ", "\n  ")] {
        let folder = folder(&[("stage.toml", &text)]);
        curtail_in(folder.path(), "stage --check --config stage.toml").ends(0);
    }
}

#[test]
fn bad_configurations_are_refused_with_the_line_and_the_fix() {
    let (kind, slots) = (config("udp", ""), config("tcp", "slots = 0"));
    let cases = [
        ("kind.toml", "kind.toml:3: \"udp\": kind has an invalid value; write \"http\" or"),
        ("slots.toml", "slots.toml:5: 0: slots is out of range; use 1 to 4096, or \"auto\""),
    ];
    let folder = folder(&[("kind.toml", &kind), ("slots.toml", &slots)]);
    refused(folder.path(), "stage --config", &cases);
}

#[test]
fn a_stage_forwards_and_drains() {
    let server = saying("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
    let text = config("http", "").replace("127.0.0.1:9", &server.to_string());
    let folder = folder(&[("stage.toml", &text)]);
    let file = folder.path().join("stage.toml");
    let stage = Process::start(&format!("stage --announce --config {}", file.display()));
    let mut client = TcpStream::connect(stage.address).expect("it listens");
    client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("it reads");
    let mut response = String::new();
    client.read_to_string(&mut response).expect("a response");
    assert!(response.ends_with("hi"), "{response}");
    stage.signal(Signal::TERM);
    assert_eq!(stage.wait(), Some(0));
}
