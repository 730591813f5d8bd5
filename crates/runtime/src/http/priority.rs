//! The priority of a request, as RFC 9218 writes it: `priority: u=7` is for work that can wait.
//!
//! Document 003 §3.2 lets every layer see which jobs are duplicates. Over HTTP that is the lowest urgency, 7, which
//! the RFC reserves for background work; the other seven are all served before it, and alike.

use bytes::Bytes;
use curtail_kernel::stage::Priority;

/// The field.
pub const PRIORITY: &str = "priority";

/// What a duplicate says.
const LOWEST: &[u8] = b"priority: u=7\r\n";

/// The priority that the values of a request's fields say, of which the last counts. What cannot be read says nothing.
pub fn priority<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Priority {
    let mut priority = Priority::High;
    let members = values.into_iter().flat_map(|value| value.split(|&byte| byte == b','));
    for member in members.map(<[u8]>::trim_ascii) {
        // A member may have parameters.
        let member = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
        match member {
            b"u=7" => priority = Priority::Low,
            [b'u', b'=', b'0'..=b'6'] => priority = Priority::High,
            _ => {}
        }
    }
    priority
}

/// The type of service of what is sent at a priority: interactive, or bulk.
pub const fn type_of_service(priority: Priority) -> u8 {
    match priority {
        Priority::High => 0x10,
        Priority::Low => 0x08,
    }
}

/// A request that says that it is a duplicate, behind whatever it says besides.
pub(super) fn lowest(wire: &Bytes) -> Bytes {
    let end = wire.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let (head, rest) = wire.split_at(end.expect("it was rendered with a head") + 2);
    [head, LOWEST, rest].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_urgency_is_low_and_nothing_else() {
        for (values, low) in [
            (&["u=7"][..], true),
            (&["i, u=7"], true),
            (&["u=7;x=1, i"], true),
            (&["u=3", "u=7"], true),
            (&["u=7", "u=3"], false),
            (&["u=7, u=0"], false),
            (&["u=77"], false),
            (&["xu=7"], false),
            (&["U=7"], false),
            (&["u=8", "u=-1", "", ",,;"], false),
            (&[], false),
        ] {
            let found = priority(values.iter().map(|value| value.as_bytes()));
            assert_eq!(found == Priority::Low, low, "{values:?}");
        }
    }

    #[test]
    fn a_duplicate_says_so_in_its_head() {
        let wire =
            Bytes::from_static(b"POST / HTTP/1.1\r\nhost: a\r\npriority: u=1\r\n\r\nb\r\n\r\nc");
        let low = lowest(&wire);
        assert_eq!(
            &low[..],
            b"POST / HTTP/1.1\r\nhost: a\r\npriority: u=1\r\npriority: u=7\r\n\r\nb\r\n\r\nc"
        );
    }
}
