//! How a thread's record is read while it runs: two records change places.
//!
//! A record is a megabyte of histograms. To copy it would make the next requests late, and a lock around
//! it would cost every request. So whoever watches offers an empty record; the thread takes it in
//! exchange for its own when it comes by, which is a swap of two pointers; and the watcher adds that
//! one up at its leisure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::results::record::Record;

#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// There is an empty record in the seat. Looked at before the lock, which costs more.
    offered: AtomicBool,
    seat: Mutex<Seat>,
}

#[derive(Debug, Default)]
enum Seat {
    #[default]
    Free,
    Offered(Box<Record>),
    HandedOver(Box<Record>),
}

impl Exchange {
    /// The thread: hands over its record for an empty one, if that is asked for.
    pub(crate) fn come_by(&self, record: &mut Box<Record>) {
        if !self.offered.load(Ordering::Relaxed) {
            return;
        }
        // The watcher may be at it, for some nanoseconds.
        if let Ok(mut seat) = self.seat.try_lock() {
            if let Seat::Offered(empty) = &mut *seat {
                std::mem::swap(record, empty);
            }
            if let Seat::Offered(full) = std::mem::take(&mut *seat) {
                *seat = Seat::HandedOver(full);
            }
            self.offered.store(false, Ordering::Relaxed);
        }
    }

    /// The watcher: what the thread has handed over since, if it has.
    pub(crate) fn collect(&self) -> Option<Box<Record>> {
        let mut seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut *seat) {
            Seat::HandedOver(record) => Some(record),
            before => {
                *seat = before;
                None
            }
        }
    }

    /// The watcher: offers an empty record, unless there is one.
    pub(crate) fn offer(&self, empty: impl FnOnce() -> Box<Record>) {
        let mut seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*seat, Seat::Free) {
            *seat = Seat::Offered(empty());
            self.offered.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(sent: u64) -> Box<Record> {
        let mut record = Box::new(Record::new());
        record.sent = sent;
        record
    }

    #[test]
    fn a_record_is_handed_over_once_for_each_offer() {
        let exchange = Exchange::default();
        let mut mine = numbered(1);
        exchange.come_by(&mut mine);
        assert_eq!((mine.sent, exchange.collect().is_none()), (1, true), "nothing was offered");
        exchange.offer(|| numbered(2));
        exchange.offer(|| unreachable!("there is one"));
        assert!(exchange.collect().is_none(), "the thread has not come by");
        exchange.come_by(&mut mine);
        exchange.come_by(&mut mine);
        assert_eq!(mine.sent, 2);
        assert_eq!(exchange.collect().unwrap().sent, 1);
        assert!(exchange.collect().is_none());
    }
}
