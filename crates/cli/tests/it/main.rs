//! Tests the binary as people and scripts use it: the structure of results, messages, exit codes,
//! signals, and files. Most behaviors are tested in the crates that implement them.

mod harness;

mod advise;
mod agents;
mod demo;
mod environment;
mod faults;
mod jitter;
mod load;
mod load_outputs;
mod model;
mod profile;
mod readers;
mod sim;
mod stage;
mod sweep;
mod verbs;

/// Checks the long-running simulations among the commands on the documentation pages.
#[cfg(target_os = "linux")]
#[test]
fn pages_show_what_is_printed() {
    if std::env::var_os("CURTAIL_ALL_PAGES").is_none() {
        println!("SKIPPED: a minute of simulation; set CURTAIL_ALL_PAGES=1 where a page changes");
        return;
    }
    for (page, least) in [
        (include_str!("../../../../docs/advise.md"), 5),
        (include_str!("../../../../docs/rescue.md"), 5),
        (include_str!("../../../../docs/rescue-study.md"), 1),
    ] {
        harness::words::manual_shows_what_is_printed(page, least);
    }
}
