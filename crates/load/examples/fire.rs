//! Sends a steady load to a server and prints the report:
//! `cargo run --release -p curtail-load --example fire -- http://127.0.0.1:8080/ 500 10s`.

use std::error::Error;

use curtail_load::{Extent, Plan, run};

#[tokio::main(worker_threads = 1)]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: fire http://HOST:PORT/path RATE DURATION");
    let mut plan = Plan::new(next()?.parse()?, next()?.parse()?);
    plan.extent = Extent::Duration { ns: curtail_kernel::duration::parse(&next()?)? };
    let report = run(&plan, std::future::pending(), |snapshot| eprintln!("{snapshot:?}")).await?;
    if let Some(warning) = report.warning() {
        eprintln!("warning: {warning}");
    }
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
