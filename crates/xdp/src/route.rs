//! Finds the device through which this machine sends to an address, and the next hop on it. The kernel
//! makes the decision and takes policy routing into account. Source: Linux,
//! include/uapi/linux/rtnetlink.h, `RTM_GETROUTE`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_indextoname;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use procfs::FromRead as _;
use procfs::net::ArpEntries;

const HEADER_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;
const ATTRIBUTE_BYTES: usize = 4;
/// The neighbors in this thread's network namespace, which may differ from that of the process.
const NEIGHBORS: &str = "/proc/thread-self/net/arp";
/// The time limit for resolving the next hop. The kernel resolves a reachable hop within this time.
const ARP_TIMEOUT: Duration = Duration::from_secs(1);
/// The port of the discard service, which never responds (RFC 863).
const DISCARD: u16 = 9;
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The flag of a resolved entry (include/uapi/linux/if_arp.h).
const COMPLETE: u32 = 0x02;

/// Returns the name of the device through which this thread's network namespace reaches an address.
/// Every address of the machine itself is reached through `lo`.
///
/// Returns the system's error, such as `ENETUNREACH` if there is no route.
pub fn device_to(address: SocketAddr) -> io::Result<String> {
    match address {
        SocketAddr::V6(address) if address.scope_id() != 0 => name(address.scope_id()),
        _ => name(route_to(address.ip())?.device),
    }
}

fn name(device: u32) -> io::Result<String> {
    Ok(if_indextoname(device)?.to_string_lossy().into_owned())
}

/// The kernel's decision about an address.
#[derive(Debug, Default, PartialEq, Eq)]
struct Route {
    /// The index of the device, which is never 0.
    device: u32,
    gateway: Option<Ipv4Addr>,
}

fn route_to(address: IpAddr) -> io::Result<Route> {
    let raw = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, raw, SockProtocol::NetlinkRoute)?;
    let (descriptor, kernel) = (socket.as_raw_fd(), NetlinkAddr::new(0, 0));
    sendto(descriptor, &request(address), &kernel, MsgFlags::empty())?;
    let mut bytes = [0; 4096];
    let count = recv(descriptor, &mut bytes, MsgFlags::empty())?;
    route_in(&bytes[..count])
}

fn request(address: IpAddr) -> Vec<u8> {
    let (family, octets) = match address {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    let attribute = ATTRIBUTE_BYTES + octets.len();
    let whole = HEADER_BYTES + ROUTE_BYTES + attribute;
    let mut bytes = Vec::with_capacity(whole);
    bytes.extend((whole as u32).to_ne_bytes());
    bytes.extend(libc::RTM_GETROUTE.to_ne_bytes());
    bytes.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    // The sequence number and the sender, which the kernel chooses.
    bytes.extend([0; 8]);
    bytes.extend([family as u8, (octets.len() * 8) as u8]);
    bytes.extend([0; ROUTE_BYTES - 2]);
    bytes.extend((attribute as u16).to_ne_bytes());
    bytes.extend(libc::RTA_DST.to_ne_bytes());
    bytes.extend(octets);
    bytes
}

/// Parses the kernel's response.
fn route_in(response: &[u8]) -> io::Result<Route> {
    let malformed = || io::Error::other("the kernel's response about a route is malformed");
    let kind = response.get(4..6).ok_or_else(malformed)?;
    if kind == (libc::NLMSG_ERROR as u16).to_ne_bytes() {
        let code = response.get(HEADER_BYTES..HEADER_BYTES + 4).ok_or_else(malformed)?;
        let code = i32::from_ne_bytes([code[0], code[1], code[2], code[3]]);
        return Err(io::Error::from_raw_os_error(-code));
    }
    let mut rest = response.get(HEADER_BYTES + ROUTE_BYTES..).unwrap_or_default();
    let mut route = Route::default();
    while let [a, b, c, d, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some(value) = rest.get(ATTRIBUTE_BYTES..length) else { break };
        match (u16::from_ne_bytes([c, d]), <[u8; 4]>::try_from(value)) {
            (libc::RTA_OIF, Ok(index)) => route.device = u32::from_ne_bytes(index),
            (libc::RTA_GATEWAY, Ok(bytes)) => route.gateway = Some(Ipv4Addr::from(bytes)),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    if route.device == 0 { Err(malformed()) } else { Ok(route) }
}

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
    let route = route_to(host.into()).map_err(|_| lacking(format!("no route to {host}")))?;
    let (next, device) = (route.gateway.unwrap_or(host), name(route.device)?);
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
    fn own_addresses_are_reached_through_loopback_and_others_through_their_device() {
        assert_eq!(device_to("127.0.0.1:9".parse().unwrap()).unwrap(), "lo");
        let (near, _far) = match crate::namespace::pair() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                println!("SKIPPED: {error}");
                return;
            }
            pair => pair.expect("a wire"),
        };
        let device = |address: &str| near.inside(|| device_to(address.parse().unwrap()));
        assert_eq!(device("10.201.0.2:9").unwrap(), "wire");
        assert_eq!(device("10.201.0.1:9").unwrap(), "lo");
        let unreachable = device("192.0.2.1:9").unwrap_err();
        assert_eq!(unreachable.kind(), io::ErrorKind::NetworkUnreachable);
    }

    #[test]
    fn a_response_that_is_truncated_or_names_no_device_is_an_error() {
        let mut response = vec![0; HEADER_BYTES + ROUTE_BYTES];
        response.extend([8, 0, libc::RTA_TABLE as u8, 0, 1, 0, 0, 0]);
        assert!(route_in(&response).is_err());
        response.extend([8, 0, libc::RTA_GATEWAY as u8, 0, 10, 1, 2, 3]);
        response.extend([8, 0, libc::RTA_OIF as u8, 0, 7, 0, 0, 0]);
        let route = Route { device: 7, gateway: Some(Ipv4Addr::new(10, 1, 2, 3)) };
        assert_eq!(route_in(&response).unwrap(), route);
        (0..response.len()).for_each(|length| assert!(route_in(&response[..length]).is_err()));
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
