//! An agent, which admits coordinators and carries out one run at a time.

use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::frame::{FrameError, Frames, GREETING_BYTES_MAX, ORDER_BYTES_MAX, send};
use super::message::{CURTAIL, Hello, PROTOCOL, Refusal, Update};
use super::session::{self, Permit, RunError};
use super::{GREETING, Token};

/// Maximum number of connections. Further connections wait in the listen backlog.
const CONNECTIONS_MAX: usize = 16;
/// The pause after a failed accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// An event that an agent reports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the messages document the fields")]
#[non_exhaustive]
pub enum Event {
    /// A run began.
    Began { by: SocketAddr, target: String },
    /// A run has ended, or it could not begin. `why` is `None` if the run went as planned.
    Ended { by: SocketAddr, why: Option<String> },
    /// A connection was refused.
    TurnedAway { by: SocketAddr, why: &'static str },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Began { by, target } => write!(f, "{by}: a run against {target} has begun"),
            Event::Ended { by, why: None } => write!(f, "{by}: the run has ended"),
            Event::Ended { by, why: Some(why) } => write!(f, "{by}: the run ended early: {why}"),
            Event::TurnedAway { by, why } => write!(f, "{by} was refused: {why}"),
        }
    }
}

/// State that all connections of an agent share.
struct Shared {
    token: Option<Token>,
    busy: Arc<Mutex<()>>,
    notify: Box<dyn Fn(Event) + Send + Sync>,
    /// Cancelled when the agent shuts down.
    shutdown: CancellationToken,
}

/// Runs coordinators' plans, one at a time, until `stop` resolves. The current run also ends when
/// `stop` resolves, or earlier if its coordinator closes the connection. If a token is set, every
/// coordinator must send it.
///
/// # Panics
///
/// Panics outside of a tokio runtime with time and I/O enabled.
pub async fn serve(
    listener: TcpListener,
    token: Option<Token>,
    stop: impl Future<Output = ()>,
    notify: impl Fn(Event) + Send + Sync + 'static,
) {
    let (busy, shutdown) = (Arc::default(), CancellationToken::new());
    let shared = Arc::new(Shared { token, busy, notify: Box::new(notify), shutdown });
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(ended) = connections.join_next() => rethrow(ended),
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, by)) => {
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move { converse(&shared, stream, by).await });
                }
                // Either no file descriptor is free, or the peer has already closed the connection.
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            },
        }
    }
    shared.shutdown.cancel();
    while let Some(ended) = connections.join_next().await {
        rethrow(ended);
    }
}

/// Propagates a panic from a connection's task.
fn rethrow(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && let Ok(cause) = error.try_into_panic()
    {
        std::panic::resume_unwind(cause);
    }
}

async fn converse(shared: &Shared, stream: TcpStream, by: SocketAddr) {
    // Without this option, the system could hold a pong back until the previous one is
    // acknowledged. If setting the option fails, the clock comparison is less exact, but the run
    // can continue.
    let _ = stream.set_nodelay(true);
    let (read, mut write) = stream.into_split();
    let mut frames = Frames::new(read);
    let admitted = tokio::select! {
        admitted = greet(shared, &mut frames, &mut write) => admitted,
        () = shared.shutdown.cancelled() => return,
    };
    let permit = match admitted {
        Ok(permit) => permit,
        Err(why) => return (shared.notify)(Event::TurnedAway { by, why }),
    };
    frames.allow(ORDER_BYTES_MAX);
    let began = |target: String| (shared.notify)(Event::Began { by, target });
    let ended = session::run(frames, write, permit, &shared.shutdown, began).await;
    let why = match ended {
        Ok(()) => None,
        Err(RunError::Frame(FrameError::Closed)) => {
            Some("the coordinator closed the connection".to_owned())
        }
        Err(why) => Some(why.to_string()),
    };
    (shared.notify)(Event::Ended { by, why });
}

/// Admits a coordinator, or returns the reason for refusing it.
async fn greet(
    shared: &Shared,
    frames: &mut Frames,
    write: &mut OwnedWriteHalf,
) -> Result<Permit, &'static str> {
    let hello: Hello = frames
        .next_within(GREETING)
        .await
        .map_err(|_| "it is not a coordinator of curtail load")?;
    let admitted = admit(shared, &hello);
    let reply = match &admitted {
        Ok(_) => Update::Welcome,
        Err((_, refusal)) => Update::Refused(refusal.clone()),
    };
    let sent = send(write, &reply, GREETING_BYTES_MAX, GREETING).await;
    let permit = admitted.map_err(|(why, _)| why)?;
    sent.map_err(|_| "it closed the connection").map(|()| permit)
}

fn admit(shared: &Shared, hello: &Hello) -> Result<Permit, (&'static str, Refusal)> {
    if hello.protocol != PROTOCOL {
        let version = Refusal::Version { protocol: PROTOCOL, curtail: CURTAIL.to_owned() };
        return Err(("it uses another version of the protocol", version));
    }
    let given = hello.token.as_deref().unwrap_or_default();
    if shared.token.as_ref().is_some_and(|token| !token.admits(given)) {
        return Err(("its token is missing or wrong", Refusal::Token));
    }
    let permit = Arc::clone(&shared.busy).try_lock_owned();
    permit.map_err(|_| ("another run is in progress", Refusal::Busy))
}
