//! Measures how late a loop runs if all it does is wait for evenly spaced times. Every load
//! generator on this machine is at least as late as this loop.
//!
//! `lateness RATE SECONDS` prints percentiles as JSON.

use std::error::Error;
use std::time::{Duration, Instant};

use curtail_load::{Arrivals, Extent, Histogram, Profile, Schedule, Summary};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: lateness RATE SECONDS");
    let (rate, seconds) = (next()?.parse()?, next()?.parse::<u64>()?);
    let extent = Extent::Duration { ns: seconds * 1_000_000_000 };
    let schedule = Schedule::new(Profile::Steady(rate), &Arrivals::Constant, 0);
    let mut late = Histogram::<u64>::new_with_max(60_000_000_000, 3)?;
    let start = Instant::now();
    for slot in schedule.with_extent(0, extent) {
        let due = start + Duration::from_nanos(slot.at_ns);
        let mut now = Instant::now();
        while now < due {
            std::hint::spin_loop();
            now = Instant::now();
        }
        late.saturating_record(now.duration_since(due).as_nanos() as u64);
    }
    println!("{}", serde_json::to_string(&Summary::of(&late))?);
    Ok(())
}
