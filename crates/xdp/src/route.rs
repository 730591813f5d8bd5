//! Finds the device through which this machine sends to an address. The kernel makes the decision
//! and takes policy routing into account. Source: Linux, include/uapi/linux/rtnetlink.h,
//! `RTM_GETROUTE`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;

use nix::net::if_::if_indextoname;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

const HEADER_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;
const ATTRIBUTE_BYTES: usize = 4;

/// Returns the name of the device through which this thread's network namespace reaches an address.
/// Every address of the machine itself is reached through `lo`.
///
/// Returns the system's error, such as `ENETUNREACH` if there is no route.
pub fn device_to(address: SocketAddr) -> io::Result<String> {
    let index = match address {
        SocketAddr::V6(address) if address.scope_id() != 0 => address.scope_id(),
        _ => index_to(address.ip())?,
    };
    Ok(if_indextoname(index)?.to_string_lossy().into_owned())
}

fn index_to(address: IpAddr) -> io::Result<u32> {
    let raw = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, raw, SockProtocol::NetlinkRoute)?;
    let (descriptor, kernel) = (socket.as_raw_fd(), NetlinkAddr::new(0, 0));
    sendto(descriptor, &request(address), &kernel, MsgFlags::empty())?;
    let mut bytes = [0; 4096];
    let count = recv(descriptor, &mut bytes, MsgFlags::empty())?;
    device_of(&bytes[..count])
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

/// Returns the index of the device in the kernel's response.
fn device_of(response: &[u8]) -> io::Result<u32> {
    let malformed = || io::Error::other("the kernel's response about a route is malformed");
    let kind = response.get(4..6).ok_or_else(malformed)?;
    if kind == (libc::NLMSG_ERROR as u16).to_ne_bytes() {
        let code = response.get(HEADER_BYTES..HEADER_BYTES + 4).ok_or_else(malformed)?;
        let code = i32::from_ne_bytes([code[0], code[1], code[2], code[3]]);
        return Err(io::Error::from_raw_os_error(-code));
    }
    let mut rest = response.get(HEADER_BYTES + ROUTE_BYTES..).unwrap_or_default();
    while let [a, b, c, d, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some(value) = rest.get(ATTRIBUTE_BYTES..length) else { break };
        if u16::from_ne_bytes([c, d]) == libc::RTA_OIF
            && let [a, b, c, d] = *value
        {
            return Ok(u32::from_ne_bytes([a, b, c, d]));
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Err(malformed())
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
        assert!(device_of(&response).is_err());
        response.extend([8, 0, libc::RTA_OIF as u8, 0, 7, 0, 0, 0]);
        assert_eq!(device_of(&response).unwrap(), 7);
        (0..response.len()).for_each(|length| assert!(device_of(&response[..length]).is_err()));
    }
}
