//! Relays the body of a response, so that its copy keeps its slot until the server has sent it.
//!
//! The caller of the query polls the body. If the caller drops it, the kernel decides whether the
//! copy is stopped, which drops the body of the server's response; otherwise the rest is read and
//! discarded. Cost: a lock per frame.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use curtail_kernel::Outcome;
use curtail_runtime::{CopyContext, Failure, Head, TailEnd};
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use super::body::{Body, BoxBody, Kind, Polled};
use crate::error::BoxError;
use crate::outcome;

/// A response that is there already and has up to this many bytes counts only once it is complete.
const WHOLE_BYTES: usize = 64 << 10;

/// Time between two reports to the kernel that the copy makes progress. Cancel timeouts are longer.
const PROGRESS: Duration = Duration::from_millis(50);

/// Makes the head of a response, for [`Builder::streaming`](crate::Builder::streaming). The copy ends
/// with the body. If the whole body has arrived with the head, the trailers of gRPC decide whether the
/// response wins.
#[must_use]
pub fn relay(
    response: Response<Body>,
    outcome: Outcome,
    copy: CopyContext,
) -> Head<Response<Body>> {
    let (parts, body) = response.into_parts();
    let body = if body.is_whole() { body } else { Body::read_ahead(body, WHOLE_BYTES) };
    if body.is_whole() {
        let outcome = body.whole_trailers().and_then(outcome::call).unwrap_or(outcome);
        return Head { outcome, ..Head::whole(Response::from_parts(parts, body)) };
    }
    let state = State {
        body: Some(Box::pin(body)),
        end: None,
        bytes: 0,
        unwanted: false,
        reader: None,
        tail: None,
    };
    let shared = Arc::new(Mutex::new(state));
    let rest =
        Rest { shared: Arc::clone(&shared), copy, is_wanted: true, progress: Instant::now() };
    let body = Body(Kind::Streaming(Box::pin(Relayed { shared })));
    let head = Head::streaming(Response::from_parts(parts, body), Box::pin(rest));
    Head { outcome, ..head }
}

struct State {
    /// `None` after its end, or once the copy was stopped.
    body: Option<BoxBody>,
    end: Option<Result<TailEnd, Failure>>,
    bytes: u64,
    /// The caller has dropped the response.
    unwanted: bool,
    reader: Option<Waker>,
    tail: Option<Waker>,
}

impl State {
    /// Polls the body, and notes its end.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Polled {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = std::task::ready!(body.as_mut().poll_frame(context));
        let mut outcome = None;
        let ends = match &frame {
            None => true,
            Some(Err(_)) => {
                self.end = Some(Err(Failure::Incomplete));
                true
            }
            Some(Ok(frame)) => {
                self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                outcome = frame.trailers_ref().and_then(outcome::call);
                frame.is_trailers() || body.is_end_stream()
            }
        };
        if ends {
            self.body = None;
            self.end.get_or_insert(Ok(TailEnd { outcome, bytes: self.bytes }));
            self.tail.take().map(Waker::wake).unwrap_or_default();
        }
        Poll::Ready(frame)
    }
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body for the caller.
struct Relayed {
    shared: Arc<Mutex<State>>,
}

impl HttpBody for Relayed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        let mut state = lock(&self.shared);
        if state.body.is_none() && state.end.is_none() {
            return Poll::Ready(Some(Err(BoxError::from(Failure::GivenUp))));
        }
        let frame: Polled = state.poll_frame(context);
        if frame.is_pending() {
            state.reader = Some(context.waker().clone());
        }
        frame
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.shared).body.as_ref().map_or(SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        // The cell may drop this while it is locked, so the cell is not called here.
        let mut state = lock(&self.shared);
        state.unwanted = true;
        if let Some(tail) = state.tail.take() {
            tail.wake();
        }
    }
}

/// The rest of the response, for the cell.
struct Rest {
    shared: Arc<Mutex<State>>,
    copy: CopyContext,
    /// Whether the caller still wants the response, as far as the cell has been informed.
    is_wanted: bool,
    /// When progress was last reported.
    progress: Instant,
}

impl Future for Rest {
    type Output = Result<TailEnd, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let mut state = lock(&this.shared);
            if let Some(end) = state.end {
                return Poll::Ready(end);
            }
            if !state.unwanted {
                state.tail = Some(context.waker().clone());
                return Poll::Pending;
            }
            if std::mem::take(&mut this.is_wanted) {
                drop(state);
                // The server is still busy. The kernel decides whether to stop it.
                this.copy.unwanted();
                continue;
            }
            let polled: Poll<Option<Result<Frame<Bytes>, BoxError>>> = state.poll_frame(context);
            drop(state);
            if polled.is_pending() {
                return Poll::Pending;
            }
            if this.progress.elapsed() >= PROGRESS {
                this.progress = Instant::now();
                this.copy.progress();
            }
        }
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        let (body, reader) = {
            let mut state = lock(&self.shared);
            (state.body.take(), state.reader.take())
        };
        // It may call back, so it is dropped outside of the lock.
        drop(body);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}
