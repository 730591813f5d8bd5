//! Functions that this project's servers call for every request, so that profilers can attach to
//! them. `curtail profile` attaches probes to them with `--app curtail-leaf` or `--app
//! curtail-proxy`. Without a probe, each of these functions costs one call.
//!
//! A request may continue on another thread, so each function takes the request's id. The bodies of
//! the functions differ, because the compiler would otherwise merge them. Each function calls
//! another one, because a call is cheap to probe.

use std::hint::black_box;

/// The request has been read and parsed.
#[inline(never)]
pub fn parsed(request: u64) {
    black_box(keep(request) ^ 1);
}

/// The request has a slot.
#[inline(never)]
pub fn admitted(request: u64) {
    black_box(keep(request) ^ 2);
}

/// The response has arrived, from the search engine or the replica.
#[inline(never)]
pub fn answered(request: u64) {
    black_box(keep(request) ^ 3);
}

#[inline(never)]
fn keep(request: u64) -> u64 {
    black_box(request)
}
