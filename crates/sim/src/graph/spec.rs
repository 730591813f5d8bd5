//! A checked graph of services.
//!
//! A step is one line in a small language. `use disk exp:4ms` holds a resource for a time drawn
//! from a distribution. `call bs/read x20 via connections` sends 20 parallel calls to an endpoint
//! of another service. Each of these calls holds a resource of the caller while it runs. Steps run
//! one after the other.

use std::collections::BTreeSet;

use curtail_dist::{Distribution, Spec, Time};
use curtail_kernel::{Policy, flow};

use super::file::{
    ClientsFile, FaultKind, FluctuationFile, GraphFile, ResourceFile, ServiceFile, WorkflowFile,
};

/// The reason why a graph cannot be simulated, with the place and the fix.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {why}")]
pub struct GraphError {
    at: String,
    why: String,
}

pub(super) fn wrong<T>(at: impl Into<String>, why: impl Into<String>) -> Result<T, GraphError> {
    Err(GraphError { at: at.into(), why: why.into() })
}

/// A checked step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Use { resource: u32, time: Distribution },
    Call { endpoint: u32, count: u32, via: Option<u32> },
}

/// The steps of a workflow at a service.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) service: u32,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "a graph has a few of them")]
pub(super) enum Route {
    Random,
    Key {
        blocks: u32,
    },
    /// Each caller picks processes with this policy, independently of other callers.
    Pick(Policy),
}

/// A change at a process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Slots {
        resource: u32,
        slots: u32,
    },
    Down,
    Up,
    /// All work of the process takes this many times as long.
    Slower(f64),
    Announces(Announces),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announces {
    Rates,
    Nothing,
    Nonsense,
}

/// A checked service.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// The number of processes.
    pub instances: u32,
    pub(super) route: Route,
    /// The resources of each process.
    pub resources: Vec<flow::ResourceSpec>,
    /// The names of the resources.
    pub names: Vec<String>,
    /// The changes: the time in ns, the index of the process (or `None` for all processes), and the
    /// change.
    pub(super) changes: Vec<(u64, Option<u32>, Change)>,
    /// The interval in ns at which each process draws its speed, and the factor by which work takes
    /// longer at a slow process.
    pub(super) fluctuates: Option<(u64, f64)>,
}

impl Service {
    /// Whether the service's processes never change and all calls go to the processes that were
    /// drawn with the request.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let picks = matches!(self.route, Route::Pick(_));
        self.changes.is_empty() && self.fluctuates.is_none() && !picks
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Deadline {
    After(u64),
    Times(f64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Clients {
    /// Requests per second. `None` for closed clients.
    pub(super) open: Option<f64>,
    pub(super) closed: u32,
    pub(super) think_ns: u64,
    pub(super) backoff_ns: u64,
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    pub(super) fixed: bool,
}

/// A checked workflow.
#[derive(Clone, Debug)]
pub struct Workflow {
    /// Its name.
    pub name: String,
    pub(super) deadline: Option<Deadline>,
    pub(super) partitions: u32,
    /// The settings that operators have made.
    pub settings: flow::Workflow,
    pub(super) clients: Vec<Clients>,
    /// The first one is the entry.
    pub(super) endpoints: Vec<Endpoint>,
}

/// A graph of services that can be simulated.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Simulated time.
    pub duration_ns: u64,
    pub(super) warmup_ns: u64,
    /// The interval at which counts and rates are sampled.
    pub sample_ns: u64,
    pub(super) network: Distribution,
    /// The time after which a client gives up.
    pub timeout_ns: u64,
    /// Parameters of the flow control.
    pub flow: flow::Config,
    /// The share of announcements that are lost.
    pub(super) loss: f64,
    /// The delay of announcements.
    pub(super) delay_ns: u64,
    /// Services. The first one is the entry.
    pub services: Vec<Service>,
    /// The workflows with their clients.
    pub workflows: Vec<Workflow>,
}

/// The maximum number of calls of one request.
const MOST_NODES: u64 = 100_000;

impl Graph {
    /// Checks a file.
    ///
    /// # Errors
    /// The error names the first problem and its place.
    pub fn new(file: &GraphFile) -> Result<Self, GraphError> {
        if file.service.len() > SERVICES_MAX {
            let count = file.service.len();
            return wrong(
                "the graph",
                format!("{count} services are too many: at most {SERVICES_MAX} are allowed"),
            );
        }
        let services: Vec<Service> = file.service.iter().map(service).collect::<Result<_, _>>()?;
        if services.is_empty() || file.workflow.is_empty() {
            return wrong("the graph", "add at least one [[service]] and one [[workflow]]");
        }
        let (duration_ns, warmup_ns) =
            (time("duration", &file.duration)?, time("warmup", &file.warmup)?);
        let timeout_ns = above_zero("timeout", &file.timeout)?;
        if warmup_ns.saturating_add(timeout_ns) >= duration_ns || duration_ns > DAY_NS {
            let why = "must be longer than warmup and timeout together, and at most a day (86400s)";
            return wrong("duration", why);
        }
        let graph = Self {
            duration_ns,
            warmup_ns,
            sample_ns: above_zero("sample", &file.sample)?.clamp(1_000_000, duration_ns),
            network: distribution("network", &file.network)?,
            timeout_ns,
            flow: flow::Config::default(),
            loss: 0.0,
            delay_ns: 0,
            workflows: file
                .workflow
                .iter()
                .map(|of| workflow(of, &services, duration_ns))
                .collect::<Result<_, _>>()?,
            services,
        };
        let names = graph.workflows.iter().map(|of| &of.name).collect::<BTreeSet<_>>();
        if names.len() < graph.workflows.len() {
            return wrong("the graph", "two workflows have the same name");
        }
        file.flow.iter().try_fold(graph, |graph, (name, value)| graph.tuned(name, *value))
    }
}

const DAY_NS: u64 = 86_400_000_000_000;
const SERVICES_MAX: usize = 256;
const CLOSED_MAX: u32 = 100_000;

impl Graph {
    /// Returns the period in which counted requests are sent.
    #[must_use]
    pub fn counted_ns(&self) -> std::ops::Range<u64> {
        self.warmup_ns..self.duration_ns - self.timeout_ns
    }

    /// Returns the number of samples of a run.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.duration_ns.div_ceil(self.sample_ns)
    }

    /// Returns the graph with another value for a flow-control parameter.
    ///
    /// # Errors
    /// The parameter does not exist, or the value is out of range.
    pub fn tuned(mut self, name: &str, value: f64) -> Result<Self, GraphError> {
        let mut set = Ok(());
        match name {
            "loss" if (0.0..=1.0).contains(&value) => self.loss = value,
            "loss" => set = Err("loss must be 0 to 1, the fraction of all announcements"),
            "delay" if (0.0..=60.0).contains(&value) => self.delay_ns = (value * 1e9) as u64,
            "delay" => set = Err("delay must be 0 to 60 s"),
            _ => set = self.flow.set(name, value),
        }
        set.or_else(|why| wrong(format!("flow.{name} = {value}"), why))?;
        Ok(self)
    }

    /// Returns the graph with another route to a service.
    ///
    /// # Errors
    /// There is no such service or route.
    pub fn routed(mut self, name: &str, to: &str) -> Result<Self, GraphError> {
        let at = format!("service {name}");
        match self.services.iter_mut().skip(1).find(|of| of.name == name) {
            Some(of) => of.route = route(&at, to)?,
            None => return wrong(at, "name a service that others call"),
        }
        Ok(self)
    }

    /// Returns the graph without the clients of a workflow.
    ///
    /// # Errors
    /// There is no such workflow.
    pub fn without(mut self, name: &str) -> Result<Self, GraphError> {
        let Some(of) = self.workflows.iter_mut().find(|of| of.name == name) else {
            let known: Vec<&str> = self.workflows.iter().map(|of| of.name.as_str()).collect();
            return wrong(format!("workflow {name}"), format!("there are {}", known.join(", ")));
        };
        of.clients.clear();
        Ok(self)
    }

    /// Returns a smaller version of the graph: services have 1/`by` of their processes, and clients
    /// send 1/`by` of their load.
    ///
    /// # Errors
    /// The number of processes of a service is not a multiple of `by`.
    pub fn divided(mut self, by: u32) -> Result<Self, GraphError> {
        let by = by.max(1);
        for service in &mut self.services {
            if service.instances % by != 0 {
                let why = format!("{} instances; use a divisor of this number", service.instances);
                return wrong(format!("service {} divided by {by}", service.name), why);
            }
            service.instances /= by;
        }
        Ok(self.scaled(1.0 / f64::from(by), |_| true))
    }

    /// Returns the graph with a multiple of its load: both the rate of open clients and the number
    /// of closed clients are multiplied. The load of clients with a fixed load does not change.
    #[must_use]
    pub fn loaded(self, times: f64) -> Self {
        self.scaled(times, |clients| !clients.fixed)
    }

    fn scaled(mut self, times: f64, which: fn(&Clients) -> bool) -> Self {
        let clients = self.workflows.iter_mut().flat_map(|of| &mut of.clients);
        for clients in clients.filter(|clients| which(clients)) {
            clients.open = clients.open.map(|rate| rate * times);
            let closed = (f64::from(clients.closed) * times).round() as u32;
            clients.closed = closed.max(clients.closed.min(1));
        }
        self
    }
}

fn time(at: &str, text: &str) -> Result<u64, GraphError> {
    match text.parse::<Time>() {
        Ok(time) if (0.0..=DAY_NS as f64).contains(&time.ns(1e9)) => Ok(time.ns(1e9) as u64),
        Ok(_) => wrong(at, format!("{text:?} is out of range: must be 0s to 86400s")),
        Err(_) => wrong(at, format!("{text:?} is not a time; write it like 250us, 10ms or 1.5s")),
    }
}

fn above_zero(at: &str, text: &str) -> Result<u64, GraphError> {
    match time(at, text)? {
        0 => wrong(at, format!("{text:?}: must be above 0s")),
        ns => Ok(ns),
    }
}

fn distribution(at: &str, text: &str) -> Result<Distribution, GraphError> {
    let parsed = text.parse::<Spec>().map_err(|error| error.to_string());
    let resolved = parsed.and_then(|spec| spec.resolve(1e6).map_err(|error| error.to_string()));
    resolved.or_else(|why| wrong(at, format!("{text:?}: {why}")))
}

fn service(file: &ServiceFile) -> Result<Service, GraphError> {
    let at = format!("service {}", file.name);
    if !(1..=1_000).contains(&file.instances) {
        return wrong(at, format!("{} instances: must be 1 to 1000", file.instances));
    }
    let route = route(&at, &file.route)?;
    let mut changes = faults(&at, file)?;
    for (index, of) in file.resource.iter().enumerate() {
        if of.slots == 0 || of.queue == 0 || of.then_slots == Some(0) {
            return wrong(at, format!("resource {}: slots and queue must be at least 1", of.name));
        }
        if let (Some(when), Some(slots)) = (&of.changes_at, of.then_slots) {
            let to = Change::Slots { resource: index as u32, slots };
            changes.push((time(&at, when)?, None, to));
        }
    }
    let spec = |of: &ResourceFile| flow::ResourceSpec { slots: of.slots, queue: of.queue };
    Ok(Service {
        name: file.name.clone(),
        instances: file.instances,
        route,
        resources: file.resource.iter().map(spec).collect(),
        names: file.resource.iter().map(|of| of.name.clone()).collect(),
        changes,
        fluctuates: file.fluctuates.as_ref().map(|of| fluctuation(&at, of)).transpose()?,
    })
}

fn route(at: &str, text: &str) -> Result<Route, GraphError> {
    match (text, text.strip_prefix("key:").map(str::parse)) {
        ("random", _) => Ok(Route::Random),
        ("key", _) => Ok(Route::Key { blocks: 1 }),
        (_, Some(Ok(blocks))) if blocks > 0 => Ok(Route::Key { blocks }),
        _ => {
            // Calls do not wait at their callers, so policies with rates cannot be used.
            let fits = |of: &Policy| of.rate().is_none() && !of.hedges() && !of.pulls();
            match Policy::parse(text, None).ok().filter(fits) {
                Some(policy) => Ok(Route::Pick(policy)),
                None => {
                    let names = "random, key, key:N, c3, two-choices or least-outstanding";
                    wrong(at, format!("route {text:?}; write {names}"))
                }
            }
        }
    }
}

fn times(at: &str, times: f64) -> Result<f64, GraphError> {
    if (1e-3..=1e3).contains(&times) {
        return Ok(times);
    }
    wrong(at, format!("times = {times}: must be 0.001 to 1000"))
}

fn fluctuation(at: &str, of: &FluctuationFile) -> Result<(u64, f64), GraphError> {
    Ok((time(at, &of.every)?.max(1_000_000), times(at, of.times)?))
}

fn faults(at: &str, file: &ServiceFile) -> Result<Vec<(u64, Option<u32>, Change)>, GraphError> {
    let mut changes = Vec::new();
    for of in &file.fault {
        let at = format!("{at}: fault at {}", of.at);
        let (from, until) = (time(&at, &of.at)?, time(&at, &of.until)?);
        if from >= until || of.instance >= file.instances {
            return wrong(at, "it must end after it begins, and its instance must exist");
        }
        let [begins, ends] = match of.kind {
            FaultKind::Down => [Change::Down, Change::Up],
            FaultKind::Slow => [times(&at, of.times)?, 1.0].map(Change::Slower),
            FaultKind::Silent => [Announces::Nothing, Announces::Rates].map(Change::Announces),
            FaultKind::Nonsense => [Announces::Nonsense, Announces::Rates].map(Change::Announces),
        };
        changes.extend([(from, Some(of.instance), begins), (until, Some(of.instance), ends)]);
    }
    Ok(changes)
}

fn workflow(
    file: &WorkflowFile,
    services: &[Service],
    end_ns: u64,
) -> Result<Workflow, GraphError> {
    let at = format!("workflow {}", file.name);
    let Some(entry) = services.first() else { return wrong(at, "there is no service") };
    if matches!(entry.route, Route::Pick(_)) {
        return wrong(
            at,
            "clients of the entry cannot use a policy; write route = \"random\" there",
        );
    }
    // The entry first.
    let mut names: Vec<&String> = file.at.keys().collect();
    names.sort_by_key(|name| **name != entry.name);
    if names.first().is_none_or(|name| **name != entry.name) {
        return wrong(at, format!("at.{} is missing: requests enter there", entry.name));
    }
    let endpoint = |name: &&String| endpoint(&at, name, &file.at[*name], services, &names);
    let endpoints: Vec<Endpoint> = names.iter().map(endpoint).collect::<Result<_, _>>()?;
    let mut nodes = vec![None; endpoints.len()];
    count(&at, 0, &endpoints, &mut nodes, 0)?;
    if !(file.weight > 0.0 && file.weight.is_finite() && file.guarantee >= 0.0) {
        return wrong(at, "weight must be above 0, and guarantee at least 0");
    }
    if file.partitions == 0 {
        return wrong(at, "partitions = 0: must be at least 1");
    }
    let clients = |of: &ClientsFile| clients(&at, of, end_ns);
    Ok(Workflow {
        name: file.name.clone(),
        deadline: file.deadline.as_deref().map(|text| deadline(&at, text)).transpose()?,
        partitions: file.partitions,
        settings: flow::Workflow {
            weight: file.weight,
            guarantee: file.guarantee,
            priority: file.priority,
            ..flow::Workflow::default()
        },
        clients: file.clients.iter().map(clients).collect::<Result<_, _>>()?,
        endpoints,
    })
}

fn deadline(at: &str, text: &str) -> Result<Deadline, GraphError> {
    match text.strip_suffix('x').map(str::parse::<f64>) {
        Some(Ok(times)) if times > 0.0 && times <= 1e6 => Ok(Deadline::Times(times)),
        Some(_) => wrong(at, format!("deadline {text:?}; write it as 300ms, or as 4x")),
        None => Ok(Deadline::After(above_zero(at, text)?)),
    }
}

fn clients(at: &str, of: &ClientsFile, end_ns: u64) -> Result<Clients, GraphError> {
    let (open, closed) = (of.open, of.closed.unwrap_or(0));
    if open.is_some() == (closed > 0) {
        return wrong(
            at,
            "clients need either a rate, like open = 100, or a number, like closed = 30",
        );
    }
    if let Some(rate) = open.filter(|rate| !(*rate > 0.0 && *rate <= 1e6)) {
        return wrong(at, format!("open = {rate}: must be above 0 and at most 1000000 per second"));
    }
    if closed > CLOSED_MAX {
        return wrong(at, format!("closed = {closed}: must be at most {CLOSED_MAX} clients"));
    }
    let until = of.until.as_deref();
    let (from_ns, until_ns) =
        (time(at, &of.from)?, until.map_or(Ok(end_ns), |until| time(at, until))?);
    if from_ns >= until_ns.min(end_ns) {
        let ends = until.unwrap_or("the end");
        return wrong(
            at,
            format!("clients begin at {} and end at {ends}; they must begin earlier", of.from),
        );
    }
    Ok(Clients {
        open,
        closed,
        think_ns: time(at, &of.think)?,
        backoff_ns: time(at, &of.backoff)?.max(1_000),
        from_ns,
        until_ns,
        fixed: of.fixed,
    })
}

fn endpoint(
    at: &str,
    name: &str,
    steps: &[String],
    services: &[Service],
    names: &[&String],
) -> Result<Endpoint, GraphError> {
    let of = name.split('/').next().unwrap_or(name);
    let Some(service) = services.iter().position(|service| service.name == of) else {
        return wrong(at, format!("at.{name}: there is no service {of}"));
    };
    let step = |text: &String| step(&format!("{at} at {name}"), text, &services[service], names);
    let steps = steps.iter().map(step).collect::<Result<_, _>>()?;
    Ok(Endpoint { service: service as u32, steps })
}

fn step(at: &str, text: &str, service: &Service, names: &[&String]) -> Result<Step, GraphError> {
    const FORM: &str = "write \"use RESOURCE TIME\" or \"call SERVICE [xN] [via RESOURCE]\"";
    let resource = |name: &str| match service.names.iter().position(|known| known == name) {
        Some(at) => Ok(at as u32),
        None => wrong(at, format!("{text:?}: {} has no resource {name}", service.name)),
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    match &words[..] {
        ["use", name, time] => {
            Ok(Step::Use { resource: resource(name)?, time: distribution(at, time)? })
        }
        ["call", name, rest @ ..] => {
            let Some(endpoint) = names.iter().position(|known| known == name) else {
                return wrong(at, format!("{text:?}: at.{name} is missing"));
            };
            let (count, rest) = match rest {
                [times, rest @ ..] if times.starts_with('x') => (times[1..].parse().ok(), rest),
                rest => (Some(1), rest),
            };
            let via = match rest {
                [] => None,
                ["via", name] => Some(resource(name)?),
                _ => return wrong(at, format!("{text:?}; {FORM}")),
            };
            let Some(count) = count.filter(|count| (1..=10_000).contains(count)) else {
                return wrong(
                    at,
                    format!("{text:?}: the number of parallel calls must be x1 to x10000"),
                );
            };
            Ok(Step::Call { endpoint: endpoint as u32, count, via })
        }
        _ => wrong(at, format!("{text:?}; {FORM}")),
    }
}

/// Counts the visits that a call to an endpoint causes, including its own.
fn count(
    at: &str,
    endpoint: usize,
    all: &[Endpoint],
    known: &mut Vec<Option<u64>>,
    depth: usize,
) -> Result<u64, GraphError> {
    if depth > all.len() {
        return wrong(at, "its calls form a circle: an endpoint calls itself");
    }
    if let Some(nodes) = known[endpoint] {
        return Ok(nodes);
    }
    let mut nodes = 1_u64;
    for step in &all[endpoint].steps {
        if let Step::Call { endpoint, count: calls, .. } = step {
            let each = count(at, *endpoint as usize, all, known, depth + 1)?;
            nodes = nodes.saturating_add(each.saturating_mul(u64::from(*calls)));
        }
    }
    if nodes > MOST_NODES {
        return wrong(
            at,
            format!("a request makes {nodes} calls: at most {MOST_NODES} are allowed"),
        );
    }
    known[endpoint] = Some(nodes);
    Ok(nodes)
}
