//! What happens to a request: it becomes a query, and its copies go through Envoy's router (the
//! first one) or as streams of this filter.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use curtail_kernel::GroupId;
use curtail_proxy::embedded::Destination;
use curtail_proxy::envoy::CLUSTER_HEADER;
use curtail_runtime::http::Commit;
use curtail_runtime::{CopyDriver, Failure, Query, QueryError, QueryResponse, Reply};

use super::copies::Copies;
use super::handover::Handover;
use super::router::{Router, Rules};
use super::{Event, Part, Passing};
use crate::abi::{BodyStatus, Headers, Stream};
use crate::balancer;
use crate::link::{Command, Filters, Leg, Link, Response};
use crate::message::{Message, borrowed, number};
use crate::service::{Service, Shard};

/// The hook that runs. What may go on continues when it returns, and otherwise at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    Request,
    Response,
    Other,
}

/// A request.
pub(crate) struct Request {
    pub(super) service: Arc<Service>,
    pub(super) link: Arc<Link>,
    pub(super) waker: Waker,
    pub(super) passing: Rc<Cell<Passing>>,
    pub(super) hook: Hook,
    pub(super) phase: Phase,
    /// An index into the service's shards.
    shard: usize,
    pub(super) commit: Commit,
    pub(super) is_grpc: bool,
    /// The body, for duplicates and retries.
    body: Vec<u8>,
    /// The copy that Envoy's router sends.
    pub(super) router: Option<Router>,
    pub(super) copies: Copies,
    /// Polls the router's copy after the query has ended.
    driver: Option<CopyDriver>,
}

pub(super) enum Phase {
    /// The head is to come.
    New,
    /// Another filter has begun with this request: it goes on with this copy.
    Resumed(Arc<Leg>, Reply<Filters>),
    /// Another filter has received this response.
    Answered(Box<Message>),
    /// The body arrives.
    Receiving(Destination),
    /// A copy is to win.
    Waiting(Reply<Filters>),
    /// The query has ended.
    Over,
}

impl Request {
    pub(super) fn new(
        service: &Arc<Service>,
        stream: &mut Stream<'_>,
        passing: &Rc<Cell<Passing>>,
    ) -> Self {
        let link = Link::new(stream.scheduler());
        Self {
            service: Arc::clone(service),
            waker: Arc::clone(&link).into(),
            link,
            passing: Rc::clone(passing),
            hook: Hook::Other,
            phase: Phase::New,
            shard: 0,
            commit: Commit::Head,
            is_grpc: false,
            body: Vec::new(),
            router: None,
            copies: Copies::default(),
            driver: None,
        }
    }

    /// A hook begins, or returns.
    pub(super) fn enter(&mut self, hook: Hook) {
        self.hook = hook;
    }

    /// From now on, the link need not ask for a call: this will look for commands.
    pub(super) fn looks(&self) {
        self.link.enter();
    }

    pub(super) fn called(&self) {
        self.link.called();
    }

    /// Whether Envoy's router has the request from now on.
    pub(super) fn is_with_router(&self) -> bool {
        self.router.is_some()
    }

    fn shard(&self) -> &Arc<Shard> {
        &self.service.shards[self.shard]
    }

    /// The head of the request has arrived.
    pub(super) fn head(&mut self, stream: &mut Stream<'_>, end: bool) {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Resumed(leg, reply) => {
                self.phase = Phase::Waiting(reply);
                if !self.body.is_empty() {
                    stream.add_body(&self.body);
                }
                return self.start(stream, leg);
            }
            Phase::Answered(message) => return self.deliver(stream, message),
            _ => {}
        }
        let fields = stream.fields(Headers::Request);
        let text = |name| fields.get(name).and_then(|value| str::from_utf8(value).ok());
        let (method, path) = (text(":method").unwrap_or(""), text(":path").unwrap_or(""));
        let service = Arc::clone(&self.service);
        let destination = match service.config.route(method, path, |name| fields.values(name)) {
            Ok(destination) => destination,
            Err(why) => {
                drop(fields);
                return self.respond(stream, why.status, &why.text);
            }
        };
        (self.shard, self.commit) = (destination.shard, destination.commit);
        let kind = fields.get("content-type").unwrap_or_default();
        self.is_grpc = kind.starts_with(b"application/grpc");
        let is_upgrade = fields.get("upgrade").is_some();
        #[cfg(debug_assertions)]
        if fields.get("x-curtail-panic").is_some() {
            // For tests: a bug in the kernel, under its lock.
            self.shard().cell.look(|_| panic!("injected"));
        }
        let length = fields.get("content-length").map(number::<u64>);
        drop(fields);
        if service.shards.len() > 1 {
            stream.reroute(CLUSTER_HEADER, &service.shards[self.shard].cluster.name);
        }
        if end {
            return self.begin(destination);
        }
        let most = service.config.replay_bytes();
        let is_kept = match length {
            Some(length) => length.is_some_and(|length| length <= most),
            // The client may wait for a response before it sends more.
            None => destination.idempotent || destination.commit == Commit::End,
        };
        if is_kept && !is_upgrade {
            self.phase = Phase::Receiving(destination);
        } else {
            self.begin(Destination { idempotent: false, ..destination });
        }
    }

    /// A part of the body has arrived. Returns what becomes of it unless the router has the request.
    pub(super) fn body(&mut self, stream: &mut Stream<'_>, end: bool) -> BodyStatus {
        let Phase::Receiving(destination) = self.phase else { return BodyStatus::Watermark };
        stream.read_body(&mut self.body);
        if self.body.len() as u64 > self.service.config.replay_bytes() {
            self.body = Vec::new();
            self.begin(Destination { idempotent: false, ..destination });
            return BodyStatus::Watermark;
        }
        if end {
            self.begin(destination);
        }
        BodyStatus::Buffer
    }

    /// The request ends with trailers, which only the router's copy carries.
    pub(super) fn trailers(&mut self) {
        if let Phase::Receiving(destination) = self.phase {
            self.begin(Destination { idempotent: false, ..destination });
        }
    }

    /// The request becomes a query.
    fn begin(&mut self, destination: Destination) {
        let Destination { idempotent, cost_hint, .. } = destination;
        let query = Query {
            request: Arc::clone(&self.link),
            group: GroupId(0),
            may_duplicate: idempotent,
            may_retry: idempotent,
            deadline: None,
            cost_hint,
        };
        let reply = self.shard().cell.query(query);
        self.phase = Phase::Waiting(reply);
    }

    /// Acts on what a hook has seen, and on all decisions that follow.
    pub(super) fn take(&mut self, stream: &mut Stream<'_>, event: Event) {
        let mut has_news = true;
        match event {
            Event::Look => {}
            Event::Router { part, end } => has_news = self.router_part(stream, &part, end),
            Event::Copy { id, part } => self.copy_part(stream, id, part),
        }
        loop {
            if has_news {
                self.poll(stream);
            }
            has_news = self.follow(stream);
            if !has_news {
                return;
            }
        }
    }

    /// Polls the query, or the copy that outlives it.
    fn poll(&mut self, stream: &mut Stream<'_>) {
        let context = &mut Context::from_waker(&self.waker);
        if let Phase::Waiting(reply) = &mut self.phase
            && let Poll::Ready(result) = Pin::new(reply).poll(context)
        {
            self.phase = Phase::Over;
            self.ended(stream, result);
        } else if let Some(driver) = &mut self.driver
            && driver.poll(context).is_ready()
        {
            self.driver = None;
        }
    }

    /// Carries out the commands of the copies. Returns whether there is news for the query: a copy
    /// that could not be sent.
    fn follow(&mut self, stream: &mut Stream<'_>) -> bool {
        let mut has_news = false;
        while let Some(commands) = self.link.take() {
            for command in commands {
                match command {
                    Command::Start(leg) => {
                        self.start(stream, Arc::clone(&leg));
                        has_news |= leg.is_over();
                    }
                    Command::Stop(leg) => self.stop(stream, &leg),
                }
            }
        }
        has_news
    }

    /// Returns whether there is news for the query.
    fn router_part(&mut self, stream: &mut Stream<'_>, part: &Part, end: bool) -> bool {
        let Self { service, router, commit, is_grpc, waker, .. } = self;
        match router {
            Some(router) => {
                let (commit, is_grpc) = (*commit, *is_grpc);
                let rules = Rules { service, commit, is_grpc, waker };
                if router.receive(stream, part, end, &rules) {
                    self.passing.set(Passing::Router);
                }
                router.take_news()
            }
            // Another filter responds to the request.
            None => {
                self.phase = Phase::Over;
                self.passing.set(Passing::Own);
                false
            }
        }
    }

    /// Sends a copy.
    fn start(&mut self, stream: &mut Stream<'_>, leg: Arc<Leg>) {
        let Some(address) = self.shard().address(leg.server()) else {
            let gone = Failure::ConnectFailed(std::io::ErrorKind::NotFound);
            return leg.fail(gone, &self.waker);
        };
        if self.router.as_ref().is_some_and(Router::is_lost) && self.copies.is_empty() {
            return self.retry(stream, leg);
        }
        let cluster = Arc::clone(&self.shard().cluster);
        if self.router.is_some() {
            let Self { copies, body, waker, .. } = self;
            let start = || copies.start(stream, &cluster.name, body, leg, waker);
            return balancer::pinned(&cluster, address, start);
        }
        if self.service.policy().hedges() {
            leg.copy.stops_with_query();
        }
        self.router = Some(Router::new(leg));
        match self.hook {
            // The router has the request when the hook returns.
            Hook::Request => balancer::pin(&cluster, address),
            _ => balancer::pinned(&cluster, address, || stream.continue_request()),
        }
    }

    /// Stops a copy. The router's copy ends with the request.
    fn stop(&mut self, stream: &mut Stream<'_>, leg: &Arc<Leg>) {
        if let Some(id) = self.copies.remove(leg) {
            stream.reset(id);
        }
    }

    /// The query has ended.
    fn ended(
        &mut self,
        stream: &mut Stream<'_>,
        result: Result<QueryResponse<Response>, QueryError<Response>>,
    ) {
        self.shard().metrics.ended(&result);
        let error = match result {
            Ok(answer) => return self.answer(stream, answer),
            Err(QueryError::Failed { response: Some(answer), .. }) => {
                return self.answer(stream, *answer);
            }
            Err(error) => error,
        };
        let is_held = self.router.as_ref().is_some_and(Router::is_held);
        let status = match error {
            QueryError::Failed { .. } if is_held => return self.pass(stream),
            QueryError::QueueFull | QueryError::Expired | QueryError::GaveWay => 503,
            QueryError::Timeout => 504,
            QueryError::Failed { .. } => 502,
        };
        self.respond(stream, status, &error.to_string());
    }

    fn answer(&mut self, stream: &mut Stream<'_>, answer: QueryResponse<Response>) {
        if self.service.config.notes() {
            let address = self.shard().address(answer.server);
            stream.note("policy", &self.service.policy().to_string());
            stream.note("server", address.as_deref().unwrap_or_default());
            stream.note("role", answer.role.name());
            stream.note_number("copies", answer.copies.into());
            stream.note_number("queued_us", answer.queued_ns as f64 / 1e3);
        }
        match answer.response {
            Response::Router(driver) => {
                self.driver = driver;
                self.pass(stream);
            }
            Response::Whole(message) => self.deliver(stream, message),
        }
    }

    /// Lets the router's response pass.
    pub(super) fn pass(&mut self, stream: &mut Stream<'_>) {
        let before = self.passing.replace(Passing::Router);
        if before == Passing::Nothing && self.hook != Hook::Response {
            stream.continue_response();
        }
    }

    /// Responds with the response to a duplicate. This ends the router's copy.
    fn deliver(&mut self, stream: &mut Stream<'_>, message: Box<Message>) {
        if self.router.as_ref().is_some_and(Router::is_held) {
            return self.hand_over(stream, Handover::Answer(message));
        }
        self.passing.set(Passing::Own);
        let (mut head, mut trailers) = (borrowed(&message.head), borrowed(&message.trailers));
        stream.relay(&mut head, &message.body, &mut trailers);
    }

    /// Responds with a line of this module's own.
    fn respond(&mut self, stream: &mut Stream<'_>, status: u16, text: &str) {
        self.passing.set(Passing::Own);
        stream.respond(status, &[], &format!("{text}\n"));
    }

    /// If the router's response has broken off, the client gets Envoy's, and no copy can help.
    pub(super) fn broken_off(&mut self, stream: &mut Stream<'_>) {
        if let Some(router) = self.router.as_mut().filter(|router| router.is_held()) {
            self.passing.set(Passing::Own);
            router.break_off(&self.waker);
            self.take(stream, Event::Look);
        }
    }

    /// The request is over.
    pub(super) fn over(&mut self, stream: &mut Stream<'_>) {
        if let Some(router) = &self.router {
            router.over(stream, &self.waker);
        }
        if self.driver.is_some() {
            self.poll(stream);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // The streams of the copies end with the filter.
        self.link.close();
        self.phase = Phase::Over;
        self.driver = None;
        if let Some(router) = &self.router {
            router.leg.fail(Failure::GivenUp, &self.waker);
        }
        self.copies.give_up(&self.waker);
    }
}
