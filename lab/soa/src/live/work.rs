//! The work of a process for a request: it holds resources for a time, and calls other processes.
//!
//! Source: document 002 §5.3, where resources are emulated by semaphores and waiting. With flow
//! control, the resources are those of [`curtail_flow::Flow`]. Without it, they are semaphores with
//! the same bounds, which serve requests in the order of arrival.
//!
//! Cost: a timer per held resource. Parallel calls are polled by one task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use curtail_flow::{Context, Rejected};
use curtail_runtime::Timers;
use futures_util::future::{join_all, try_join_all};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::clock::Clock;
use super::guarded::{Guarded, RequestMeta};
use super::message::{Act, Call, acts_of};
use super::rpc::{Client, call};

/// A resource of this process.
pub(super) struct Resource {
    name: String,
    slots: Semaphore,
    /// Without flow control: the maximum and the current number of waiting requests.
    queue: u32,
    waiting: AtomicU32,
    /// The time for which the slots of this resource were held.
    pub(super) busy_ns: AtomicU64,
    /// The part of that time in which the process worked instead of waiting for calls.
    pub(super) work_ns: AtomicU64,
}

/// Until it is dropped, a `Waits` counts as a waiting request. When a `Holds` is dropped, it
/// records how long a slot was held.
struct Waits<'a>(&'a AtomicU32);
struct Holds<'a>(&'a Resource, bool, Instant);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Holds<'_> {
    fn drop(&mut self) {
        let ns = self.2.elapsed().as_nanos() as u64;
        self.0.busy_ns.fetch_add(ns, Ordering::Relaxed);
        self.0.work_ns.fetch_add(if self.1 { ns } else { 0 }, Ordering::Relaxed);
    }
}

impl Resource {
    pub(super) fn new(name: &str, spec: curtail_flow::ResourceSpec) -> Self {
        Self {
            name: name.to_owned(),
            slots: Semaphore::new(spec.slots as usize),
            queue: spec.queue,
            waiting: AtomicU32::new(0),
            busy_ns: AtomicU64::new(0),
            work_ns: AtomicU64::new(0),
        }
    }

    /// Runs `work` while it holds a slot. `works` is true for work on the resource, and false for
    /// calls that hold it.
    async fn hold<F: Future>(
        &self,
        manner: &Manner,
        works: bool,
        work: F,
    ) -> Result<F::Output, Status> {
        let requested = Instant::now();
        let work = async {
            let _holds = Holds(self, works, Instant::now());
            work.await
        };
        if let Manner::Flow(context) = manner {
            return match works {
                true => context.subtask(&self.name, None, work).await.map_err(status),
                false => context.hold(&self.name, work).await.map_err(status),
            };
        }
        let slot = match self.slots.try_acquire() {
            Ok(slot) => slot,
            Err(_) => self.turn().await?,
        };
        if let Manner::Guarded(guarded, meta) = manner {
            guarded.waited(requested);
            if meta.deadline < Instant::now() {
                return Err(Status::deadline_exceeded("late"));
            }
        }
        let output = work.await;
        drop(slot);
        Ok(output)
    }

    async fn turn(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Status> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.queue {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Status::resource_exhausted("the queue is full"));
        }
        let _waits = Waits(&self.waiting);
        self.slots.acquire().await.map_err(|_| Status::internal("the process ends"))
    }
}

fn status(rejected: Rejected) -> Status {
    match rejected.reason {
        curtail_flow::Reason::Late => Status::deadline_exceeded("late"),
        curtail_flow::Reason::Full => Status::resource_exhausted("the queue is full"),
    }
}

/// The control that applies to a request.
#[derive(Clone)]
pub(super) enum Manner {
    /// None: the request is served to completion, even if no client waits for it anymore.
    Bare,
    /// Flow control.
    Flow(Context),
    /// A guard, which implements a published method of other authors.
    Guarded(Arc<Guarded>, RequestMeta),
}

/// The state of a process that its requests use.
pub(super) struct Node {
    pub(super) resources: Vec<Resource>,
    /// Connections, indexed by instance.
    pub(super) peers: Vec<Client>,
    pub(super) timers: Timers,
    pub(super) clock: Clock,
    pub(super) guarded: Option<Arc<Guarded>>,
}

impl Node {
    /// Serves a request. With control, the request is stopped when its call is stopped.
    pub(super) async fn serve(
        self: Arc<Self>,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Status> {
        let context = request.extensions().get::<Context>().cloned();
        let meta = RequestMeta::read(request.metadata());
        let (message, mut response) = (request.into_inner(), Response::new(Bytes::new()));
        if let Some(context) = context {
            self.visit(&Manner::Flow(context), message).await?;
        } else if let Some(guarded) = &self.guarded {
            let malformed = || Status::invalid_argument("it does not name its sender");
            let meta = meta.ok_or_else(malformed)?;
            let served = self.guarded(guarded, meta, message).await;
            guarded.sign(response.metadata_mut());
            served.map_err(|mut status| {
                guarded.sign(status.metadata_mut());
                status
            })?;
        } else {
            // The request continues after its client has given up.
            let work = async move { self.visit(&Manner::Bare, message).await };
            let ended = tokio::spawn(work).await;
            ended.map_err(|error| Status::internal(error.to_string()))??;
        }
        Ok(response)
    }

    async fn guarded(
        &self,
        guarded: &Arc<Guarded>,
        meta: RequestMeta,
        message: Bytes,
    ) -> Result<(), Status> {
        let mut inside = guarded.admit(meta.ask)?;
        self.visit(&Manner::Guarded(Arc::clone(guarded), meta), message).await?;
        inside.is_good = true;
        Ok(())
    }

    async fn visit(&self, manner: &Manner, message: Bytes) -> Result<(), Status> {
        let malformed = || Status::invalid_argument("a message that no client sends");
        for act in acts_of(&message).ok_or_else(malformed)? {
            match act {
                Act::Use { resource, ns } => {
                    let resource = self.resources.get(resource).ok_or_else(malformed)?;
                    let work = async {
                        let ends = Instant::now() + self.clock.length(ns);
                        self.timers.sleep_until(ends).await;
                    };
                    resource.hold(manner, true, work).await?;
                }
                Act::Call { via, calls } => {
                    let via = via.map(|via| self.resources.get(via).ok_or_else(malformed));
                    self.calls(manner, via.transpose()?, calls).await?;
                }
            }
        }
        Ok(())
    }

    /// Sends calls in parallel, each of which may hold a resource.
    async fn calls(
        &self,
        manner: &Manner,
        via: Option<&Resource>,
        calls: Vec<Call>,
    ) -> Result<(), Status> {
        let branches: Vec<Manner> = match manner {
            Manner::Flow(context) if calls.len() > 1 => {
                context.parallel(calls.len() as u32).into_iter().map(Manner::Flow).collect()
            }
            manner => calls.iter().map(|_| manner.clone()).collect(),
        };
        let calls = calls.into_iter().zip(branches).map(|(call, manner)| async move {
            let sent = self.call(&manner, call);
            match via {
                Some(resource) => resource.hold(&manner, false, sent).await?,
                None => sent.await,
            }
        });
        match manner {
            Manner::Bare => join_all(calls).await.into_iter().collect(),
            // The first failure drops the other calls.
            Manner::Flow(_) | Manner::Guarded(..) => try_join_all(calls).await.map(drop),
        }
    }

    async fn call(&self, manner: &Manner, sent: Call) -> Result<(), Status> {
        let instance = sent.instance;
        let peer = self.peers.get(instance);
        let peer = peer.ok_or_else(|| Status::invalid_argument("there is no such process"))?;
        let mut request = Request::new(sent.message());
        match manner {
            Manner::Bare => call(peer.clone(), request).await.map(drop),
            Manner::Flow(context) => {
                request.extensions_mut().insert(context.clone());
                call(peer.clone(), request).await.map(drop)
            }
            Manner::Guarded(guarded, meta) => {
                guarded.call(instance, meta.ask)?;
                meta.write(&mut request);
                let response = call(peer.clone(), request).await;
                let metadata = response.as_ref().unwrap_or_else(Status::metadata);
                guarded.returned(instance, response.is_ok(), metadata);
                response.map(drop)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn without_flow_control_the_same_bounds_apply() {
        let ms = Duration::from_millis;
        let spec = curtail_flow::ResourceSpec { slots: 1, queue: 1 };
        let disk = Resource::new("disk", spec);
        let work =
            |works| disk.hold(&Manner::Bare, works, async { tokio::time::sleep(ms(10)).await });
        let begin = Instant::now();
        let (first, second, third) = tokio::join!(work(true), work(false), work(true));
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(third.expect_err("one waits").code(), tonic::Code::ResourceExhausted);
        assert_eq!(begin.elapsed(), ms(20));
        let of = |ns: &AtomicU64| ns.load(Ordering::Relaxed);
        assert_eq!((of(&disk.busy_ns), of(&disk.work_ns)), (20_000_000, 10_000_000));
        {
            let (held, waits) = (work(true), work(true));
            tokio::pin!(held, waits);
            let both = async { tokio::join!(held, waits) };
            let given_up = tokio::time::timeout(ms(5), both).await;
            assert!(given_up.is_err());
        }
        assert!(work(true).await.is_ok(), "an abandoned call frees its slot and its place");
        assert_eq!(disk.waiting.load(Ordering::Relaxed), 0);
    }
}
