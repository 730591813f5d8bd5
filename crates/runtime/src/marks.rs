//! Places that every request passes in this project's servers, for profilers: `curtail profile --app curtail-leaf` and
//! `curtail-proxy` attach probes to them. Until then, each costs a call.
//!
//! A request goes on on other threads, so each place says which it is. The functions differ, or the compiler would make
//! one of them; and they call another, because a call is cheap to probe.

use std::hint::black_box;

/// The request has been read and understood.
#[inline(never)]
pub fn parsed(request: u64) {
    black_box(keep(request) ^ 1);
}

/// It has a slot.
#[inline(never)]
pub fn admitted(request: u64) {
    black_box(keep(request) ^ 2);
}

/// The response is there: the search engine's, or the replica's.
#[inline(never)]
pub fn answered(request: u64) {
    black_box(keep(request) ^ 3);
}

#[inline(never)]
fn keep(request: u64) -> u64 {
    black_box(request)
}
