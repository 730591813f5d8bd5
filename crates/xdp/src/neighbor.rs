//! Finds the device that leads to a host, and the address of the next hop on it. The network stack
//! performs the same lookup for its own packets. This module reads the necessary data from /proc.
//! It ignores policy routing.

use std::cmp::Reverse;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use procfs::FromRead as _;
use procfs::net::{ArpEntries, RouteEntries, RouteEntry};

/// The routes of this thread's network namespace, which may differ from that of the process.
const ROUTES: &str = "/proc/thread-self/net/route";
const NEIGHBORS: &str = "/proc/thread-self/net/arp";
/// The time limit for resolving the next hop. The kernel resolves a reachable hop within this time.
const ARP_TIMEOUT: Duration = Duration::from_secs(1);
/// The port of the discard service, which never responds (RFC 863).
const DISCARD: u16 = 9;
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The flag of a resolved entry (include/uapi/linux/if_arp.h).
const COMPLETE: u32 = 0x02;
/// The flag of a route that rejects packets, such as `unreachable` (include/uapi/linux/route.h).
const REJECT: u16 = 0x0200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) device: String,
    pub(crate) own_mac: [u8; 6],
    pub(crate) next_mac: [u8; 6],
}

/// Finds the next hop. If the kernel has not resolved the next hop yet, this sends an empty
/// datagram to the host.
///
/// It fails if there is no route, or if the next hop is not resolved within a second.
pub(crate) fn hop(own: Ipv4Addr, host: Ipv4Addr) -> io::Result<Hop> {
    if host.is_loopback() || host.is_unspecified() || host == own {
        // The stack would drop the packets as spoofed, because they come from outside and have our
        // address as their source.
        return Err(lacking(format!(
            "{host} is this machine, where the network stack cannot be bypassed; use a server on \
             another machine, or in a network namespace"
        )));
    }
    let RouteEntries(routes) = RouteEntries::from_file(ROUTES).map_err(io::Error::other)?;
    let Some(route) = best(&routes, host) else {
        return Err(lacking(format!("no route to {host}")));
    };
    let next = if route.gateway.is_unspecified() { host } else { route.gateway };
    let device = route.iface.clone();
    let own_mac = own_mac(&device)?.ok_or_else(|| {
        lacking(format!("{device} has no Ethernet address, and AF_XDP needs one here"))
    })?;
    for look in 0..ARP_TIMEOUT.as_millis() / LOOK_EVERY.as_millis() {
        let ArpEntries(known) = ArpEntries::from_file(NEIGHBORS).map_err(io::Error::other)?;
        let entry = known.iter().find(|entry| {
            entry.ip_address == next && entry.device == device && entry.flags.bits() & COMPLETE != 0
        });
        if let Some(next_mac) = entry.and_then(|entry| entry.hw_address) {
            return Ok(Hop { device, own_mac, next_mac });
        }
        if look == 0 {
            // The send triggers an ARP request, even if no reply comes and the datagram is dropped.
            let _ = UdpSocket::bind((own, 0))?.send_to(&[], (host, DISCARD));
        }
        thread::sleep(LOOK_EVERY);
    }
    Err(lacking(format!("{next} on {device} does not respond to ARP; is it up?")))
}

fn best(routes: &[RouteEntry], host: Ipv4Addr) -> Option<&RouteEntry> {
    let leads = |route: &&RouteEntry| {
        u32::from(host) & u32::from(route.mask) == u32::from(route.destination)
    };
    let rank = |route: &&RouteEntry| (Reverse(u32::from(route.mask)), route.metrics);
    // A route that rejects packets is compared like any other route, and has an effect only if it
    // is the best one.
    routes.iter().filter(leads).min_by_key(rank).filter(|route| route.flags & REJECT == 0)
}

fn own_mac(device: &str) -> io::Result<Option<[u8; 6]>> {
    let mut addresses = getifaddrs()?.filter(|address| address.interface_name == device);
    Ok(addresses.find_map(|address| address.address?.as_link_addr()?.addr()))
}

fn lacking(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins_then_the_lowest_metric_then_the_first() {
        let table = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
            all 00000000 0100000A 0003 0 0 0 00000000 0 0 0\n\
            dear 0000000A 00000000 0001 0 0 100 000000FF 0 0 0\n\
            first 0000000A 00000000 0001 0 0 50 000000FF 0 0 0\n\
            second 0000000A 00000000 0001 0 0 50 000000FF 0 0 0\n\
            narrow 0000010A 00000000 0001 0 0 200 0000FFFF 0 0 0\n\
            * 0000020A 00000000 0201 0 0 200 0000FFFF 0 0 0\n";
        let RouteEntries(routes) = RouteEntries::from_read(table.as_bytes()).unwrap();
        for (host, device) in [
            ([10, 9, 9, 9], Some("first")),
            ([10, 1, 9, 9], Some("narrow")),
            ([9, 9, 9, 9], Some("all")),
            ([10, 2, 9, 9], None),
        ] {
            let found = best(&routes, host.into()).map(|route| route.iface.as_str());
            assert_eq!(found, device, "{host:?}");
        }
    }

    #[test]
    fn this_machine_is_not_reached_past_the_stack() {
        let own = Ipv4Addr::new(10, 9, 8, 7);
        for host in [Ipv4Addr::new(127, 1, 2, 3), own] {
            let why = hop(own, host).unwrap_err();
            assert_eq!(why.kind(), io::ErrorKind::Unsupported);
            assert!(why.to_string().contains("is this machine"), "{why}");
        }
    }
}
