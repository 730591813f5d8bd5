//! Separates the two classes on a link. Low-priority packets wait for high-priority packets.
//!
//! Source: document 003 §4 ("Linux HTB queues at end-points") and §3.2 (the type of service of a
//! packet). Sockets are marked, and a link with two bands sends a packet from the low band only if
//! the high band is empty. Such a link needs two queueing disciplines ([`commands`]): `htb` limits
//! the rate of the link, so that packets queue in the bands and not behind them, and `pfifo_fast`
//! inside it provides the bands. Bytes that wait in a socket can no longer be overtaken, so sockets
//! buffer only a few bytes.

use std::io;
use std::os::fd::AsFd;

use curtail_kernel::stage::Priority;
use curtail_runtime::http::type_of_service;

use crate::sys;

/// The maximum number of bytes that wait in a socket. Two or three segments are enough to keep the
/// link busy.
const UNSENT_BYTES: i32 = 8 * 1024;

/// Marks all packets that a socket sends after this call.
///
/// # Errors
/// The system does not allow it.
pub fn mark(socket: &impl AsFd, priority: Priority) -> io::Result<()> {
    // The type of service is visible to networks. With IPv4, it also determines the band.
    let (tos, band) = (type_of_service(priority), if priority == Priority::High { 6 } else { 2 });
    sys::type_of_service(socket, tos.into())?;
    sys::link_priority(socket, band)?;
    sys::unsent_bytes(socket, UNSENT_BYTES)
}

/// Returns the commands that create the two bands on a device with this bit rate, as arguments of
/// `ip` and `tc`. These programs need privileges. The rate must be slightly below that of the link.
#[must_use]
pub fn commands(device: &str, bits_per_s: u64) -> [(&'static str, String); 4] {
    [
        // Sends segments one by one. Otherwise, a batch of 64 KB would delay a primary until the
        // whole batch is sent.
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
