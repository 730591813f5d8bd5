//! One connection: a socket, a protocol, and the requests in flight.

use std::collections::VecDeque;
use std::io;

use bytes::BytesMut;
use slab::Slab;

use crate::engine::Context;
use crate::engine::clock::Poller;
use crate::engine::flight::{Due, Flight};
use crate::engine::stamp::{Departure, Layer};
use crate::engine::wire::{Found, Wire};
use crate::plan::protocol::Batch;
use crate::results::outcome::Outcome;
use crate::session::fault::{Fault, Wait};
use crate::session::{Out, Session, Token};

/// Maximum number of unwritten bytes with which a connection still takes requests. A larger number
/// means that the server is not reading.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of requests that wait for a send timestamp. A device that does not support
/// timestamps never delivers one.
const TX_PENDING_MAX: usize = 1 << 16;
/// Number of earlier requests whose send timestamps may still arrive after that of a later request.
const TX_REORDERED_MAX: usize = 16;
/// Maximum number of reads from one connection in each iteration of the thread's loop. The limit
/// leaves time to read other connections and to send due requests.
const READS_MAX: usize = 4;

pub(super) struct Connection {
    id: usize,
    link: Link,
    /// The wire that bypasses the network stack. When the connection closes, this socket is kept
    /// for the next connection.
    kept: Option<Wire>,
    input: BytesMut,
    out: Out,
    flights: Slab<Flight>,
    written: u64,
    /// Number of requests in the unwritten batch, and the time at which it must be written.
    batched: usize,
    batch_until_ns: u64,
    /// Requests that are not completely written yet, with the offsets of their ends.
    unsent: VecDeque<(Token, u64)>,
    /// Written requests, each with the number that its send timestamp will have.
    tx_pending: VecDeque<(u32, Token)>,
    datagrams: u32,
    watched: bool,
    responded: bool,
    last_good: bool,
    /// How many times in a row the connection closed without a response.
    failures: u32,
}

enum Link {
    Closed,
    /// The connection is being opened to the address with this index. The addresses that follow it
    /// have not been tried yet.
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
            kept: None,
            input: BytesMut::new(),
            out: Out::default(),
            flights: Slab::new(),
            written: 0,
            batched: 0,
            batch_until_ns: 0,
            unsent: VecDeque::new(),
            tx_pending: VecDeque::new(),
            datagrams: 0,
            watched: false,
            responded: false,
            last_good: false,
            failures: 0,
        }
    }

    pub(super) fn outstanding(&self) -> usize {
        self.flights.len()
    }

    /// Whether a request can be sent now, over a new connection if necessary.
    pub(super) fn has_room(&self) -> bool {
        match &self.link {
            Link::Closed => true,
            Link::Connecting { session, .. } | Link::Open { session, .. } => {
                session.capacity() > 0 && self.out.bytes.len() < OUTPUT_BYTES_MAX
            }
        }
    }

    /// Whether the server accepts no more requests on this connection but has yet to respond to
    /// earlier ones.
    pub(super) fn is_going_away(&self) -> bool {
        matches!(&self.link, Link::Open { session, .. } if !session.reusable())
            && !self.flights.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.link, Link::Closed)
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = u64> {
        self.flights.iter().map(|(_, flight)| flight.slot.index)
    }

    pub(super) fn moved(&mut self, id: usize, poller: &Poller) {
        self.id = id;
        if let Link::Open { wire, .. } = &self.link {
            // The poller already watches the wire. Only its index changes.
            let _ = poller.modify(wire, id as u64, self.watched);
        }
    }

    /// Returns how many times in a row the connection closed without a response. `None` if the
    /// connection is not closed, or if the number is 0. A number above 0 means that the server is
    /// down or refuses the connection.
    pub(super) fn closed_failures(&self) -> Option<u32> {
        (matches!(self.link, Link::Closed) && self.failures > 0).then_some(self.failures)
    }

    /// Sends a request that a connection took at `now_ns`. The connection must have room for the
    /// request. Returns the request's token, or `None` if it failed immediately.
    pub(super) fn send(&mut self, due: Due, now_ns: u64, context: &mut Context) -> Option<Token> {
        let query = due.slot().query;
        let opened = !matches!(self.link, Link::Open { .. });
        let token = self.flights.insert(due.taken(now_ns, opened, context.crowd));
        if matches!(self.link, Link::Closed) {
            self.open(0, context);
        }
        let (Link::Connecting { session, .. } | Link::Open { session, .. }) = &mut self.link else {
            return None;
        };
        session.send(query, token as Token, &mut self.out);
        self.unsent.push_back((token as Token, self.written + self.out.bytes.len() as u64));
        if !self.batches(now_ns, context) {
            self.flush(context);
            self.settle_at_once(context);
        }
        Some(token as Token)
    }

    /// Adds the latest request to a batch. Returns true if the batch waits for further requests.
    fn batches(&mut self, now_ns: u64, context: &mut Context) -> bool {
        let Batch::Within { wait_ns, most } = context.task.sessions.protocol.batch else {
            return false;
        };
        self.batched += 1;
        if self.batched == 1 {
            self.batch_until_ns = now_ns.saturating_add(wait_ns);
            context.batches.push_back((self.batch_until_ns, self.id));
        }
        self.batched < most
    }

    /// Writes the batch that is due at this time, unless it has already been written.
    pub(super) fn end_batch(&mut self, until_ns: u64, context: &mut Context) {
        if self.batched > 0 && self.batch_until_ns == until_ns {
            self.flush(context);
            self.settle_at_once(context);
        }
    }

    /// Opens a connection to the first address that accepts one, starting with the address at index
    /// `first`. If no address accepts the connection, all requests fail.
    fn open(&mut self, first: usize, context: &mut Context) {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in first..context.task.addresses.len() {
            let datagrams = context.task.sessions.datagrams();
            let kept = self.kept.take();
            let watched = kept.is_some();
            let wire = match &context.task.bypass {
                Some(bypass) => kept.map_or_else(|| Wire::past_stack(bypass), Ok),
                None => {
                    let nagle = context.task.sessions.protocol.batch == Batch::Nagle;
                    Wire::connect(context.task.addresses[address], datagrams, nagle)
                }
            };
            let connecting = wire.and_then(|mut wire| {
                // At this point, enable timestamps only on datagram sockets, because a stream
                // socket must be connected first.
                if let Some(stamps) = context.stamps.as_ref().filter(|_| datagrams) {
                    wire.stamp(stamps.layer())?;
                }
                let id = self.id as u64;
                if watched {
                    context.poller.modify(&wire, id, true)?;
                    return Ok(wire);
                }
                context.poller.add(&wire, id, true)?;
                if let Some(stack) = wire.stack() {
                    context.poller.add(stack, id, false)?;
                }
                Ok(wire)
            });
            match connecting {
                Ok(wire) => {
                    self.watched = true;
                    let session = match std::mem::replace(&mut self.link, Link::Closed) {
                        // Requests that were meant for the previous address are sent to this one.
                        Link::Connecting { session, .. } => session,
                        _ => context.task.sessions.open(),
                    };
                    self.link = Link::Connecting { wire, session, address };
                    return;
                }
                Err(error) => failure = error,
            }
        }
        self.close(&Fault::connect(failure), context);
    }

    pub(super) fn ready(&mut self, readable: bool, context: &mut Context) {
        if matches!(self.link, Link::Closed) {
            self.discard(context);
        } else if let Link::Connecting { wire, address, .. } = &self.link {
            let (connected, address) = (wire.connected(), *address);
            match connected {
                Ok(()) => self.connected(context),
                Err(error) if address + 1 == context.task.addresses.len() => {
                    self.close(&Fault::connect(error), context);
                }
                Err(_) => self.open(address + 1, context),
            }
        } else if readable {
            self.receive(context);
        } else {
            self.flush(context);
        }
    }

    fn connected(&mut self, context: &mut Context) {
        if let Link::Connecting { mut wire, session, .. } =
            std::mem::replace(&mut self.link, Link::Closed)
        {
            if let Some(stamps) = &context.stamps
                && !context.task.sessions.datagrams()
            {
                // If this fails, the reported coverage shows that timestamps are missing.
                let _ = wire.stamp(stamps.layer());
            }
            context.record.connects += 1;
            self.link = Link::Open { wire, session };
            self.flush(context);
            self.settle_at_once(context);
        }
    }

    /// Writes pending output. The rest is written when the system accepts more data.
    fn flush(&mut self, context: &mut Context) {
        let Link::Open { wire, .. } = &mut self.link else { return };
        self.batched = 0;
        match wire.write(&mut self.out.bytes) {
            Ok(count) => self.written += count as u64,
            Err(error) => return self.close(&Fault::of(error), context),
        }
        let blocked = !self.out.bytes.is_empty() || wire.unsent();
        if blocked != self.watched
            && let Err(error) = context.poller.modify(&*wire, self.id as u64, blocked)
        {
            return self.close(&Fault::Io(error.into()), context);
        }
        self.watched = blocked;
        self.record_sent(context);
    }

    fn record_sent(&mut self, context: &mut Context) {
        if matches!(&self.link, Link::Open { session, .. } if session.holds()) {
            return;
        }
        let now_ns = context.task.clock.elapsed_ns();
        while let Some(&(token, end)) = self.unsent.front()
            && end <= self.written
        {
            self.unsent.pop_front();
            if context.stamps.is_some() {
                let number = if context.task.sessions.datagrams() {
                    self.datagrams = self.datagrams.wrapping_add(1);
                    self.datagrams.wrapping_sub(1)
                } else {
                    // The kernel counts bytes in 32 bits.
                    end.wrapping_sub(1) as u32
                };
                push_tx_pending(&mut self.tx_pending, number, token);
            }
            if let Some(flight) = self.flights.get_mut(token as usize) {
                context.record.sent_again += u64::from(!flight.is_first());
                flight.sent_ns.get_or_insert(now_ns);
                if context.task.bypass.is_some() {
                    flight.left.get_or_insert(Departure { stamp_ns: now_ns, at_ns: now_ns });
                }
            }
        }
    }

    fn record_left(&mut self, context: &mut Context) {
        let (Link::Open { wire, .. }, Some(stamps)) = (&self.link, context.stamps.as_mut()) else {
            return;
        };
        stamps.keep_up();
        let now_ns = context.task.clock.elapsed_ns();
        let (tx_pending, flights) = (&mut self.tx_pending, &mut self.flights);
        // An empty queue is not an error. After any other error, timestamps are missing from the
        // reported coverage.
        let _ = wire.left(&mut context.scratch, |number, stamp_ns| {
            let token = take_tx_pending(tx_pending, number);
            if let Some(flight) = token.and_then(|token| flights.get_mut(token as usize))
                && flight.left.is_none()
            {
                let at_ns = stamps.since_epoch_ns(stamp_ns, flight.taken_ns, now_ns);
                flight.left = at_ns.map(|at_ns| Departure { stamp_ns, at_ns });
            }
        });
    }

    fn receive(&mut self, context: &mut Context) {
        self.record_left(context);
        for _ in 0..READS_MAX {
            let Link::Open { wire, session } = &mut self.link else { return };
            let found = wire.read(&mut self.input, &mut context.scratch);
            // Read the clock before parsing, because the time that parsing takes must not count as
            // the server's.
            let now_ns = context.task.clock.elapsed_ns();
            let fault = match found {
                Ok(Found::Nothing) => return,
                Ok(Found::Bytes(_)) => {
                    let held = session.holds();
                    let done = session.receive(&mut self.input, &mut self.out);
                    if held && !session.holds() {
                        // The output now contains the requests that the session had held back.
                        let end = self.written + self.out.bytes.len() as u64;
                        self.unsent.iter_mut().for_each(|unsent| unsent.1 = end);
                    }
                    done.err()
                }
                Ok(Found::End) => Some(session.end(&mut self.out)),
                Err(error) => Some(session.cut(Fault::of(error))),
            };
            let reusable = session.reusable();
            if context.stamps.as_ref().is_some_and(|of| of.layer() == Layer::Hardware) {
                // A device delivers a send timestamp later than the kernel does, often just before
                // the response.
                self.record_left(context);
            }
            self.settle(now_ns, context);
            if let Some(fault) = fault {
                if matches!(fault, Fault::Surplus) && self.flights.is_empty() && self.last_good {
                    context.record.unasked += 1;
                }
                return self.close(&fault, context);
            }
            if !reusable && self.flights.is_empty() {
                return self.close(&Fault::Closed, context);
            }
            if !self.out.bytes.is_empty() && self.batched == 0 {
                self.flush(context);
            }
        }
    }

    fn settle(&mut self, done_ns: u64, context: &mut Context) {
        let came = context.scratch.received_ns.zip(context.stamps.as_ref());
        for reply in self.out.replies.drain(..) {
            // A request that has expired is no longer in flight.
            let Some(flight) = self.flights.try_remove(reply.token as usize) else { continue };
            if flight.can_resend(&reply.result) {
                context.resends.push(flight);
                continue;
            }
            if reply.result.is_ok() {
                (self.responded, self.failures) = (true, 0);
            }
            let left = flight.left;
            let outcome = flight.complete(done_ns, reply.result);
            self.last_good = outcome.good();
            let came_ns = match came {
                Some((stamp_ns, stamps)) => {
                    stamps.came_ns(stamp_ns, left, outcome.taken_ns, done_ns)
                }
                // With the bypass, there is no network stack between the wire and this program.
                None => context.scratch.bypassed.then_some(done_ns),
            };
            context.outcomes.push(Outcome { came_ns, ..outcome });
        }
    }

    fn settle_at_once(&mut self, context: &mut Context) {
        let Link::Open { session, .. } = &mut self.link else { return };
        if self.out.replies.is_empty() {
            return;
        }
        let reusable = session.reusable();
        // The kernel has received no packet that it could have timestamped.
        (context.scratch.received_ns, context.scratch.bypassed) = (None, false);
        self.settle(context.task.clock.elapsed_ns(), context);
        if !reusable && self.flights.is_empty() {
            self.close(&Fault::Closed, context);
        }
    }

    pub(super) fn expire(&mut self, token: Token, context: &mut Context) {
        let expired = self.flights.remove(token as usize);
        let now_ns = context.task.clock.elapsed_ns();
        let wait = match &self.link {
            Link::Connecting { .. } => Wait::Opening,
            Link::Open { session, .. } if session.holds() => Wait::Agreeing,
            _ => Wait::Response,
        };
        context.outcomes.push(expired.complete(now_ns, Err(Fault::Timeout(wait))));
        let usable = match &mut self.link {
            Link::Open { session, .. } => session.abandon(token, &mut self.out),
            // An address that does not respond is abandoned once its last request has timed out.
            Link::Connecting { session, .. } if !self.flights.is_empty() => {
                session.abandon(token, &mut self.out)
            }
            Link::Connecting { .. } | Link::Closed => false,
        };
        if usable {
            // The next request may reuse the token.
            self.unsent.retain(|(unsent, _)| *unsent != token);
            self.tx_pending.retain(|(_, pending)| *pending != token);
            self.flush(context);
            self.settle_at_once(context);
        } else {
            // All other requests on the connection also fail.
            self.close(&Fault::Closed, context);
        }
    }

    /// Reports all requests as unfinished, because the run is ending.
    pub(super) fn cut(&mut self, now_ns: u64, outcomes: &mut Vec<Outcome>) {
        outcomes.extend(self.flights.drain().map(|flight| flight.unfinished(now_ns)));
    }

    /// Discards data that arrives after the close (late responses, or another refusal). Otherwise
    /// the poller would report it repeatedly.
    fn discard(&mut self, context: &mut Context) {
        let Some(wire) = &mut self.kept else { return };
        for _ in 0..READS_MAX {
            if matches!(wire.read(&mut self.input, &mut context.scratch), Ok(Found::Nothing)) {
                break;
            }
        }
        self.input.clear();
    }

    /// Releases the socket of a closed connection. Keeps a socket that bypasses the stack, unless
    /// that socket failed. Opening a new one takes milliseconds, and it fails while the kernel is
    /// still closing the old one.
    fn release(&mut self, wire: Wire, fault: &Fault, context: &Context) {
        let Some(stack) = wire.stack() else { return };
        let failed = matches!(fault, Fault::Io(_));
        if !failed && context.poller.modify(&wire, self.id as u64, false).is_ok() {
            self.kept = Some(wire);
        } else {
            // The stack socket exists longer than the wire, and nothing reads from it until the
            // next connection is opened. The poller must therefore not watch it.
            let _ = context.poller.remove(stack);
        }
    }

    fn close(&mut self, fault: &Fault, context: &mut Context) {
        self.last_good = false;
        if !std::mem::take(&mut self.responded) {
            self.failures = self.failures.saturating_add(1);
        }
        if let Link::Connecting { wire, .. } | Link::Open { wire, .. } =
            std::mem::replace(&mut self.link, Link::Closed)
        {
            self.release(wire, fault, context);
        }
        self.input.clear();
        self.out.bytes.clear();
        self.out.replies.clear();
        self.unsent.clear();
        self.tx_pending.clear();
        (self.written, self.batched, self.datagrams, self.watched) = (0, 0, 0, false);
        let now_ns = context.task.clock.elapsed_ns();
        for flight in self.flights.drain() {
            context.outcomes.push(flight.complete(now_ns, Err(fault.clone())));
        }
    }
}

/// Adds a request that was written. Drops the oldest request if no timestamps arrive.
fn push_tx_pending(tx_pending: &mut VecDeque<(u32, Token)>, number: u32, token: Token) {
    if tx_pending.len() >= TX_PENDING_MAX {
        tx_pending.pop_front();
    }
    tx_pending.push_back((number, token));
}

/// Removes and returns the request with this number. Devices can deliver timestamps slightly out of
/// order. Much older requests are dropped, because their timestamps will never arrive.
fn take_tx_pending(tx_pending: &mut VecDeque<(u32, Token)>, number: u32) -> Option<Token> {
    let at = tx_pending.iter().position(|(pending, _)| *pending == number)?;
    let token = tx_pending.remove(at).map(|(_, token)| token);
    tx_pending.drain(..at.saturating_sub(TX_REORDERED_MAX));
    token
}

#[cfg(test)]
mod tests;
