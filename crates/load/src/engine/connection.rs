//! One connection: a socket, a protocol, and the requests that are on it.

use std::collections::VecDeque;
use std::io;

use bytes::BytesMut;
use slab::Slab;

use super::Context;
use super::wire::{Found, Wire};
use crate::fault::Fault;
use crate::outcome::Outcome;
use crate::schedule::Slot;
use crate::session::{Reply, Session, Token, Whole};

/// Bytes that wait to be written, beyond which no further request is taken: the server does not read.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Reads of one connection in one turn. Others get theirs, and due requests are sent.
const READS_MAX: usize = 4;

/// A request that is on the connection.
#[derive(Debug, Clone, Copy)]
struct Flight {
    slot: Slot,
    /// It waits, or waited, for the connection to be opened.
    opened: bool,
    taken_ns: u64,
    sent_ns: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Connection {
    id: usize,
    link: Link,
    input: BytesMut,
    output: BytesMut,
    /// By token.
    flights: Slab<Flight>,
    /// Bytes written of `output` since the connection was opened.
    written: u64,
    /// Requests not yet written as a whole, with where they end.
    unsent: VecDeque<(Token, u64)>,
    /// The poller tells when the socket is writable.
    watched: bool,
    replies: Vec<Reply>,
}

#[derive(Debug)]
enum Link {
    Closed,
    /// To the address of this number; further ones are left to be tried.
    Connecting {
        wire: Wire,
        session: Box<dyn Session>,
        address: usize,
    },
    Open {
        wire: Wire,
        session: Box<dyn Session>,
    },
}

impl Connection {
    pub(super) fn new(id: usize) -> Connection {
        Connection {
            id,
            link: Link::Closed,
            input: BytesMut::new(),
            output: BytesMut::new(),
            flights: Slab::new(),
            written: 0,
            unsent: VecDeque::new(),
            watched: false,
            replies: Vec::new(),
        }
    }

    pub(super) fn outstanding(&self) -> usize {
        self.flights.len()
    }

    /// True if a request can be sent now, if need be over a new connection.
    pub(super) fn has_room(&self) -> bool {
        match &self.link {
            Link::Closed => true,
            Link::Connecting { session, .. } | Link::Open { session, .. } => {
                session.capacity() > 0 && self.output.len() < OUTPUT_BYTES_MAX
            }
        }
    }

    /// Sends a request; there is room. Its token, unless it has failed at once.
    pub(super) fn send(&mut self, slot: Slot, context: &mut Context<'_>) -> Option<Token> {
        let taken_ns = context.clock.elapsed_ns();
        let opened = !matches!(self.link, Link::Open { .. });
        let flight = Flight { slot, opened, taken_ns, sent_ns: None };
        let token = self.flights.insert(flight);
        if matches!(self.link, Link::Closed) {
            self.open(0, context);
        }
        let (Link::Connecting { session, .. } | Link::Open { session, .. }) = &mut self.link else {
            return None;
        };
        session.send(slot.query, token as Token, &mut self.output);
        self.unsent.push_back((token as Token, self.written + self.output.len() as u64));
        self.flush(context);
        Some(token as Token)
    }

    /// Opens a connection to one of the addresses from `first` on. If none lets itself be connected
    /// to, all requests have failed.
    fn open(&mut self, first: usize, context: &mut Context<'_>) {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in first..context.addresses.len() {
            let datagrams = context.sessions.datagrams();
            let wire = Wire::connect(context.addresses[address], datagrams);
            let connecting = wire.and_then(|wire| {
                context.poller.add(&wire, self.id as u64, true)?;
                Ok(wire)
            });
            match connecting {
                Ok(wire) => {
                    *context.connects += 1;
                    self.watched = true;
                    let session = match std::mem::replace(&mut self.link, Link::Closed) {
                        // What was to be sent to the address before goes to this one.
                        Link::Connecting { session, .. } => session,
                        _ => context.sessions.open(),
                    };
                    self.link = Link::Connecting { wire, session, address };
                    return;
                }
                Err(error) => failure = error,
            }
        }
        self.close(&Fault::Connect(failure), context);
    }

    /// Something happened on the socket.
    pub(super) fn ready(&mut self, readable: bool, context: &mut Context<'_>) {
        if let Link::Connecting { wire, address, .. } = &self.link {
            let (connected, address) = (wire.connected(), *address);
            match connected {
                Ok(()) => self.connected(context),
                Err(error) if address + 1 == context.addresses.len() => {
                    self.close(&Fault::Connect(error), context);
                }
                Err(_) => self.open(address + 1, context),
            }
        } else if readable {
            self.receive(context);
        } else {
            self.flush(context);
        }
    }

    fn connected(&mut self, context: &mut Context<'_>) {
        if let Link::Connecting { wire, session, .. } =
            std::mem::replace(&mut self.link, Link::Closed)
        {
            self.link = Link::Open { wire, session };
            self.flush(context);
        }
    }

    /// Writes what there is to write. What the system does not take now is written when it does.
    fn flush(&mut self, context: &mut Context<'_>) {
        let Link::Open { wire, .. } = &mut self.link else { return };
        match wire.write(&mut self.output) {
            Ok(count) => self.written += count as u64,
            Err(error) => return self.close(&Fault::of(error), context),
        }
        let blocked = !self.output.is_empty();
        if blocked != self.watched
            && let Err(error) = context.poller.modify(&*wire, self.id as u64, blocked)
        {
            return self.close(&Fault::Io(error), context);
        }
        self.watched = blocked;
        self.note_sent(context);
    }

    /// Takes note of the requests that were written.
    fn note_sent(&mut self, context: &mut Context<'_>) {
        if matches!(&self.link, Link::Open { session, .. } if session.holds()) {
            return;
        }
        let now_ns = context.clock.elapsed_ns();
        while let Some(&(token, end)) = self.unsent.front()
            && end <= self.written
        {
            self.unsent.pop_front();
            if let Some(flight) = self.flights.get_mut(token as usize) {
                flight.sent_ns = Some(now_ns);
            }
        }
    }

    fn receive(&mut self, context: &mut Context<'_>) {
        for _ in 0..READS_MAX {
            let Link::Open { wire, session } = &mut self.link else { return };
            let found = wire.read(&mut self.input);
            // Before it is parsed: that is our own work, not the server's.
            let now_ns = context.clock.elapsed_ns();
            let fault = match found {
                Ok(Found::Nothing) => return,
                Ok(Found::Bytes(_)) => {
                    let held = session.holds();
                    let done =
                        session.receive(&mut self.input, &mut self.output, &mut self.replies);
                    if held && !session.holds() {
                        // What was kept back is in the output now.
                        let end = self.written + self.output.len() as u64;
                        self.unsent.iter_mut().for_each(|unsent| unsent.1 = end);
                    }
                    done.err()
                }
                Ok(Found::End) => Some(session.end(&mut self.replies)),
                Err(error) => Some(session.cut(Fault::of(error))),
            };
            let reusable = session.reusable();
            self.settle(now_ns, context);
            if let Some(fault) = fault {
                return self.close(&fault, context);
            }
            if !reusable && self.flights.is_empty() {
                return self.close(&Fault::Closed, context);
            }
            if !self.output.is_empty() {
                self.flush(context);
            }
        }
    }

    /// Tells the outcomes of the replies that have come.
    fn settle(&mut self, done_ns: u64, context: &mut Context<'_>) {
        for reply in self.replies.drain(..) {
            // A reply to a request that was given up has no flight.
            if let Some(flight) = self.flights.try_remove(reply.token as usize) {
                context.outcomes.push(flight.ends(done_ns, reply.result));
            }
        }
    }

    /// Gives up a request that is under way.
    pub(super) fn expire(&mut self, token: Token, context: &mut Context<'_>) {
        let expired = self.flights.remove(token as usize);
        let now_ns = context.clock.elapsed_ns();
        context.outcomes.push(expired.ends(now_ns, Err(Fault::Timeout)));
        let usable = match &mut self.link {
            Link::Open { session, .. } => session.abandon(token, &mut self.output),
            // An address that keeps silent is given up with its last request.
            Link::Connecting { session, .. } if !self.flights.is_empty() => {
                session.abandon(token, &mut self.output)
            }
            Link::Connecting { .. } | Link::Closed => false,
        };
        if usable {
            // Its token may be the next request's.
            self.unsent.retain(|(unsent, _)| *unsent != token);
            self.flush(context);
        } else {
            // What else is on it has failed with it.
            self.close(&Fault::Closed, context);
        }
    }

    /// Ends the connection, and with this fault all that is on it.
    fn close(&mut self, fault: &Fault, context: &mut Context<'_>) {
        self.link = Link::Closed;
        self.input.clear();
        self.output.clear();
        self.unsent.clear();
        (self.written, self.watched) = (0, false);
        let now_ns = context.clock.elapsed_ns();
        for flight in self.flights.drain() {
            context.outcomes.push(flight.ends(now_ns, Err(fault.again())));
        }
    }
}

impl Flight {
    fn ends(self, done_ns: u64, result: Result<Whole, Fault>) -> Outcome {
        let Flight { slot, opened, taken_ns, sent_ns } = self;
        Outcome { slot, opened, taken_ns, sent_ns, done_ns, result }
    }
}
