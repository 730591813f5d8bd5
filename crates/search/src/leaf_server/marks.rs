//! Places that every query passes, for profilers: `curtail profile --app curtail-leaf` attaches probes to them. Until
//! then, each costs a call.
//!
//! A query goes on on other threads, so each place says which it is. The functions differ, or the compiler would make
//! one of them; and they call another, because a call is cheap to probe.

use std::hint::black_box;

/// The query has been read and understood.
#[inline(never)]
pub(super) fn parsed(query: u64) {
    black_box(keep(query) ^ 1);
}

/// It has a slot.
#[inline(never)]
pub(super) fn admitted(query: u64) {
    black_box(keep(query) ^ 2);
}

/// The engine has its result.
#[inline(never)]
pub(super) fn searched(query: u64) {
    black_box(keep(query) ^ 3);
}

#[inline(never)]
fn keep(query: u64) -> u64 {
    black_box(query)
}
