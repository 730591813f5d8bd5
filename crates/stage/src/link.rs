//! Links: packets of low priority wait for packets of high priority.
//!
//! Source: document 003 §4 ("Linux HTB queues at end-points") and §3.2 (the type of service of a
//! packet). Sockets are marked, and a link with two bands sends the high one first, packet by
//! packet. This takes two queueing disciplines ([`commands`]): `htb` limits the rate of the link,
//! so that packets queue in the bands and not behind them, and `pfifo_fast` inside it provides the
//! bands. Bytes that wait in a socket can no longer be overtaken, so sockets buffer only a few.

use std::io;
use std::os::fd::AsFd;

use curtail_kernel::stage::Priority;
use curtail_runtime::http::type_of_service;

use crate::sys;

/// The number of bytes that may wait in a socket: two or three segments, so that the link has no
/// gaps.
const UNSENT_BYTES: i32 = 8 * 1024;

/// Marks everything that a socket sends from now on.
///
/// # Errors
/// The system does not allow it.
pub fn mark(socket: &impl AsFd, priority: Priority) -> io::Result<()> {
    // Networks see the type of service, and over IPv4 it also determines the band.
    let (tos, band) = (type_of_service(priority), if priority == Priority::High { 6 } else { 2 });
    sys::type_of_service(socket, tos.into())?;
    sys::link_priority(socket, band)?;
    sys::unsent_bytes(socket, UNSENT_BYTES)
}

/// Returns the commands that create the two bands on a device with this bit rate: the arguments of
/// `ip` and `tc`, which need privileges. The rate has to be just below that of the link.
#[must_use]
pub fn commands(device: &str, bits_per_s: u64) -> [(&'static str, String); 4] {
    [
        // Sends segments one by one. A batch of 64 KB would delay a primary until all of it is
        // sent.
        ("ip", format!("link set dev {device} gso_max_segs 1")),
        ("tc", format!("qdisc replace dev {device} root handle 1: htb default 1")),
        (
            "tc",
            format!(
                "class replace dev {device} parent 1: classid 1:1 htb rate {bits_per_s}bit burst 3028 quantum 1514"
            ),
        ),
        ("tc", format!("qdisc replace dev {device} parent 1:1 pfifo_fast")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_marked_whatever_they_are_used_for() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = std::net::TcpListener::bind(address) else {
                println!("SKIPPED: no {address} here");
                continue;
            };
            for priority in [Priority::Low, Priority::High] {
                mark(&socket, priority).unwrap();
            }
        }
    }
}
