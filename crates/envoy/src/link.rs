//! Between the copies of a request, which any thread may end, and the filter of the request, which
//! lives on one thread of Envoy.
//!
//! The future of a copy leaves commands in the link. The filter carries them out in its hooks, and
//! tells the copy through its [`Leg`] what came of it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use curtail_kernel::ServerId;
use curtail_runtime::http::LoadReport;
use curtail_runtime::{CopyContext, CopyDriver, Failure, Head, TailEnd, Transport};
use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::abi::Scheduler;
use crate::message::Message;

/// What a copy wants of its filter.
pub(crate) enum Command {
    Start(Arc<Leg>),
    Stop(Arc<Leg>),
}

/// Connects a filter to the copies of its request.
pub(crate) struct Link(Mutex<State>);

struct State {
    commands: SmallVec<[Command; 1]>,
    /// The filter looks for commands before it returns to Envoy.
    is_busy: bool,
    /// Envoy will call the filter.
    is_called: bool,
    /// `None` once the filter is over.
    scheduler: Option<Scheduler>,
}

impl Link {
    pub(crate) fn new(scheduler: Scheduler) -> Arc<Self> {
        let (commands, scheduler) = (SmallVec::new(), Some(scheduler));
        Arc::new(Self(Mutex::new(State { commands, is_busy: true, is_called: false, scheduler })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, command: Command) {
        let mut state = self.lock();
        if state.scheduler.is_some() {
            state.commands.push(command);
            state.call();
        }
    }

    /// The filter begins to look for commands.
    pub(crate) fn enter(&self) {
        self.lock().is_busy = true;
    }

    /// Envoy has called the filter.
    pub(crate) fn called(&self) {
        self.lock().is_called = false;
    }

    /// Takes the commands. If there are none, the filter returns to Envoy.
    pub(crate) fn take(&self) -> Option<SmallVec<[Command; 1]>> {
        let mut state = self.lock();
        state.is_busy = !state.commands.is_empty();
        state.is_busy.then(|| std::mem::take(&mut state.commands))
    }

    /// Another filter takes the place of this one.
    pub(crate) fn move_to(&self, scheduler: Scheduler) {
        let mut state = self.lock();
        (state.scheduler, state.is_busy, state.is_called) = (Some(scheduler), true, false);
    }

    /// The filter is over.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.scheduler = None;
        let left = std::mem::take(&mut state.commands);
        drop(state);
        // Their legs may call back.
        drop(left);
    }
}

impl State {
    fn call(&mut self) {
        if !self.is_busy
            && !self.is_called
            && let Some(scheduler) = &self.scheduler
        {
            self.is_called = true;
            scheduler.wake();
        }
    }
}

/// Decisions about the query wait.
impl Wake for Link {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The filter may have looked at its query already, so it must look again.
        let mut state = self.lock();
        state.is_busy = false;
        state.call();
    }
}

/// A copy, between its future and the filter.
pub(crate) struct Leg {
    pub(crate) copy: CopyContext,
    state: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    head: Option<Result<Head<Response>, Failure>>,
    end: Option<Result<TailEnd, Failure>>,
    /// The head was reported, so that the end is awaited.
    has_head: bool,
    /// The whole response has arrived, or there will be none.
    is_over: bool,
    waker: Option<Waker>,
}

impl Leg {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn server(&self) -> ServerId {
        self.copy.server()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// The response is there, or its head if its end is to come. The filter polls its query next, so
    /// it wakes only others.
    pub(crate) fn head(&self, head: Head<Response>, is_whole: bool, own: &Waker) {
        self.report(own, |progress| {
            progress.head = Some(Ok(head));
            (progress.has_head, progress.is_over) = (true, is_whole);
        });
    }

    /// There is no complete response.
    pub(crate) fn fail(&self, why: Failure, own: &Waker) {
        self.report(own, |progress| {
            if progress.is_over {
                return;
            }
            progress.is_over = true;
            if progress.has_head {
                progress.end = Some(Err(why));
            } else {
                progress.head = Some(Err(why));
            }
        });
    }

    /// The response is complete.
    pub(crate) fn end(&self, end: TailEnd, own: &Waker) {
        self.report(own, |progress| {
            progress.is_over = true;
            progress.end = Some(Ok(end));
        });
    }

    fn report(&self, own: &Waker, report: impl FnOnce(&mut Progress)) {
        let mut progress = self.lock();
        report(&mut progress);
        let waker = progress.waker.take().filter(|waker| !waker.will_wake(own));
        drop(progress);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll<V>(
        &self,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut Progress) -> Option<V>,
    ) -> Poll<V> {
        let mut progress = self.lock();
        if let Some(found) = take(&mut progress) {
            return Poll::Ready(found);
        }
        match &mut progress.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// Stops a copy when it is dropped, unless its response is complete.
struct Guard {
    link: Arc<Link>,
    leg: Arc<Leg>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.leg.is_over() {
            self.link.push(Command::Stop(Arc::clone(&self.leg)));
        }
    }
}

/// The response of a copy.
pub(crate) enum Response {
    /// Envoy's router has it. If its end is to come, the filter polls the copy until then.
    Router(Option<CopyDriver>),
    /// The complete response of a copy that the filter has sent.
    Whole(Box<Message>),
}

/// Asks a server for its load.
pub(crate) type Ask = Box<dyn Fn(ServerId) -> Option<oneshot::Receiver<LoadReport>> + Send + Sync>;

/// Sends copies through the filters of their requests.
#[derive(Default)]
pub(crate) struct Filters {
    /// Present if the policy sends load probes.
    pub(crate) ask: OnceLock<Ask>,
}

impl Transport for Filters {
    type Request = Arc<Link>;
    type Response = Response;

    async fn send(
        &self,
        _: ServerId,
        link: Arc<Link>,
        copy: CopyContext,
    ) -> Result<Head<Response>, Failure> {
        let leg = Arc::new(Leg { copy, state: Mutex::default() });
        link.push(Command::Start(Arc::clone(&leg)));
        let guard = Guard { link, leg };
        let head = poll_fn(|context| guard.leg.poll(context, |leg| leg.head.take())).await?;
        if guard.leg.is_over() && guard.leg.lock().end.is_none() {
            return Ok(head);
        }
        let tail =
            async move { poll_fn(|context| guard.leg.poll(context, |leg| leg.end.take())).await };
        Ok(Head { tail: Some(Box::pin(tail)), ..head })
    }

    async fn probe(&self, server: ServerId) -> Option<(u32, u64)> {
        let reported = self.ask.get()?(server)?;
        reported.await.ok()?.probed()
    }

    fn attach(&self, response: &mut Response, driver: CopyDriver) {
        if let Response::Router(copy) = response {
            *copy = Some(driver);
        }
    }
}
