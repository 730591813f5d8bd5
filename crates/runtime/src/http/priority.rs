//! The priority of a request, as in RFC 9218: `priority: u=7` marks work that can wait.
//!
//! Document 003 §3.2 makes duplicates visible to every layer. Over HTTP, they have the lowest
//! urgency, 7, which the RFC reserves for background work. Requests with any of the seven other
//! urgencies are served first, and all of these are treated alike.

use curtail_kernel::stage::Priority;

/// The header with the priority.
pub const PRIORITY: &str = "priority";

/// The line that marks a duplicate. It comes last, so it counts whatever the client has sent.
pub(super) const LOWEST: &[u8] = b"priority: u=7\r\n";

/// Returns the priority given by the values of the header. The last valid value counts, and the
/// default is high.
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

/// Returns the IP type of service for a priority, which is either interactive or bulk.
pub const fn type_of_service(priority: Priority) -> u8 {
    match priority {
        Priority::High => 0x10,
        Priority::Low => 0x08,
    }
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
}
