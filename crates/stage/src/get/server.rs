//! The server: a D-Stage before its link, and one before its disk if it has files.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use curtail_kernel::stage::Priority;
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
use crate::seldom::Seldom;

/// Data goes out in pieces of so many bytes: a duplicate gives way between two of them.
const PIECE_BYTES: usize = 16 * 1024;
/// Before the next connection is accepted, after one could not be.
const RETRY: Duration = Duration::from_millis(10);
/// Made-up data.
static NOTHING: [u8; PIECE_BYTES] = [0; PIECE_BYTES];
/// Of requests of a connection that have not been read, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// How a server works.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// How many responses are sent at once.
    pub slots: u32,
    /// How many jobs of each class wait; further ones are refused.
    pub queue: u32,
    /// How many connections there may be, those for purges included; further ones are closed.
    pub connections: usize,
    /// How long a client may be silent before its first request, and take nothing of a response: it holds a slot.
    pub idle_timeout: Duration,
    /// Where files are; none: data is made up.
    pub disk: Option<Disk>,
    /// What separates the threads of the two classes.
    pub mechanism: Mechanism,
}

impl Default for ServerOptions {
    fn default() -> Self {
        let (disk, mechanism) = (None, Mechanism::None);
        let idle_timeout = Duration::from_secs(60);
        Self { slots: 4, queue: 1_000, connections: 1_000, idle_timeout, disk, mechanism }
    }
}

/// Where a server listens.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// For requests.
    pub data: SocketAddr,
    /// For purges.
    pub purge: SocketAddr,
}

/// A server; it ends when this is dropped.
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
    crowded: Seldom,
    full: Seldom,
}

#[derive(Debug, Default)]
struct Jobs {
    /// By the name that clients give them: those that are here, and whether each was purged.
    here: HashMap<u64, watch::Sender<bool>>,
    /// Purges that found nothing, the last first: their connection may be faster than that of the job.
    early: VecDeque<u64>,
    /// No further ones are taken.
    draining: bool,
}

/// Of [`Jobs::early`]. A job whose purge is forgotten is done in vain.
const EARLY_MAX: usize = 1024;

/// A job that is here, until it is dropped.
struct Here {
    shared: Arc<Shared>,
    job: u64,
    purged: watch::Receiver<bool>,
}

impl Server {
    /// Listens for requests and for purges.
    ///
    /// # Errors
    /// An address is not to be had, or there are no threads.
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
            crowded: Seldom::default(),
            full: Seldom::default(),
        });
        for listener in [data, purge] {
            let weak = Arc::downgrade(&shared);
            let listener = listener.into_std()?;
            shared.classes.spawn(Priority::High, async move {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                loop {
                    let accepted = listener.accept().await;
                    let Some(shared) = weak.upgrade() else { return };
                    match accepted {
                        Ok((stream, _)) => shared.take(stream),
                        // Of one connection, or of all descriptors, which will be fewer.
                        Err(error) => {
                            tracing::debug!(%error, "a connection was not accepted");
                            tokio::time::sleep(RETRY).await;
                        }
                    }
                }
            });
        }
        Ok(Self { addresses, shared, _handlers: handlers })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Refuses further jobs, and waits for those that are here; how many have not ended after so long.
    pub async fn drain(&self, within: Duration) -> usize {
        self.shared.lock().draining = true;
        let ended = async {
            while !self.shared.lock().here.is_empty() {
                tokio::time::sleep(RETRY).await;
            }
        };
        // Time out or not, what is left is counted.
        let _ = timeout(within, ended).await;
        self.shared.lock().here.len()
    }

    /// How many responses are being sent, and how many jobs wait.
    #[must_use]
    pub fn load(&self) -> (u32, u32) {
        (self.shared.stage.running(), self.shared.stage.waiting())
    }
}

impl Shared {
    /// Serves a connection, at the class of its first request.
    fn take(self: Arc<Self>, stream: TcpStream) {
        let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else {
            self.crowded.give(|| tracing::warn!("too many connections: some are closed"));
            return;
        };
        let shared = Arc::clone(&self);
        // Not to hold up the listener.
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
        // They end with the connection.
        let mut jobs = JoinSet::new();
        loop {
            while let Some(request) = Request::read(&mut arrived).map_err(io::Error::other)? {
                match request {
                    Request::Purge(job) => self.purge(job),
                    Request::Get(get) => match self.enter(get.job) {
                        Ok(here) => drop(jobs.spawn(respond(here, get, responses.clone()))),
                        Err(status) => say(&responses, status, get.job).await?,
                    },
                }
            }
            tokio::select! {
                read = read(&mut requests, &mut arrived) => if read? == 0 {
                    return Ok(());
                },
                // One that broke off may have left half a piece, so nothing can follow.
                Some(ended) = jobs.join_next() => ended.map_err(io::Error::other)??,
            }
        }
    }

    /// A job that is new here, and was not purged before it came.
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

    /// It leaves wherever it is.
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

    // Nothing panics under the lock, so what it guards is whole.
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.shared.lock().here.remove(&self.job);
    }
}

/// A connection once its first request is there, what has arrived, and the class of that.
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

/// The way back of a connection, which its jobs share.
#[derive(Clone)]
struct Responses {
    half: Arc<AsyncMutex<OwnedWriteHalf>>,
    idle_timeout: Duration,
}

async fn say(responses: &Responses, status: Status, job: u64) -> io::Result<()> {
    piece(responses, Response { status, more: status == Status::Started, job, length: 0 }, &[])
        .await
}

/// A piece at once: nothing comes between its head and its data.
async fn piece(responses: &Responses, head: Response, data: &[u8]) -> io::Result<()> {
    let mut bytes = BytesMut::with_capacity(RESPONSE_BYTES + data.len());
    bytes.extend_from_slice(&head.to_bytes());
    bytes.extend_from_slice(data);
    let mut half = responses.half.lock().await;
    timeout(responses.idle_timeout, half.write_all(&bytes)).await?
}

/// Waits for a job's turn, and does it.
///
/// # Errors
/// The client is gone, or takes nothing.
async fn respond(mut here: Here, get: Get, responses: Responses) -> io::Result<()> {
    let mut purged = here.purged.clone();
    let entered = tokio::select! {
        biased;
        // Nothing is said: the client, who is gone or has what it needs, does not wait.
        _ = purged.wait_for(|purged| *purged) => return Ok(()),
        entered = here.shared.stage.enter_as(get.priority) => entered,
    };
    let status = match entered {
        Ok(permit) => here.send(permit, &get, &responses).await?,
        Err(_) => {
            here.shared.full.give(|| tracing::warn!("the queue is full: requests are refused"));
            Some(Status::Refused)
        }
    };
    match status {
        Some(status) => say(&responses, status, get.job).await,
        None => Ok(()),
    }
}

impl Here {
    /// Sends the data, unless that cannot be: what is to be said in its place.
    async fn send(
        &mut self,
        mut permit: Permit,
        get: &Get,
        responses: &Responses,
    ) -> io::Result<Option<Status>> {
        if get.announce {
            say(responses, Status::Started, get.job).await?;
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
