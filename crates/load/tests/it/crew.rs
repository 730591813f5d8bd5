//! Real agents and scripted agents on loopback.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use curtail_load::Report;
use curtail_load::agents::{Agents, AgentsError, Event, Token, run, serve};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// An agent in this process. It stops when this value is dropped.
pub(crate) struct Agent {
    pub(crate) address: String,
    pub(crate) events: mpsc::Receiver<Event>,
    end: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Agent {
    pub(crate) async fn start(token: Option<&str>) -> Agent {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let token = token.map(|token| Token::new(token).unwrap());
        let (send, events) = mpsc::channel(100);
        let send = move |event| send.try_send(event).expect("a test has few events");
        let end = Arc::new(Notify::new());
        let ended = Arc::clone(&end);
        let stop = async move { ended.notified().await };
        let task = tokio::spawn(serve(listener, token, stop, send));
        Agent { address, events, end, task }
    }

    /// Stops the agent as SIGTERM would.
    pub(crate) fn end(&self) {
        self.end.notify_one();
    }

    /// Stops the agent as SIGKILL would, which closes its connections.
    pub(crate) fn kill(&self) {
        self.task.abort();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts an agent that sends the given list of messages in response to each message.
pub(crate) async fn scripted(answers: Vec<Vec<Value>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for answers in answers {
            if receive(&mut stream).await.is_none() {
                return;
            }
            for answer in answers {
                send(&mut stream, &answer).await;
            }
        }
        while receive(&mut stream).await.is_some() {}
    });
    address
}

/// Returns the next message on a connection. Returns `None` if the connection has ended.
pub(crate) async fn receive(stream: &mut TcpStream) -> Option<Value> {
    let length = stream.read_u32().await.ok()?;
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

pub(crate) async fn send(stream: &mut TcpStream, value: &Value) {
    let bytes = serde_json::to_vec(value).unwrap();
    stream.write_u32(bytes.len() as u32).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
}

pub(crate) fn agents<'a>(addresses: impl IntoIterator<Item = &'a String>) -> Agents {
    Agents { addresses: addresses.into_iter().cloned().collect(), token: None }
}

pub(crate) async fn measured(
    plan: &curtail_load::Plan,
    of: &Agents,
) -> Result<Report, AgentsError> {
    run(plan, of, pending(), |_| {}).await
}

pub(crate) fn unused_address() -> SocketAddr {
    // The system never assigns port 1.
    "127.0.0.1:1".parse().unwrap()
}
