//! The server. It has a D-Stage in front of its link and, if it serves files, another one in front
//! of its disk.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use curtail_kernel::stage::Priority;
use curtail_runtime::accept::{Accepted, Acceptor};
use curtail_runtime::stage::{Permit, Stage};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex as AsyncMutex, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::wire::{Get, RESPONSE_BYTES, Request, Response, Status};
use crate::cpu::{Classes, Handlers, Mechanism};
use crate::disk::{Disk, DiskError};
use crate::link;
use crate::rate_limited::RateLimited;

/// The size of the pieces in which data is sent, in bytes. A duplicate can be interrupted only
/// between two pieces.
const PIECE_BYTES: usize = 16 * 1024;
/// The interval at which a draining server counts its jobs.
const RETRY: Duration = Duration::from_millis(10);
/// Made-up data.
static NOTHING: [u8; PIECE_BYTES] = [0; PIECE_BYTES];
/// The size of a connection's request buffer, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// The options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The number of responses that are sent at the same time.
    pub slots: u32,
    /// The maximum number of waiting jobs in each class. Further jobs are refused.
    pub queue: u32,
    /// The maximum number of connections, including those for purges. Further connections are
    /// closed.
    pub connections: usize,
    /// The maximum time until a client sends its first request, and the maximum time for which it
    /// may stop reading a response. A response occupies a slot while it is sent.
    pub idle_timeout: Duration,
    /// The disk that contains the files. `None` for made-up data.
    pub disk: Option<Disk>,
    /// The mechanism that separates the threads of the two classes.
    pub mechanism: Mechanism,
}

impl Default for ServerOptions {
    fn default() -> Self {
        let (disk, mechanism) = (None, Mechanism::None);
        let idle_timeout = Duration::from_secs(60);
        Self { slots: 4, queue: 1_000, connections: 1_000, idle_timeout, disk, mechanism }
    }
}

/// The addresses of a server.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The address for requests.
    pub data: SocketAddr,
    /// The address for purges.
    pub purge: SocketAddr,
}

/// The load of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The number of responses that are being sent.
    pub running: u32,
    /// The number of waiting jobs.
    pub waiting: u32,
}

/// A server. The server stops when this value is dropped.
#[derive(Debug)]
pub struct Server {
    addresses: Addresses,
    shared: Arc<Shared>,
    _handlers: Handlers,
}

#[derive(Debug)]
struct Shared {
    classes: Classes,
    stage: Stage,
    disk: Option<Disk>,
    jobs: Mutex<Jobs>,
    connections: Arc<Semaphore>,
    idle_timeout: Duration,
    crowded: RateLimited,
    full: RateLimited,
}

#[derive(Debug, Default)]
struct Jobs {
    /// The waiting and running jobs by id. The value is true if the job was purged.
    here: HashMap<u64, watch::Sender<bool>>,
    /// The ids of purges for which no job was found, the latest first. A purge may arrive before
    /// its job because the two use separate connections.
    early: VecDeque<u64>,
    /// Whether further jobs are refused.
    draining: bool,
}

/// The maximum length of [`Jobs::early`]. If a purge is dropped from the list, its job runs
/// although no client needs it.
const EARLY_MAX: usize = 1024;

/// A registered job. Dropping this value removes the job.
struct Here {
    shared: Arc<Shared>,
    job: u64,
    purged: watch::Receiver<bool>,
}

impl Server {
    /// Listens for requests and for purges.
    ///
    /// # Errors
    /// An address cannot be bound, or a thread cannot be started.
    pub async fn bind(
        data: SocketAddr,
        purge: SocketAddr,
        options: ServerOptions,
    ) -> io::Result<Self> {
        let handlers = Handlers::start(options.mechanism)?;
        let (data, purge) = (TcpListener::bind(data).await?, TcpListener::bind(purge).await?);
        let addresses = Addresses { data: data.local_addr()?, purge: purge.local_addr()? };
        let shared = Arc::new(Shared {
            classes: handlers.classes().clone(),
            stage: Stage::preemptive(options.slots, options.queue),
            disk: options.disk,
            jobs: Mutex::default(),
            connections: Arc::new(Semaphore::new(options.connections)),
            idle_timeout: options.idle_timeout,
            crowded: RateLimited::default(),
            full: RateLimited::default(),
        });
        for listener in [data, purge] {
            let weak = Arc::downgrade(&shared);
            let listener = listener.into_std()?;
            shared.classes.spawn(Priority::High, async move {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                let mut acceptor = Acceptor::new(listener);
                loop {
                    let accepted = acceptor.accept().await;
                    let Some(shared) = weak.upgrade() else { return };
                    match accepted {
                        Ok(accepted) => shared.take(accepted),
                        Err(error) => tracing::debug!(%error, "a connection was not accepted"),
                    }
                }
            });
        }
        Ok(Self { addresses, shared, _handlers: handlers })
    }

    /// Returns the addresses on which the server listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Refuses further jobs, and waits for at most `within` until the present jobs have ended.
    /// Returns the number of jobs that have not ended.
    pub async fn drain(&self, within: Duration) -> usize {
        self.shared.lock().draining = true;
        let ended = async {
            while !self.shared.lock().here.is_empty() {
                tokio::time::sleep(RETRY).await;
            }
        };
        // The remaining jobs are counted whether or not the wait timed out.
        let _ = timeout(within, ended).await;
        self.shared.lock().here.len()
    }

    /// Returns the load of the server.
    #[must_use]
    pub fn load(&self) -> Load {
        Load { running: self.shared.stage.running(), waiting: self.shared.stage.waiting() }
    }
}

impl Shared {
    /// Serves a connection on the thread for its class. The first request determines the class.
    fn take(self: Arc<Self>, accepted: Accepted) {
        let permit = Arc::clone(&self.connections).try_acquire_owned();
        let (Ok(stream), Ok(permit)) = (accepted.into_stream(), permit) else {
            self.crowded.warn(|| tracing::warn!("too many connections: some are closed"));
            return;
        };
        let shared = Arc::clone(&self);
        // This runs in a task, so that the listener does not wait.
        self.classes.spawn(Priority::High, async move {
            let served = async {
                let (stream, arrived, priority) =
                    timeout(shared.idle_timeout, first(stream)).await??;
                link::mark(&stream, priority)?;
                let stream = stream.into_std()?;
                let handler = Arc::clone(&shared);
                shared.classes.spawn(priority, async move {
                    if let Err(error) = handler.serve(stream, arrived).await {
                        tracing::debug!(%error, "a connection ended");
                    }
                    drop(permit);
                });
                io::Result::Ok(())
            };
            if let Err(error) = served.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }

    async fn serve(
        self: Arc<Self>,
        stream: std::net::TcpStream,
        mut arrived: BytesMut,
    ) -> io::Result<()> {
        let stream = TcpStream::from_std(stream)?;
        stream.set_nodelay(true)?;
        let (mut requests, responses) = stream.into_split();
        let responses = Responses {
            half: Arc::new(AsyncMutex::new(responses)),
            idle_timeout: self.idle_timeout,
        };
        // The jobs end with the connection.
        let mut jobs = JoinSet::new();
        loop {
            while let Some(request) = Request::read(&mut arrived).map_err(io::Error::other)? {
                match request {
                    Request::Purge(job) => self.purge(job),
                    Request::Get(get) => match self.enter(get.job) {
                        Ok(here) => drop(jobs.spawn(respond(here, get, responses.clone()))),
                        Err(status) => send_status(&responses, status, get.job).await?,
                    },
                }
            }
            tokio::select! {
                read = read(&mut requests, &mut arrived) => if read? == 0 {
                    return Ok(());
                },
                // A failed job may have sent an incomplete piece, so the connection can no longer
                // be used.
                Some(ended) = jobs.join_next() => ended.map_err(io::Error::other)??,
            }
        }
    }

    /// Registers a job, unless a job with the same id is already registered or the job was purged
    /// before it arrived.
    fn enter(self: &Arc<Self>, job: u64) -> Result<Here, Status> {
        let mut jobs = self.lock();
        if jobs.draining {
            return Err(Status::Refused);
        }
        if let Some(at) = jobs.early.iter().position(|early| *early == job) {
            jobs.early.remove(at);
            return Err(Status::Purged);
        }
        if jobs.here.contains_key(&job) {
            return Err(Status::Reused);
        }
        let (sender, purged) = watch::channel(false);
        jobs.here.insert(job, sender);
        Ok(Here { shared: Arc::clone(self), job, purged })
    }

    /// Purges a waiting or running job.
    fn purge(&self, job: u64) {
        let mut jobs = self.lock();
        match jobs.here.get(&job) {
            Some(purged) => drop(purged.send_replace(true)),
            None => {
                jobs.early.truncate(EARLY_MAX - 1);
                jobs.early.push_front(job);
            }
        }
    }

    // Code under the lock does not panic, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.shared.lock().here.remove(&self.job);
    }
}

/// Waits for the first request of a connection. Returns the stream, the bytes that have arrived,
/// and the class of the request.
async fn first(mut stream: TcpStream) -> io::Result<(TcpStream, BytesMut, Priority)> {
    let mut arrived = BytesMut::with_capacity(READ_BYTES);
    loop {
        let mut copy = arrived.clone();
        match Request::read(&mut copy).map_err(io::Error::other)? {
            Some(Request::Get(get)) => return Ok((stream, arrived, get.priority)),
            Some(Request::Purge(_)) => return Ok((stream, arrived, Priority::High)),
            None => {}
        }
        if stream.read_buf(&mut arrived).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn read(requests: &mut OwnedReadHalf, arrived: &mut BytesMut) -> io::Result<usize> {
    arrived.reserve(READ_BYTES);
    requests.read_buf(arrived).await
}

/// The sending half of a connection. The jobs of the connection share it.
#[derive(Clone)]
struct Responses {
    half: Arc<AsyncMutex<OwnedWriteHalf>>,
    idle_timeout: Duration,
}

async fn send_status(responses: &Responses, status: Status, job: u64) -> io::Result<()> {
    piece(responses, Response { status, more: status == Status::Started, job, length: 0 }, &[])
        .await
}

/// Sends a piece under the lock, so that nothing comes between its head and its data.
async fn piece(responses: &Responses, head: Response, data: &[u8]) -> io::Result<()> {
    let mut bytes = BytesMut::with_capacity(RESPONSE_BYTES + data.len());
    bytes.extend_from_slice(&head.to_bytes());
    bytes.extend_from_slice(data);
    let mut half = responses.half.lock().await;
    timeout(responses.idle_timeout, half.write_all(&bytes)).await?
}

/// Waits for a job's turn, and then sends its response.
///
/// # Errors
/// The client has disconnected or does not read.
async fn respond(mut here: Here, get: Get, responses: Responses) -> io::Result<()> {
    let mut purged = here.purged.clone();
    let entered = tokio::select! {
        biased;
        // No response is sent, because the client has disconnected or no longer needs the data.
        _ = purged.wait_for(|purged| *purged) => return Ok(()),
        entered = here.shared.stage.enter_as(get.priority) => entered,
    };
    let status = match entered {
        Ok(permit) => here.send(permit, &get, &responses).await?,
        Err(_) => {
            here.shared.full.warn(|| tracing::warn!("the queue is full: requests are refused"));
            Some(Status::Refused)
        }
    };
    match status {
        Some(status) => send_status(&responses, status, get.job).await,
        None => Ok(()),
    }
}

impl Here {
    /// Sends the data. If that is not possible, returns the status to send instead.
    async fn send(
        &mut self,
        mut permit: Permit,
        get: &Get,
        responses: &Responses,
    ) -> io::Result<Option<Status>> {
        if get.announce {
            send_status(responses, Status::Started, get.job).await?;
        }
        let name = std::str::from_utf8(&get.name).ok();
        let file = match (&self.shared.disk, name) {
            (None, Some("")) => None,
            (Some(disk), Some(name)) => match disk.open(name).await {
                Ok(file) => Some((disk.clone(), file)),
                Err(_) => return Ok(Some(Status::NotFound)),
            },
            _ => return Ok(Some(Status::NotFound)),
        };
        let mut sent = 0;
        let mut read = Bytes::new();
        loop {
            permit.step_aside().await;
            if *self.purged.borrow() {
                return Ok(Some(Status::Purged));
            }
            if let Some((disk, file)) = &file
                && read.is_empty()
                && sent < get.length
            {
                let length = usize::try_from(get.length - sent).unwrap_or(usize::MAX);
                let offset = get.offset.saturating_add(sent);
                read = match disk.read(file, offset, length, get.priority).await {
                    Ok(bytes) => bytes,
                    Err(DiskError::Overloaded(_)) => return Ok(Some(Status::Refused)),
                    Err(DiskError::Io(_)) => return Ok(Some(Status::NotFound)),
                };
            }
            let left = usize::try_from(get.length - sent).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let data = match &file {
                Some(_) => read.split_to(left.min(read.len())),
                None => Bytes::from_static(&NOTHING[..left]),
            };
            sent += data.len() as u64;
            let (more, length) = (sent < get.length, data.len() as u64);
            let head = Response { status: Status::Data, more, job: get.job, length };
            piece(responses, head, &data).await?;
            if !more {
                let _ = permit.finish();
                return Ok(None);
            }
        }
    }
}
