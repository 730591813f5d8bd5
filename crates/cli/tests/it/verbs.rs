//! Tests the binary as people and scripts use it: exit codes, messages, signals, and files left
//! behind.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::words::{Ran, curtail, curtail_in, folder, read, refused};
use crate::harness::{CURTAIL, GOOD, Service, wait};
use rustix::process::Signal;

/// Runs the proxy with a configuration until it ends.
fn proxy(text: &str, more: &str) -> Ran {
    let folder = folder(&[("proxy.toml", text)]);
    curtail_in(folder.path(), &format!("proxy --config proxy.toml {more}"))
}

#[test]
fn check_distinguishes_good_from_bad_configurations() {
    proxy(GOOD, "--check").ends(0);
    proxy(&GOOD.replace("psq", "laedge:cc"), "--check")
        .fails(2, "proxy.toml:6: \"laedge:cc\"")
        .warns(["cancel"]);
    for file in ["/nowhere.toml", "/dev/null"] {
        let document = curtail(&format!("proxy --config {file} --check --json")).ends(2).json();
        assert_eq!(document["verdict"]["kind"], "bad-config");
        assert!(document["errors"][0]["text"].as_str().is_some_and(|text| text.contains(file)));
    }
}

#[test]
fn the_log_names_every_address_of_a_proxy() {
    let folder = folder(&[]);
    let unix = folder.path().join("socket").display().to_string();
    let listen = format!("admin = \"127.0.0.1:0\"\nunix = \"{unix}\"");
    let text = GOOD.replace("admin = false", &listen);
    let text = text.replace("slots = 1", "slots = 1\nlisten = \"127.0.0.1:0\"");
    let service = "service=\"s\" address=127.0.0.1:";
    // It ends at once, because its stdin is closed.
    proxy(&text, "--tied-to-stdin").ends(0).warns([
        "http=127.0.0.1:",
        &format!("unix={unix}"),
        "admin=127.0.0.1:",
        service,
    ]);
}

/// Checks the help on exit codes, and that negative answers exit with 0.
#[test]
fn a_negative_answer_exits_with_0() {
    let promise =
        "0    done; also if the verdict is no (advise), or a policy is unstable (sim, sweep)";
    curtail("--help").prints([promise, "servers end with 0"]);
    let folder = folder(&[]);
    let unstable = "--requests=200 --shards=1 --policy=psq";
    for verb in ["sim --utilization=2", "sweep --grid=utilization=2 --out out"] {
        curtail_in(folder.path(), &format!("{verb} {unstable}")).ends(0).prints(["unstable"]);
    }
}

#[test]
fn bad_input_exits_with_2_and_names_the_fix() {
    let here = Path::new(".");
    let load = [
        ("ftp://x --rate 5", "http://"),
        ("http://h --rate 0", "rate"),
        ("http://h --rate many", "write a number such as 500"),
        ("http://h --rate -1", "rate -1 must be above 0"),
        ("http://h --rate 1e300", "rate 1e300 must be above 0"),
        ("http://h --rate 0.0001 --duration 1s", "rate 0.0001 × duration 1s is 0.0001 requests"),
        ("http://h --rate 5 --duration -1s", "is negative"),
        ("http://h --rate 5 --queries /nowhere", "/nowhere"),
        ("http://h --rate 5 --queries /dev/null", "no query"),
        ("http://h --rate 5 --until-ci -5%", "write a share above 0% and below 100%"),
        ("http://h --rate 5 --until-ci 5% --percentiles 99.99", "from 0.1 to 99.9 in steps of 0.1"),
        ("http://h --rate 5 --until-ci 5% --percentiles 50,99.94", "in steps of 0.1"),
        ("http://::1:9100/ --rate 5", "write an IPv6 address in [ ], such as http://[::1]:9100/"),
        ("http://:80/ --rate 5", "has no host"),
        ("redis://:pw@h --rate 5", "write AUTH PASSWORD as the first query"),
        ("http://me:pw@h --rate 5", "use a header"),
    ];
    refused(here, "load", &load);
    let demo = [
        ("--corpus /nowhere", "/nowhere"),
        ("--loads -0.1", "--utilization -0.1: give"),
        ("--loads 20%", "'20%' for '--utilization <U,…>': write a fraction such as 0.2"),
        ("--loads 0.2,0.3,0.2", "--utilization 0.2 is used twice"),
        ("--loads 1.5", "below 1"),
        ("--policies psq,psq", "--policy psq: psq is also given"),
        ("--policies delayed:1ms,delayed:1000us", "means the same"),
        ("--service-time exp:10h", "its mean is 36000000 ms;"),
        ("--service-time det:0ms", "10us"),
        ("--service-time exp:3", "exp:3: its times have no unit; write exp:3ms"),
        ("--requests -5", "-5"),
        ("--hiccup 2:3ms", "0 to 1"),
        ("--policies frob", "use one of random, "),
        // The list of policies ends here; the list of the simulator has one more policy.
        ("--policies frob", "rescue+bounded:N\n"),
        ("--policy psq --policy lædge", "did you mean laedge?"),
        ("--policies idealized", "unknown policy \"idealized\""),
        ("--policies psq,tied", "\"tied\": it needs servers that report when they begin"),
        ("--policies probabilistic:auto", "unknown policy \"probabilistic:auto\""),
        ("--slots 2 --policies psq,bounded:1", "--policy bounded:1: "),
    ];
    refused(here, "demo", &demo);
    let others = [
        ("simm", "a similar subcommand exists: 'sim'"),
        ("sim --utilizaton 1", "a similar argument exists: '--utilization'"),
        ("sim --percentiles 99.9,9.99", "another one is also called p999"),
        ("frobnicate", "frobnicate"),
        ("proxy --config /nowhere/at/all.toml", "/nowhere/at/all.toml"),
        ("leaf --slots 0", "0 is not in 1..=65535"),
        ("load", "or --calibrate alone"),
        ("load http://h", "--rate 500, --closed, or --arrivals"),
        ("load http://h -r 9 -H nocolon", "write it as 'accept: text/plain'"),
        ("leaf --listen foo", "write IP:PORT, such as 127.0.0.1:9001"),
        ("leaf --hiccup -1:40ms", "0 to 1"),
        ("leaf --slow 0.5:10s", "factor \"0.5\": write a number from 1 to 1000"),
        ("leaf --index /nowhere/at/all --shard 0", "/nowhere/at/all"),
    ];
    refused(here, "", &others);
}

/// A file that never ends.
#[cfg(target_os = "linux")]
#[test]
fn a_configuration_without_an_end_is_refused() {
    curtail("proxy --config /dev/zero --check")
        .ends(2)
        .warns(["/dev/zero: cannot be read (it is longer than the limit of 1 MiB)"]);
}

#[test]
fn help_explains_its_words() {
    curtail("demo --help")
        .prints(["Utilization is λ P̄ / (r c): λ queries per second", "\"Copies per query\" is"]);
    curtail("--help").prints(["Put a proxy in front of a replicated service\n"]);
}

#[test]
fn a_port_in_use_exits_with_3() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    // The log contains the notes that --check prints.
    let note = "service \"s\" (psq) gains most if one proxy sends all queries";
    proxy(&GOOD.replace("127.0.0.1:0", &address), "").ends(3).warns([
        &format!("listen.http = \"{address}\" ("),
        "proxy.toml:2)",
        note,
    ]);
    proxy(GOOD, "--check").warns([&format!("note: {note}")]);
}

#[test]
fn the_schema_is_printed_without_a_file() {
    let schema = curtail("proxy --schema").ends(0).json();
    assert!(schema["$defs"]["Service"]["properties"]["slots"].is_object());
    curtail("proxy").ends(2); // One of the two must be given.
}

#[test]
fn the_proxy_drains_on_sigterm_and_ctrl_c_and_survives_sighup() {
    for end in [Signal::TERM, Signal::INT] {
        let Service { proxy, .. } = Service::start("psq", "");
        proxy.signal(Signal::HUP);
        proxy.signal(end);
        assert_eq!(proxy.wait(), Some(0), "{end:?}");
    }
}

#[test]
fn children_end_with_their_parent() {
    let folder = folder(&[("proxy.toml", GOOD)]);
    let mut child = Command::new(CURTAIL)
        .args(["proxy", "--config", "proxy.toml", "--announce", "--tied-to-stdin"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    drop(child.stdin.take());
    assert_eq!(wait(&mut child), Some(0), "the end of stdin starts the drain");
}

#[test]
fn load_reports_json_and_nothing_else_on_stdout() {
    let service = Service::start("psq", "");
    let url = format!("http://{}/search?q=common", service.proxy.address);
    let report = curtail(&format!("load {url} --rate 100 --requests 50 --json")).json();
    assert_eq!(report["requests"], 50);
    assert_eq!(report["errors"]["connect"], 0);
    assert!(report["latency_ns"]["p99"].is_null(), "50 samples do not make a 99th percentile");
}

#[test]
fn completions_and_man_pages_are_generated() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        curtail(&format!("completions {shell}")).prints(["service-time"]).omits(["--warm-up"]);
    }
    let folder = folder(&[]);
    curtail_in(folder.path(), "completions man --out man").ends(0);
    let page = read(folder.path().join("man/curtail-sim.1"));
    assert!(page.contains("service\\-time"), "{page}");
    curtail("completions man").ends(2); // It has many pages.
}

#[test]
fn examples_stand_above_the_flags() {
    for verb in ["load", "sim", "sweep", "advise", "jitter", "leaf", "proxy", "agent"] {
        let help = curtail(&format!("{verb} --help")).out;
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("no {text} in {help}"));
        let example = if verb == "proxy" { "A configuration" } else { "Examples:" };
        assert!(at(example) < at("Options:"), "{help}");
    }
}
