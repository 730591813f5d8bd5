//! Hands each due request to a connection.
//!
//! The pacing thread gives a request straight to the task of a connection: a detour by way of a
//! central task would cost every request one more wake-up.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use crate::schedule::Slot;

/// What became of the requests so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Given to a connection, or waiting for one; warm-up included.
    pub(crate) accepted: u64,
    /// Of those, waiting at the moment.
    pub(crate) waiting: u64,
    /// Measured requests that came when all connections were busy and had to wait.
    pub(crate) waited: u64,
    /// Measured requests that found the backlog full.
    pub(crate) dropped: u64,
}

/// Idle connections and waiting requests; never both.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    /// The mailbox of each connection. It holds one request, and is empty while the connection is
    /// idle.
    mailboxes: Vec<mpsc::Sender<Slot>>,
    backlog_max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// A stack: the connection used last is used next. The others grow old, as a pool's do.
    idle: Vec<usize>,
    backlog: VecDeque<Slot>,
    tally: Tally,
}

impl Dispatcher {
    /// A dispatcher to this many connections, all idle, and what each receives its requests from.
    pub(crate) fn new(
        connections: usize,
        backlog_max: usize,
    ) -> (Dispatcher, Vec<mpsc::Receiver<Slot>>) {
        let (mailboxes, receivers) = (0..connections).map(|_| mpsc::channel(1)).unzip();
        let state = State {
            idle: (0..connections).rev().collect(),
            backlog: VecDeque::new(),
            tally: Tally::default(),
        };
        (Dispatcher { mailboxes, backlog_max, state: Mutex::new(state) }, receivers)
    }

    /// Gives a due request to an idle connection, or lets it wait for one, or drops it.
    pub(crate) fn offer(&self, slot: Slot) {
        let mut state = self.state();
        if let Some(connection) = state.idle.pop() {
            state.tally.accepted += 1;
            drop(state);
            // Fails only when the run is over and the tasks are gone.
            let _ = self.mailboxes[connection].try_send(slot);
        } else if state.backlog.len() < self.backlog_max {
            state.backlog.push_back(slot);
            state.tally.accepted += 1;
            state.tally.waited += u64::from(!slot.warmup);
        } else {
            state.tally.dropped += u64::from(!slot.warmup);
        }
    }

    /// The request that has waited longest, for a connection that is done with its last one. If
    /// there is none, the connection is idle from now on, and its mailbox brings the next.
    pub(crate) fn next_or_idle(&self, connection: usize) -> Option<Slot> {
        let mut state = self.state();
        let slot = state.backlog.pop_front();
        if slot.is_none() {
            state.idle.push(connection);
        }
        slot
    }

    pub(crate) fn tally(&self) -> Tally {
        let state = self.state();
        Tally { waiting: state.backlog.len() as u64, ..state.tally }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics under the lock, so what it guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(index: u64) -> Slot {
        Slot { index, at_ns: index, query: 0, warmup: false }
    }

    #[test]
    fn the_connection_used_last_is_used_next() {
        let (dispatcher, mut mailboxes) = Dispatcher::new(3, 0);
        for index in 0..3 {
            dispatcher.offer(slot(index));
        }
        for (connection, mailbox) in mailboxes.iter_mut().enumerate() {
            assert_eq!(mailbox.try_recv().unwrap().index, connection as u64);
        }
        for connection in [2, 0, 1] {
            assert_eq!(dispatcher.next_or_idle(connection), None);
        }
        dispatcher.offer(slot(3));
        assert_eq!(mailboxes[1].try_recv().unwrap().index, 3);
        assert_eq!(dispatcher.next_or_idle(1), None);
        dispatcher.offer(slot(4));
        assert_eq!(mailboxes[1].try_recv().unwrap().index, 4);
    }

    #[test]
    fn what_finds_no_connection_waits_in_order_and_is_dropped_beyond_the_bound() {
        let (dispatcher, mut mailboxes) = Dispatcher::new(1, 2);
        for index in 0..5 {
            dispatcher.offer(slot(index));
        }
        dispatcher.offer(Slot { warmup: true, ..slot(5) });
        let tally = Tally { accepted: 3, waiting: 2, waited: 2, dropped: 2 };
        assert_eq!(dispatcher.tally(), tally);
        assert_eq!(mailboxes[0].try_recv().unwrap().index, 0);
        assert_eq!(dispatcher.next_or_idle(0).unwrap().index, 1);
        assert_eq!(dispatcher.next_or_idle(0).unwrap().index, 2);
        assert_eq!(dispatcher.next_or_idle(0), None);
        assert_eq!(dispatcher.tally(), Tally { waiting: 0, ..tally });
    }
}
