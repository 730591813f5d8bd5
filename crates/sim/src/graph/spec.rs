//! A graph of services as it is written in a file, and checked.
//!
//! A step is a line of a small language: `use disk exp:4ms` holds a resource for a time; `call bs/read x20 via
//! connections` sends 20 calls in parallel to an endpoint of another service, each of which holds a resource of the
//! caller meanwhile. Steps follow each other.

use std::collections::BTreeMap;

use curtail_dist::{Distribution, Spec, Time};
use curtail_kernel::flow;
use serde::Deserialize;

/// Why a graph cannot be simulated: where, and how to fix it.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {why}")]
pub struct GraphError {
    at: String,
    why: String,
}

pub(super) fn wrong<T>(at: impl Into<String>, why: impl Into<String>) -> Result<T, GraphError> {
    Err(GraphError { at: at.into(), why: why.into() })
}

/// A graph of services and who sends to it, as in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphFile {
    /// How long it is simulated, as `60s`.
    pub duration: String,
    /// What starts before that is not counted, nor what starts less than a time-out before the end.
    #[serde(default = "zero")]
    pub warmup: String,
    /// How often rates and counts are sampled.
    #[serde(default = "one_second")]
    pub sample: String,
    /// One way between two processes: a distribution.
    #[serde(default = "zero_network")]
    pub network: String,
    /// A client gives up after that.
    #[serde(default = "ten_seconds")]
    pub timeout: String,
    /// Parameters of the flow control, by the names of [`flow::Config::NAMES`]; times in seconds.
    #[serde(default)]
    pub flow: BTreeMap<String, f64>,
    /// Services; the first is the entry.
    pub service: Vec<ServiceFile>,
    /// Workflows.
    pub workflow: Vec<WorkflowFile>,
}

/// A service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceFile {
    /// Its name.
    pub name: String,
    /// How many processes it has.
    pub instances: u32,
    /// Which of them gets a call: `random`, or `key` or `key:N` for that which holds the request's partition, or one of
    /// N blocks of it.
    #[serde(default = "random")]
    pub route: String,
    /// What its processes have.
    #[serde(default)]
    pub resource: Vec<ResourceFile>,
}

/// A resource of each process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceFile {
    /// Its name.
    pub name: String,
    /// So many sub-tasks hold it at once.
    pub slots: u32,
    /// So many wait.
    #[serde(default = "ten_thousand")]
    pub queue: u32,
    /// From this time on it has `then_slots`.
    pub changes_at: Option<String>,
    /// See `changes_at`.
    pub then_slots: Option<u32>,
}

/// A workflow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowFile {
    /// Its name.
    pub name: String,
    /// After which a request is late: a time, or `4x` their mean time in isolation. The time-out, where it is not given.
    pub deadline: Option<String>,
    /// In how many partitions its data are.
    #[serde(default = "four")]
    pub partitions: u32,
    /// Its share, relative to others.
    #[serde(default = "one")]
    pub weight: f64,
    /// Requests per second that it gets in any case.
    #[serde(default)]
    pub guarantee: f64,
    /// Under strict priority, and for admission by priority: larger ones come first.
    #[serde(default)]
    pub priority: u32,
    /// Who sends.
    pub clients: Vec<ClientsFile>,
    /// By service or `service/endpoint`: the steps there.
    pub at: BTreeMap<String, Vec<String>>,
}

/// Clients that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientsFile {
    /// So many requests per second, as a Poisson process.
    pub open: Option<f64>,
    /// Or so many clients, each of which waits for its response before it sends again.
    pub closed: Option<u32>,
    /// That pause in between.
    #[serde(default = "zero")]
    pub think: String,
    /// After a request that failed, a closed client pauses for so long.
    #[serde(default = "backoff")]
    pub backoff: String,
    /// When they begin.
    #[serde(default = "zero")]
    pub from: String,
    /// When they end.
    pub until: Option<String>,
    /// Other loads than 1 are of other clients, not of these.
    #[serde(default)]
    pub fixed: bool,
}

fn zero() -> String {
    "0s".to_owned()
}
fn one_second() -> String {
    "1s".to_owned()
}
fn zero_network() -> String {
    "det:250us".to_owned()
}
fn ten_seconds() -> String {
    "10s".to_owned()
}
fn backoff() -> String {
    "100ms".to_owned()
}
fn random() -> String {
    "random".to_owned()
}
fn ten_thousand() -> u32 {
    10_000
}
fn four() -> u32 {
    4
}
fn one() -> f64 {
    1.0
}

/// A step, checked.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Use { resource: u32, time: Distribution },
    Call { endpoint: u32, count: u32, via: Option<u32> },
}

/// Steps of a workflow at a service.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) service: u32,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Route {
    Random,
    Key { blocks: u32 },
}

/// A service, checked.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// How many processes it has.
    pub instances: u32,
    pub(super) route: Route,
    /// What each of them has.
    pub resources: Vec<flow::ResourceSpec>,
    /// The names of these.
    pub names: Vec<String>,
    /// Time, resource, slots.
    pub changes: Vec<(u64, u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Deadline {
    After(u64),
    Times(f64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Clients {
    /// Per second; none of closed ones.
    pub(super) open: Option<f64>,
    pub(super) closed: u32,
    pub(super) think_ns: u64,
    pub(super) backoff_ns: u64,
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    pub(super) fixed: bool,
}

/// A workflow, checked.
#[derive(Clone, Debug)]
pub struct Workflow {
    /// Its name.
    pub name: String,
    pub(super) deadline: Option<Deadline>,
    pub(super) partitions: u32,
    /// What operators say of it.
    pub settings: flow::Workflow,
    pub(super) clients: Vec<Clients>,
    /// The first is where it enters.
    pub(super) endpoints: Vec<Endpoint>,
}

/// A graph of services that can be simulated.
#[derive(Clone, Debug)]
pub struct Graph {
    /// How long it runs.
    pub duration_ns: u64,
    pub(super) warmup_ns: u64,
    /// How often counts and rates are sampled.
    pub sample_ns: u64,
    pub(super) network: Distribution,
    /// After how long a client gives up.
    pub timeout_ns: u64,
    /// The parameters of the flow control.
    pub flow: flow::Config,
    /// The first is the entry.
    pub services: Vec<Service>,
    /// Who sends.
    pub workflows: Vec<Workflow>,
}

/// The most sub-tasks and calls of one request.
const MOST_NODES: u64 = 100_000;

impl Graph {
    /// Checks a file.
    ///
    /// # Errors
    /// The first thing that is wrong, and where.
    pub fn new(file: &GraphFile) -> Result<Self, GraphError> {
        let services: Vec<Service> = file.service.iter().map(service).collect::<Result<_, _>>()?;
        if services.is_empty() || file.workflow.is_empty() {
            return wrong("the graph", "give it a [[service]] and a [[workflow]] at least");
        }
        let (duration_ns, warmup_ns) =
            (time("duration", &file.duration)?, time("warmup", &file.warmup)?);
        let timeout_ns = time("timeout", &file.timeout)?.max(1);
        if warmup_ns.saturating_add(timeout_ns) >= duration_ns || duration_ns > DAY_NS {
            let why = "give more than warmup and timeout together, and at most a day (86400s)";
            return wrong("duration", why);
        }
        let graph = Self {
            duration_ns,
            warmup_ns,
            sample_ns: time("sample", &file.sample)?.clamp(1_000_000, duration_ns),
            network: distribution("network", &file.network)?,
            timeout_ns,
            flow: flow::Config::default(),
            workflows: file
                .workflow
                .iter()
                .map(|of| workflow(of, &services, duration_ns))
                .collect::<Result<_, _>>()?,
            services,
        };
        file.flow.iter().try_fold(graph, |graph, (name, value)| graph.tuned(name, *value))
    }
}

const DAY_NS: u64 = 86_400_000_000_000;

impl Graph {
    /// From when to when requests are sent that are counted.
    #[must_use]
    pub fn counted_ns(&self) -> std::ops::Range<u64> {
        self.warmup_ns..self.duration_ns - self.timeout_ns
    }

    /// How many samples a run has.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.duration_ns.div_ceil(self.sample_ns)
    }

    /// The same with another value of a parameter of the flow control.
    ///
    /// # Errors
    /// There is no such parameter, or the value is out of its range.
    pub fn tuned(mut self, name: &str, value: f64) -> Result<Self, GraphError> {
        let set = self.flow.set(name, value);
        set.or_else(|why| wrong(format!("flow.{name} = {value}"), why))?;
        Ok(self)
    }

    /// The same without the clients of a workflow.
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

    /// A part of it: services have 1/`by` of their processes, and clients send 1/`by` of their load.
    ///
    /// # Errors
    /// A service has not so many processes, or they cannot be divided.
    pub fn divided(mut self, by: u32) -> Result<Self, GraphError> {
        let by = by.max(1);
        for service in &mut self.services {
            if service.instances % by != 0 {
                let why = format!("{} instances; give a divisor of them", service.instances);
                return wrong(format!("service {} divided by {by}", service.name), why);
            }
            service.instances /= by;
        }
        Ok(self.scaled(1.0 / f64::from(by), |_| true))
    }

    /// The same with so many times the load: of the rate of open clients, and of the number of closed ones.
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
        Ok(time) => Ok(time.ns(1e9) as u64),
        Err(_) => wrong(at, format!("{text:?} is no time; write it as 250us, 10ms or 1.5s")),
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
        return wrong(at, format!("{} instances; give it 1 to 1000", file.instances));
    }
    let route = match (file.route.as_str(), file.route.strip_prefix("key:")) {
        ("random", _) => Route::Random,
        ("key", _) => Route::Key { blocks: 1 },
        (_, Some(blocks)) if blocks.parse::<u32>().is_ok_and(|blocks| blocks > 0) => {
            Route::Key { blocks: blocks.parse().unwrap_or(1) }
        }
        (route, _) => return wrong(at, format!("route {route:?}; write random, key or key:N")),
    };
    let mut changes = Vec::new();
    for (index, of) in file.resource.iter().enumerate() {
        if of.slots == 0 || of.queue == 0 || of.then_slots == Some(0) {
            return wrong(at, format!("resource {}: give it a slot and room for one", of.name));
        }
        if let (Some(when), Some(slots)) = (&of.changes_at, of.then_slots) {
            changes.push((time(&at, when)?, index as u32, slots));
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
    })
}

fn workflow(
    file: &WorkflowFile,
    services: &[Service],
    end_ns: u64,
) -> Result<Workflow, GraphError> {
    let at = format!("workflow {}", file.name);
    let Some(entry) = services.first() else { return wrong(at, "there is no service") };
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
        return wrong(at, "weight is above 0, and guarantee at least 0");
    }
    let clients = |of: &ClientsFile| clients(&at, of, end_ns);
    Ok(Workflow {
        name: file.name.clone(),
        deadline: file.deadline.as_deref().map(|text| deadline(&at, text)).transpose()?,
        partitions: file.partitions.max(1),
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
        Some(Ok(times)) if times > 0.0 && times.is_finite() => Ok(Deadline::Times(times)),
        Some(_) => wrong(at, format!("deadline {text:?}; write it as 300ms, or as 4x")),
        None => Ok(Deadline::After(time(at, text)?)),
    }
}

fn clients(at: &str, of: &ClientsFile, end_ns: u64) -> Result<Clients, GraphError> {
    let (open, closed) = (of.open, of.closed.unwrap_or(0));
    if open.is_some() == (closed > 0) || open.is_some_and(|rate| !(rate > 0.0 && rate <= 1e6)) {
        return wrong(at, "clients have a rate, open = 100, or a number, closed = 30");
    }
    Ok(Clients {
        open,
        closed,
        think_ns: time(at, &of.think)?,
        backoff_ns: time(at, &of.backoff)?.max(1_000),
        from_ns: time(at, &of.from)?,
        until_ns: of.until.as_deref().map_or(Ok(end_ns), |until| time(at, until))?,
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
                return wrong(at, format!("{text:?}: x1 to x10000 calls in parallel"));
            };
            Ok(Step::Call { endpoint: endpoint as u32, count, via })
        }
        _ => wrong(at, format!("{text:?}; {FORM}")),
    }
}

/// How many sub-tasks and calls come of an endpoint.
fn count(
    at: &str,
    endpoint: usize,
    all: &[Endpoint],
    known: &mut Vec<Option<u64>>,
    depth: usize,
) -> Result<u64, GraphError> {
    if depth > all.len() {
        return wrong(at, "its calls go in a circle: an endpoint calls itself in the end");
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
        return wrong(at, format!("a request makes {nodes} calls; {MOST_NODES} at most"));
    }
    known[endpoint] = Some(nodes);
    Ok(nodes)
}
