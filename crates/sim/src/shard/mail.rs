//! What is under way to a server or back, and what will befall one: events that come later.
//!
//! Empty where the network takes no time and servers do not fail. O(log n) per message.

use std::collections::BTreeMap;

use curtail_kernel::CopyId;

use crate::agenda::NEVER;

/// Something that comes later.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    /// A copy reaches its server.
    Deliver(CopyId),
    /// The order to stop a copy reaches its server.
    Stop(CopyId),
    /// A copy's answer reaches the cell.
    Finished(CopyId),
    /// The cell learns that a copy has stopped.
    Stopped(CopyId),
    /// The cell learns that a copy has begun.
    Started(CopyId),
    /// A server fails.
    Down(u32),
    /// A server is back.
    Up(u32),
}

/// Messages by time; those of one time in the order in which they were sent.
#[derive(Debug)]
pub(super) struct Mail {
    messages: BTreeMap<(u64, u64), Message>,
    sent: u64,
    next: u64,
}

impl Mail {
    pub(super) fn new() -> Self {
        Self { messages: BTreeMap::new(), sent: 0, next: NEVER }
    }

    /// When the first one comes.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn send(&mut self, at: u64, message: Message) {
        self.messages.insert((at, self.sent), message);
        self.sent += 1;
        self.next = self.next.min(at);
    }

    pub(super) fn take(&mut self) -> Option<Message> {
        let message = self.messages.pop_first().map(|(_, message)| message);
        self.next = self.messages.first_key_value().map_or(NEVER, |(&(at, _), _)| at);
        message
    }
}
