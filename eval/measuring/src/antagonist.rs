//! A co-located antagonist: a thread on the function's processor that computes without end, over more
//! memory than its first caches hold.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::place::Places;
use crate::worker::Worker;

/// More than the cache of a core.
const BYTES: usize = 4 << 20;
const LINE_BYTES: usize = 64;

/// Starts one. It ends when it is dropped.
pub(crate) fn start(places: Places) -> anyhow::Result<Worker> {
    Worker::start("antagonist", move |stop, ready| {
        places.be_antagonist()?;
        let mut memory = vec![0_u8; BYTES];
        ready();
        walk(&mut memory, stop);
        Ok(())
    })
}

fn walk(memory: &mut [u8], stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for byte in memory.iter_mut().step_by(LINE_BYTES) {
            *byte = byte.wrapping_add(1);
        }
        black_box(&memory);
    }
}
