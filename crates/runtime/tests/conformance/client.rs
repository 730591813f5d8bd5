//! The client of a query: a task that polls the query, as the task of a connection does.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use curtail_runtime::http::{Http, Response};
use curtail_runtime::{QueryError, QueryResponse, Reply};

type QueryResult = Result<QueryResponse<Response>, QueryError<Response>>;

enum State {
    Waits(Reply<Http>),
    Got(QueryResult),
    Left,
}

pub struct Client(Arc<Mutex<State>>);

impl Client {
    pub fn start(reply: Reply<Http>) -> Self {
        let state = Arc::new(Mutex::new(State::Waits(reply)));
        let shared = Arc::clone(&state);
        tokio::spawn(poll_fn(move |context| {
            let mut state = shared.lock().unwrap();
            let State::Waits(reply) = &mut *state else { return Poll::Ready(()) };
            let Poll::Ready(result) = Pin::new(reply).poll(context) else { return Poll::Pending };
            *state = State::Got(result);
            Poll::Ready(())
        }));
        Self(state)
    }

    /// The client leaves now, and not only when its task is polled.
    pub fn leave(self) {
        *self.0.lock().unwrap() = State::Left;
    }

    pub fn has_result(&self) -> bool {
        matches!(*self.0.lock().unwrap(), State::Got(_))
    }

    pub fn result(self) -> Option<QueryResult> {
        match std::mem::replace(&mut *self.0.lock().unwrap(), State::Left) {
            State::Got(result) => Some(result),
            State::Waits(_) | State::Left => None,
        }
    }
}
