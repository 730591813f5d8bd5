//! Measures the cost of a probe on this machine by probing a function in this process.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use procfs::process::{MMapPath, Process};

use super::LiveError;
use super::kernel::Kernel;
use super::places::Place;
use crate::binary;

/// The number of calls per round. It is large enough to make the cost of reading the clock
/// negligible.
const CALLS: u32 = 2_000;

/// Returns the time that an attached probe adds to each call, in nanoseconds.
pub(super) fn trap_ns(kernel: &mut Kernel) -> Result<f64, LiveError> {
    let Some(place) = own_place() else { return Ok(0.0) };
    let without = calls_ns();
    let link = kernel.attach(&place)?;
    let with = calls_ns();
    drop(link);
    Ok((with - without).max(0.0))
}

/// Calls another function, so that it contains an instruction that the kernel emulates. The sites
/// of marks also contain such instructions.
#[inline(never)]
fn probed(value: u64) -> u64 {
    black_box(black_box(called as fn(u64) -> u64)(value)).wrapping_mul(3)
}

#[inline(never)]
fn called(value: u64) -> u64 {
    black_box(value)
}

/// Returns the time per call of the fastest round, because interruptions only add time.
fn calls_ns() -> f64 {
    let round = || {
        let start = Instant::now();
        (0..CALLS).for_each(|call| {
            black_box(black_box(probed as fn(u64) -> u64)(u64::from(call)));
        });
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..5).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// Returns the location of [`probed`] in the executable of this process.
fn own_place() -> Option<Place> {
    let address = probed as fn(u64) -> u64 as usize as u64;
    let process = Process::myself().ok()?;
    let inside =
        |map: &procfs::process::MemoryMap| (map.address.0..map.address.1).contains(&address);
    let map = process.maps().ok()?.into_iter().find(inside)?;
    let MMapPath::Path(_) = map.pathname else { return None };
    let path = PathBuf::from("/proc/self/exe");
    let start = address - map.address.0 + map.offset;
    let file = std::fs::read(&path).ok()?;
    let offset = start + binary::emulated(file.get(start as usize..)?)?;
    Some(Place { mark: 0, path, offset, process: std::process::id() })
}
