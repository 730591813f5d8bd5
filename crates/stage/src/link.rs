//! Links: what leaves at low priority waits for what leaves at high priority.
//!
//! Source: document 003 §4 ("Linux HTB queues at end-points") and §3.2 (the type of service of a packet). Sockets are
//! marked; a link of two bands serves the high one first, packet by packet. The queueing disciplines that this takes are
//! `htb`, which owns the rate of the link so that packets queue where they are in bands, over `pfifo_fast`
//! ([`commands`]). What waits in a socket can no longer be overtaken, so little may.

use std::io;
use std::os::fd::AsFd;

use curtail_kernel::stage::Priority;
use curtail_runtime::http::type_of_service;

use crate::sys;

/// Bytes that may wait in a socket: two or three segments, so that a link has no gaps.
const UNSENT_BYTES: i32 = 8 * 1024;

/// Marks all that a socket sends from now on.
///
/// # Errors
/// The system does not let it.
pub fn mark(socket: &impl AsFd, priority: Priority) -> io::Result<()> {
    // The type of service is what networks see, and over IPv4 decides the band, too.
    let (tos, band) = (type_of_service(priority), if priority == Priority::High { 6 } else { 2 });
    sys::type_of_service(socket, tos.into())?;
    sys::link_priority(socket, band)?;
    sys::unsent_bytes(socket, UNSENT_BYTES)
}

/// What makes two bands of a device that sends so many bits per second: arguments of `ip` and `tc`, which need
/// privilege. The rate has to be just below that of the link.
#[must_use]
pub fn commands(device: &str, bits_per_s: u64) -> [(&'static str, String); 4] {
    [
        // Segments leave one by one: one of 64 KB would hold up a primary for as long as all of them take.
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
