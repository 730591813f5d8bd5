//! A bounded buffer for a body between the task that reads it and the task that consumes it, which
//! are usually the same.
//!
//! The end of the body is kept beside the pieces. A slow consumer therefore does not hold the slot of
//! a server that has sent everything that the buffer can hold.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use curtail_http::Pieces;
use http::HeaderMap;

use super::budget::{Budget, Charge};
use crate::failure::Failure;
use crate::transport::CopyDriver;
use crate::waker;

/// The trailers of a complete body, or the reason why the body is incomplete.
type End = Result<Option<Box<HeaderMap>>, Failure>;

#[derive(Debug)]
struct State {
    pieces: Pieces,
    /// Number of bytes that the receiver took last, which it may still hold.
    taken: usize,
    /// Counts both.
    charge: Charge,
    end: Option<End>,
    sender_gone: bool,
    receiver_gone: bool,
    /// Whether the receiver polls the copy, and will do so again before it waits.
    is_attached: bool,
    /// Whether the sender had room when it was polled last, and nothing to send since then.
    is_drained: bool,
    /// Woken when there is something to receive.
    receiver: Option<Waker>,
    /// Woken when there is room, or when the receiver is gone.
    sender: Option<Waker>,
}

#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives the body of a response. It polls the copy whose response this is, so the copy makes
/// progress only while this is polled. Dropping it lets the copy run on in a task of its own.
pub struct BodyReceiver {
    shared: Shared,
    copy: Option<CopyDriver>,
}

impl fmt::Debug for BodyReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyReceiver")
    }
}

/// The other end of a [`BodyReceiver`]. If it is dropped before [`BodySender::end`], the body is
/// incomplete.
#[derive(Debug)]
pub struct BodySender {
    shared: Shared,
    /// Maximum number of bytes in the buffer, except for one piece.
    room: usize,
    budget: Budget,
}

/// Creates a buffer for about `room` bytes, or fewer while the budget is spent.
pub(super) fn pipe(room: usize, budget: &Budget) -> (BodySender, BodyReceiver) {
    let state = State {
        pieces: Pieces::default(),
        taken: 0,
        charge: budget.charge(0),
        end: None,
        sender_gone: false,
        receiver_gone: false,
        is_attached: false,
        is_drained: false,
        receiver: None,
        sender: None,
    };
    let shared = Shared(Arc::new(Mutex::new(state)));
    let sender = BodySender { shared: shared.clone(), room: room.max(1), budget: budget.clone() };
    (sender, BodyReceiver { shared, copy: None })
}

impl State {
    fn count(&mut self) {
        self.charge.set(self.pieces.length() + self.taken);
    }
}

impl BodyReceiver {
    /// Sets the copy that this polls.
    pub(super) fn attach(&mut self, copy: CopyDriver) {
        self.shared.lock().is_attached = true;
        self.copy = Some(copy);
    }

    /// Returns all bytes that have arrived, or `None` after the end of a complete body. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Pieces>, Failure> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Polls for bytes, as [`next`](Self::next) does.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Pieces>, Failure>> {
        let mut pieces = Pieces::default();
        let has_more = ready!(self.poll_into(&mut pieces, context))?;
        Poll::Ready(Ok(has_more.then_some(pieces)))
    }

    /// Polls for bytes, as [`next`](Self::next) does, and puts them in place of `pieces`. Returns false
    /// after the end of a complete body.
    pub fn poll_into(
        &mut self,
        pieces: &mut Pieces,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, Failure>> {
        // The copy must not resume the task that is polling it.
        let unused = self.shared.lock().receiver.take();
        self.poll_copy(context);
        let mut state = self.shared.lock();
        if state.pieces.length() > 0 {
            *pieces = std::mem::take(&mut state.pieces);
            state.taken = pieces.length();
            state.count();
            // A copy that is attached is polled before the receiver waits, so it need not be resumed.
            let sender = state.sender.take_if(|_| self.copy.is_none());
            drop(state);
            waker::resume(sender);
            return Poll::Ready(Ok(true));
        }
        state.taken = 0;
        state.count();
        match &state.end {
            Some(Ok(_)) => Poll::Ready(Ok(false)),
            Some(Err(why)) => Poll::Ready(Err(*why)),
            None if state.sender_gone => Poll::Ready(Err(Failure::Incomplete)),
            None => {
                state.receiver = unused;
                waker::set(&mut state.receiver, context.waker());
                Poll::Pending
            }
        }
    }

    /// Returns whether the copy, after the bytes that [`poll_into`](Self::poll_into) has just returned, waits
    /// for its server. It then resumes the task that polls, so a task that has not waited meanwhile may
    /// wait without another poll.
    pub fn is_drained(&self) -> bool {
        self.copy.is_some() && self.shared.lock().is_drained
    }

    /// Lets the copy fill the buffer, while the bytes that have arrived are being used.
    pub fn advance(&mut self, context: &mut Context<'_>) {
        let mut length = 0;
        while self.copy.is_some() {
            self.poll_copy(context);
            let filled = self.shared.lock().pieces.length();
            if filled == length {
                break;
            }
            length = filled;
        }
    }

    fn poll_copy(&mut self, context: &mut Context<'_>) {
        if let Some(copy) = &mut self.copy
            && copy.poll(context).is_ready()
        {
            self.copy = None;
        }
    }

    /// Returns the trailers, after the end of the body.
    pub fn trailers(&self) -> Option<Box<HeaderMap>> {
        self.shared.lock().end.as_ref().and_then(|end| end.as_ref().ok()?.clone())
    }
}

impl Drop for BodyReceiver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.receiver_gone = true;
        let (sender, pieces) = (state.sender.take(), std::mem::take(&mut state.pieces));
        state.taken = 0;
        state.count();
        drop(state);
        drop(pieces);
        waker::resume(sender);
    }
}

impl BodySender {
    /// Polls for room in the buffer. Returns false if the receiver is gone.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.shared.lock();
        if state.receiver_gone {
            return Poll::Ready(false);
        }
        waker::set(&mut state.sender, context.waker());
        state.is_drained = state.pieces.length() < self.budget.room(self.room);
        if state.is_drained { Poll::Ready(true) } else { Poll::Pending }
    }

    /// Adds a piece. Call it after [`poll_room`](Self::poll_room) has returned true. Returns whether
    /// the receiver will poll the copy again before it waits, so that the copy need not continue now.
    pub fn send(&self, piece: Bytes) -> bool {
        let mut is_attached = false;
        self.tell(|state| {
            state.pieces.push(piece, usize::MAX);
            state.count();
            state.is_drained = false;
            is_attached = state.is_attached;
        });
        is_attached
    }

    /// Sets the end of the body.
    pub fn end(self, end: End) {
        self.tell(|state| state.end = Some(end));
    }

    fn tell(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.shared.lock();
        change(&mut state);
        let receiver = state.receiver.take();
        drop(state);
        waker::resume(receiver);
    }
}

impl Drop for BodySender {
    fn drop(&mut self) {
        self.tell(|state| state.sender_gone = true);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns what polls find while a copy sends two pieces, and whether the copy then waits for its
    /// server alone.
    fn received(room: usize) -> Vec<(Bytes, bool)> {
        let (sender, mut receiver) = pipe(room, &Budget::default());
        let mut unsent = vec![Bytes::from_static(b"two"), Bytes::from_static(b"one")];
        let copy = poll_fn(move |context| {
            while sender.poll_room(context) == Poll::Ready(true)
                && let Some(piece) = unsent.pop()
            {
                sender.send(piece);
            }
            Poll::Pending
        });
        receiver.attach(CopyDriver(Box::pin(copy)));
        let woken = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut found = Vec::new();
        while let Poll::Ready(Ok(Some(pieces))) = receiver.poll_next(&mut context) {
            found.push((pieces.join(), receiver.is_drained()));
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), 0, "it does not resume the task that polls");
        found
    }

    #[test]
    fn a_copy_that_waits_for_room_must_be_polled_and_one_that_waits_for_its_server_need_not() {
        assert_eq!(received(1), [("one".into(), false), ("two".into(), false)]);
        assert_eq!(received(9), [("onetwo".into(), true)]);
    }
}
