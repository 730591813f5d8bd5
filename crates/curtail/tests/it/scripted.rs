//! Services whose servers follow a script.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use curtail::{Builder, Curtail, Timers};
use tower::Service;

/// What a server does with its next request. The last act of a script is repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Responds after this time, in ms.
    Respond(u64),
    /// Responds with a text that the tests classify as a failure.
    Refuse,
    /// Fails after it has received the request.
    Fail,
    /// Is never ready, so the request is not sent.
    Unready,
    /// Does not become ready.
    NeverReady,
    Hang,
}

/// A request that cannot be cloned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unclonable(pub(crate) &'static str);

/// The error of a scripted server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it broke")
    }
}

impl std::error::Error for Broken {}

#[derive(Clone)]
pub(crate) struct Server {
    acts: Arc<Mutex<VecDeque<Act>>>,
    received: Arc<Mutex<u32>>,
    abandoned: Arc<Mutex<u32>>,
}

impl Server {
    pub(crate) fn new(acts: &[Act]) -> Self {
        let acts = Arc::new(Mutex::new(acts.iter().copied().collect()));
        Self { acts, received: Arc::default(), abandoned: Arc::default() }
    }

    /// Whether both are the same server.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.acts, &other.acts)
    }

    /// The number of requests that it has received.
    pub(crate) fn received(&self) -> u32 {
        *self.received.lock().unwrap()
    }

    /// The number of requests whose futures were dropped before their responses.
    pub(crate) fn abandoned(&self) -> u32 {
        *self.abandoned.lock().unwrap()
    }

    fn next(&self, peek: bool) -> Act {
        let mut acts = self.acts.lock().unwrap();
        let act = *acts.front().expect("a script");
        if !peek && acts.len() > 1 {
            acts.pop_front();
        }
        act
    }
}

struct OnDrop(Option<Arc<Mutex<u32>>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(count) = &self.0 {
            *count.lock().unwrap() += 1;
        }
    }
}

impl<R: Send + 'static> Service<R> for Server {
    type Response = &'static str;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<&'static str, Broken>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        match self.next(true) {
            Act::Unready => {
                self.next(false);
                Poll::Ready(Err(Broken))
            }
            Act::NeverReady => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, _: R) -> Self::Future {
        *self.received.lock().unwrap() += 1;
        let act = self.next(false);
        let on_drop = OnDrop(Some(Arc::clone(&self.abandoned)));
        Box::pin(async move {
            let mut on_drop = on_drop;
            let result = match act {
                Act::Respond(ms) => {
                    tokio::time::sleep(Duration::from_millis(ms)).await; // tidy: real time (it is paused)
                    Ok("fine")
                }
                Act::Refuse => Ok("refused"),
                Act::Fail => Err(Broken),
                Act::Unready | Act::NeverReady | Act::Hang => std::future::pending().await,
            };
            on_drop.0 = None;
            result
        })
    }
}

/// A builder of one shard, `a`, with the servers `a0`, `a1`, … It uses tokio's clock.
pub(crate) fn builder<R: Send + 'static>(servers: &[&Server]) -> Builder<Server, R> {
    let named =
        servers.iter().enumerate().map(|(at, server)| (format!("a{at}"), (*server).clone()));
    Curtail::builder().shard("a", named).timers(Timers::tokio())
}

/// A service that responds with its request.
pub(crate) fn echo() -> Echo {
    Echo
}

#[derive(Clone)]
pub(crate) struct Echo;

impl Service<String> for Echo {
    type Response = String;
    type Error = Infallible;
    type Future = Ready<Result<String, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: String) -> Self::Future {
        ready(Ok(request))
    }
}
