//! Profiles a server with delays of known variance and correlation, in random cases, and compares
//! the results.
//!
//! `cargo run --release -p curtail-probe --example injected -- [CASES] [SECONDS]`
//! prints JSON. For each case, it contains the largest error of a stage's variance, the largest
//! error of a share, and whether the ranking was right. In every second case, the stage with the
//! largest mean takes the same time in every request.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "only the tests use all of it")]
mod server;

#[cfg(target_os = "linux")]
mod cases;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let cases = numbers.next().and_then(Result::ok).unwrap_or(20);
    let seconds = numbers.next().and_then(Result::ok).unwrap_or(4);
    cases::run(cases, seconds)
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("error: this needs Linux");
    ExitCode::from(3)
}
