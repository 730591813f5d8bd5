//! Wakers that only take down what is to be polled again.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use crate::session::Token;

/// What is to be polled again.
#[derive(Debug, Default)]
struct Noted {
    connection: AtomicBool,
    /// A waker is used up when it wakes, so there are no more of these than there were polls.
    streams: Mutex<Vec<Token>>,
}

#[derive(Debug)]
struct OfConnection(Arc<Noted>);

#[derive(Debug)]
struct OfStream(Arc<Noted>, Token);

impl Wake for OfConnection {
    fn wake(self: Arc<Self>) {
        self.0.connection.store(true, Ordering::Relaxed);
    }
}

impl Wake for OfStream {
    fn wake(self: Arc<Self>) {
        let OfStream(noted, token) = &*self;
        noted.streams.lock().unwrap_or_else(PoisonError::into_inner).push(*token);
    }
}

#[derive(Debug)]
pub(super) struct Wakers {
    noted: Arc<Noted>,
    connection: Waker,
    /// By token.
    streams: Vec<Waker>,
}

impl Wakers {
    pub(super) fn new() -> Wakers {
        let noted = Arc::<Noted>::default();
        let connection = Waker::from(Arc::new(OfConnection(Arc::clone(&noted))));
        Wakers { noted, connection, streams: Vec::new() }
    }

    pub(super) fn connection(&self) -> Waker {
        self.connection.clone()
    }

    pub(super) fn stream(&mut self, token: Token) -> Waker {
        while self.streams.len() <= token as usize {
            let next = OfStream(Arc::clone(&self.noted), self.streams.len() as Token);
            self.streams.push(Waker::from(Arc::new(next)));
        }
        self.streams[token as usize].clone()
    }

    /// True if the connection is to be polled again.
    pub(super) fn take_connection(&self) -> bool {
        self.noted.connection.swap(false, Ordering::Relaxed)
    }

    /// The streams that are to be polled again.
    pub(super) fn take_streams(&self) -> Vec<Token> {
        mem::take(&mut *self.noted.streams.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
