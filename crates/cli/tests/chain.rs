//! The page about the whole chain, in small: its own commands, with fewer repetitions, shorter loads and
//! ports that are free.

mod harness;
#[path = "../../../xtask/src/page.rs"]
#[allow(unreachable_pub)] // of another crate
mod page;

use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/chain.md");

/// The first line of the page, and what stands in its place here.
const SIZES: [&str; 2] = ["REPEAT=60 WARMUP=20s SPAN=60s", "REPEAT=12 WARMUP=3s SPAN=6s"];

#[test]
fn the_chain_runs_from_jitter_to_load() {
    let held: Vec<TcpListener> =
        (0..4).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let ports: Vec<String> =
        held.iter().map(|port| port.local_addr().expect("bound").port().to_string()).collect();
    drop(held);
    let mut replace = vec![(SIZES[0].to_owned(), SIZES[1].to_owned())];
    // What advise writes has the usual ports.
    let written = "--write-config after.toml";
    let with =
        format!("{written} && sed -i 's/8080/{}/; s/9901/{}/' after.toml", ports[2], ports[3]);
    replace.push((written.to_owned(), with));
    for (usual, free) in [("9001", 0), ("9002", 1)] {
        replace.push((format!("127.0.0.1:{usual}"), format!("127.0.0.1:{}", ports[free])));
    }
    replace.push(("127.0.0.1:8080".to_owned(), format!("127.0.0.1:{}", ports[2])));
    for (from, _) in &replace {
        assert!(PAGE.contains(from), "the page has no {from} any more");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let binary = PathBuf::from(harness::CURTAIL);
    let programs = binary.parent().expect("a folder");
    let commands = page::commands(PAGE, &replace);
    let all = page::run(&commands, folder.path(), programs).expect("a shell");
    for page::Ran { command, printed, said, code } in &all {
        // On a busy machine a load may not be valid; that is not what is tested.
        let most = i32::from(command.starts_with("curtail load"));
        let done = code.is_some_and(|code| (0..=most).contains(&code));
        assert!(done, "{command} ended with {code:?}: {said}{printed}");
    }
    let advice = all.iter().find(|ran| ran.command.starts_with("curtail advise")).expect("advice");
    assert!(advice.printed.starts_with("Yes: rescue"), "{}", advice.printed);
    assert!(advice.printed.contains("(95 % sure: "), "{}", advice.printed);
    let p99 = |run: &str| {
        let text = std::fs::read_to_string(folder.path().join(run).join("result.json"));
        let found: Value = serde_json::from_str(&text.expect(run)).expect("JSON");
        found["report"]["latency_ns"]["p99"].as_u64().unwrap_or_else(|| panic!("{run} has a p99"))
    };
    println!("p99: {} ns before, {} ns after", p99("before"), p99("after"));
    let report =
        all.iter().find(|ran| ran.command.starts_with("curtail report")).expect("a report");
    assert!(report.printed.contains('×'), "{}", report.printed);
}
