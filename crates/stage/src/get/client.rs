//! The client, which is a transport for the runtime. Any policy of the kernel can therefore decide
//! which servers receive copies.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use curtail_kernel::stage::Priority;
use curtail_kernel::{Role, ServerId};
use curtail_runtime::{CopyContext, Failure, Head, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::server::Addresses;
use super::wire::{Get, RESPONSE_BYTES, Request, Response, Status};
use crate::cpu::{Handlers, Mechanism};
use crate::link;

/// The maximum number of requests, and also of purges, that may wait for a connection.
const QUEUE: usize = 1024;
const READ_BYTES: usize = 64 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The options of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// The number of connections to each server for each class.
    pub connections: usize,
    /// Whether the client sends messages that purge losers.
    pub purges: bool,
    /// Whether duplicates have low priority, on separate connections. If not, they are treated like
    /// primaries.
    pub priorities: bool,
    /// Whether servers report the start of a copy. Policies such as `tied` use this report.
    pub announce: bool,
    /// The mechanism that separates the threads of the two classes.
    pub mechanism: Mechanism,
}

impl Default for ClientOptions {
    fn default() -> Self {
        let (connections, mechanism) = (2, Mechanism::None);
        Self { connections, purges: true, priorities: true, announce: false, mechanism }
    }
}

/// The data that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The name of a file, which is empty for made-up data.
    pub name: Bytes,
    /// The start of the data in the file, in bytes.
    pub offset: u64,
    /// The length of the data, in bytes.
    pub length: u64,
}

impl Key {
    /// Returns the key of `length` bytes of made-up data.
    #[must_use]
    pub fn made_up(length: u64) -> Self {
        Self { name: Bytes::new(), offset: 0, length }
    }
}

/// A request with its id, which all of its copies share.
#[derive(Clone, Debug)]
pub struct Job {
    id: u64,
    key: Key,
}

/// A client. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    remotes: Vec<Remote>,
    options: ClientOptions,
    /// The upper half of all job ids, which is random. The lower half counts the jobs.
    names: u64,
    jobs: AtomicU64,
    _handlers: Handlers,
}

#[derive(Debug)]
struct Remote {
    /// The connections, indexed by class.
    links: [Vec<Link>; 2],
    purges: mpsc::Sender<Request>,
}

/// The sending end of a connection for requests.
#[derive(Clone, Debug)]
struct Link {
    requests: mpsc::Sender<Request>,
    pending: Pending,
}

#[derive(Clone, Debug, Default)]
struct Pending(Arc<Mutex<HashMap<u64, Waiting>>>);

#[derive(Debug)]
struct Waiting {
    data: Vec<Bytes>,
    reply: oneshot::Sender<Result<Vec<Bytes>, Failure>>,
    copy: Option<Copy>,
}

/// The handle to which the start of a copy is reported.
struct Copy(CopyContext);

impl std::fmt::Debug for Copy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Copy")
    }
}

impl Client {
    /// Creates a client for these servers, which must be in the order of a topology. The client
    /// connects when it first needs a connection.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(
        servers: impl IntoIterator<Item = Addresses>,
        options: ClientOptions,
    ) -> io::Result<Self> {
        let handlers = Handlers::start(options.mechanism)?;
        let classes = handlers.classes();
        let link = |address, priority| {
            let (requests, waiting) = mpsc::channel(QUEUE);
            let link = Link { requests, pending: Pending::default() };
            classes.spawn(priority, run(address, priority, waiting, link.pending.clone()));
            link
        };
        let remote = |Addresses { data, purge }| {
            let links = [Priority::High, Priority::Low].map(|priority| {
                (0..options.connections.max(1)).map(|_| link(data, priority)).collect()
            });
            let (purges, waiting) = mpsc::channel(QUEUE);
            classes.spawn(Priority::High, run(purge, Priority::High, waiting, Pending::default()));
            Remote { links, purges }
        };
        let remotes = servers.into_iter().map(remote).collect();
        // This is the only source of randomness in the standard library. It suffices because ids
        // need not be secret.
        let names = RandomState::new().hash_one(0) << 32;
        let jobs = AtomicU64::new(0);
        Ok(Self(Arc::new(Inner { remotes, options, names, jobs, _handlers: handlers })))
    }

    /// Creates a job with a new id.
    #[must_use]
    pub fn job(&self, key: Key) -> Job {
        let count = self.0.jobs.fetch_add(1, Ordering::Relaxed);
        Job { id: self.0.names | u64::from(count as u32), key }
    }
}

const NO_SERVER: Failure = Failure::ConnectFailed(std::io::ErrorKind::NotConnected);

impl Transport for Client {
    type Request = Job;
    /// The data, as a list of the pieces in which it arrived.
    type Response = Vec<Bytes>;

    async fn send(
        &self,
        server: ServerId,
        Job { id, key }: Job,
        copy: CopyContext,
    ) -> Result<Head<Vec<Bytes>>, Failure> {
        let Inner { remotes, options, .. } = &*self.0;
        let remote = remotes.get(server.index()).ok_or(NO_SERVER)?;
        let priority = match copy.role() {
            Role::Duplicate if options.priorities => Priority::Low,
            Role::Primary | Role::Duplicate => Priority::High,
        };
        let links = &remote.links[usize::from(priority == Priority::Low)];
        let link = links[id as usize % links.len()].clone();
        let (reply, replied) = oneshot::channel();
        let Key { name, offset, length } = key;
        let get = Get { job: id, priority, name, offset, length, announce: options.announce };
        let copy = options.announce.then_some(Copy(copy));
        link.pending.lock().insert(id, Waiting { data: Vec::new(), reply, copy });
        let mut sent = Sent { pending: &link.pending, purges: None, job: id };
        link.requests.send(Request::Get(get)).await.map_err(|_| Failure::GivenUp)?;
        sent.purges = options.purges.then_some(&remote.purges);
        let data = replied.await.unwrap_or(Err(Failure::GivenUp));
        sent.purges = None;
        // A server that abandons a duplicate is not at fault.
        let fault = |why| if priority == Priority::Low { Failure::GivenUp } else { why };
        data.map(Head::whole).map_err(fault)
    }
}

/// A request in flight. Dropping it before the request has ended purges the request.
struct Sent<'a> {
    pending: &'a Pending,
    purges: Option<&'a mpsc::Sender<Request>>,
    job: u64,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.pending.lock().remove(&self.job);
        if let Some(purges) = self.purges {
            // If too many purges are waiting, this one is not sent, and the job runs although
            // nobody needs it.
            let _ = purges.try_send(Request::Purge(self.job));
        }
    }
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes all waiting requests with an error.
    fn fail(&self, why: Failure) {
        for (_, waiting) in self.lock().drain() {
            let _ = waiting.reply.send(Err(why));
        }
    }

    /// Handles a response from a server. If no client is waiting for the job, it has been purged.
    fn take(&self, Response { status, more, job, .. }: Response, data: Bytes) {
        let mut pending = self.lock();
        let Some(waiting) = pending.get_mut(&job) else { return };
        if status == Status::Started
            && let Some(Copy(copy)) = &waiting.copy
        {
            let copy = copy.clone();
            // The lock is released first because `began` may stop other copies.
            drop(pending);
            copy.began();
            return;
        }
        if !data.is_empty() {
            waiting.data.push(data);
        }
        if more {
            return;
        }
        if let Some(Waiting { data, reply, .. }) = pending.remove(&job) {
            let _ = reply.send(if status == Status::Data { Ok(data) } else { Err(Failure::Reset) });
        }
    }
}

/// Connects when there is something to send, and reconnects after the connection has ended.
async fn run(
    address: SocketAddr,
    priority: Priority,
    mut requests: mpsc::Receiver<Request>,
    pending: Pending,
) {
    while let Some(first) = requests.recv().await {
        let stream = match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => stream,
            _ => {
                while requests.try_recv().is_ok() {}
                pending.fail(NO_SERVER);
                continue;
            }
        };
        if let Err(error) = exchange(stream, priority, first, &mut requests, &pending).await {
            tracing::debug!(%error, %address, "a connection ended");
        }
        pending.fail(Failure::Reset);
    }
}

async fn exchange(
    mut stream: TcpStream,
    priority: Priority,
    first: Request,
    requests: &mut mpsc::Receiver<Request>,
    pending: &Pending,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    link::mark(&stream, priority)?;
    let (mut input, mut output) = stream.split();
    let (mut arrived, mut leaving) = (BytesMut::new(), BytesMut::new());
    first.write(&mut leaving);
    loop {
        arrived.reserve(READ_BYTES);
        tokio::select! {
            request = requests.recv(), if leaving.len() < READ_BYTES => match request {
                Some(request) => request.write(&mut leaving),
                None => return Ok(()),
            },
            sent = output.write_buf(&mut leaving), if !leaving.is_empty() => drop(sent?),
            read = input.read_buf(&mut arrived) => {
                if read? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                while let Some((response, data)) = next(&mut arrived)? {
                    pending.take(response, data);
                }
            }
        }
    }
}

/// Returns the next complete piece.
fn next(arrived: &mut BytesMut) -> io::Result<Option<(Response, Bytes)>> {
    let Some((head, rest)) = arrived.split_first_chunk::<RESPONSE_BYTES>() else { return Ok(None) };
    let response = Response::read(head).map_err(io::Error::other)?;
    let length = usize::try_from(response.length).unwrap_or(usize::MAX);
    if rest.len() < length {
        return Ok(None);
    }
    arrived.advance(RESPONSE_BYTES);
    Ok(Some((response, arrived.split_to(length).freeze())))
}
