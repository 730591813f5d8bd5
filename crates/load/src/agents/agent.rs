//! An agent: lets coordinators in, one at a time.

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
use super::message::{CURTAIL, Hello, PROTOCOL, Refusal, Told};
use super::session::{self, Over, Turn};
use super::{GREETING, Token};

/// Most connections at once. Others wait to be accepted.
const CONVERSATIONS_MAX: usize = 16;
/// Without room for a connection, it is looked for again so much later.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What an agent does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts say what the fields are")]
#[non_exhaustive]
pub enum Event {
    /// A run began.
    Began { by: SocketAddr, target: String },
    /// A run ended, or was never begun; why, if not as planned.
    Ended { by: SocketAddr, why: Option<String> },
    /// Somebody was not let in.
    TurnedAway { by: SocketAddr, why: &'static str },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Began { by, target } => write!(f, "{by}: a load to {target} begins"),
            Event::Ended { by, why: None } => write!(f, "{by}: the load has ended"),
            Event::Ended { by, why: Some(why) } => write!(f, "{by}: the load is over: {why}"),
            Event::TurnedAway { by, why } => write!(f, "{by} was turned away: {why}"),
        }
    }
}

/// What all conversations of an agent share.
struct Shared {
    token: Option<Token>,
    busy: Arc<Mutex<()>>,
    tell: Box<dyn Fn(Event) + Send + Sync>,
    /// The agent is to end.
    ending: CancellationToken,
}

/// Runs what coordinators ask for, one run at a time, until `stop` resolves: a run that goes on is ended then.
/// A run ends as well when its coordinator is gone. With a token, nobody is let in without it.
///
/// # Panics
///
/// Outside of a tokio runtime with time and I/O enabled.
pub async fn serve(
    listener: TcpListener,
    token: Option<Token>,
    stop: impl Future<Output = ()>,
    tell: impl Fn(Event) + Send + Sync + 'static,
) {
    let (busy, ending) = (Arc::default(), CancellationToken::new());
    let shared = Arc::new(Shared { token, busy, tell: Box::new(tell), ending });
    let mut conversations = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(ended) = conversations.join_next() => rethrow(ended),
            accepted = listener.accept(), if conversations.len() < CONVERSATIONS_MAX => match accepted {
                Ok((stream, by)) => {
                    let shared = Arc::clone(&shared);
                    conversations.spawn(async move { converse(&shared, stream, by).await });
                }
                // Descriptors are short, or the other side has gone already.
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            },
        }
    }
    shared.ending.cancel();
    while let Some(ended) = conversations.join_next().await {
        rethrow(ended);
    }
}

/// A panic of a conversation is one of the agent.
fn rethrow(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && let Ok(cause) = error.try_into_panic()
    {
        std::panic::resume_unwind(cause);
    }
}

async fn converse(shared: &Shared, stream: TcpStream, by: SocketAddr) {
    // Without it pongs may wait for acknowledgments; where it cannot be had, they do.
    let _ = stream.set_nodelay(true);
    let (read, mut write) = stream.into_split();
    let mut frames = Frames::new(read);
    let admitted = tokio::select! {
        admitted = greet(shared, &mut frames, &mut write) => admitted,
        () = shared.ending.cancelled() => return,
    };
    let turn = match admitted {
        Ok(turn) => turn,
        Err(why) => return (shared.tell)(Event::TurnedAway { by, why }),
    };
    frames.allow(ORDER_BYTES_MAX);
    let began = |target: String| (shared.tell)(Event::Began { by, target });
    let ended = session::run(frames, write, turn, &shared.ending, began).await;
    let why = match ended {
        Ok(()) => None,
        Err(Over::Frame(FrameError::Closed)) => Some("the coordinator is gone".to_owned()),
        Err(why) => Some(why.to_string()),
    };
    (shared.tell)(Event::Ended { by, why });
}

/// Lets a coordinator in, or says why not.
async fn greet(
    shared: &Shared,
    frames: &mut Frames,
    write: &mut OwnedWriteHalf,
) -> Result<Turn, &'static str> {
    let hello: Hello =
        frames.next_within(GREETING).await.map_err(|_| "it is no coordinator of curtail load")?;
    let admitted = admit(shared, &hello);
    let reply = match &admitted {
        Ok(_) => Told::Welcome,
        Err((_, refusal)) => Told::Refused(refusal.clone()),
    };
    let sent = send(write, &reply, GREETING_BYTES_MAX, GREETING).await;
    let turn = admitted.map_err(|(why, _)| why)?;
    sent.map_err(|_| "it has gone away").map(|()| turn)
}

fn admit(shared: &Shared, hello: &Hello) -> Result<Turn, (&'static str, Refusal)> {
    if hello.protocol != PROTOCOL {
        let version = Refusal::Version { protocol: PROTOCOL, curtail: CURTAIL.to_owned() };
        return Err(("it speaks another version", version));
    }
    let told = hello.token.as_deref().unwrap_or_default();
    if shared.token.as_ref().is_some_and(|token| !token.admits(told)) {
        return Err(("it has not the token", Refusal::Token));
    }
    let turn = Arc::clone(&shared.busy).try_lock_owned();
    turn.map_err(|_| ("there is a run", Refusal::Busy))
}
