//! The configuration of a process: its workflows, resources and parameters.
//!
//! Source: document 002 §5.2.3 and Table 5.1, *CreateRateLimiter* and *ConfigureResourceSemaphore*.
//!
//! Cost: this code runs once per process.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curtail_kernel::flow::{Config, ResourceSpec, Workflow, WorkflowId};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::flow::{Flow, Inner};
use crate::metadata::{MemberKey, WorkflowName};
use crate::state::State;

/// The name of the class that contains all workflows without a configuration.
pub const DEFAULT_WORKFLOW: &str = "default";

/// The maximum number of classes for workflows without a configuration.
const BUCKETS_MAX: u32 = 1_024;

/// The configuration of a workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkflowSpec {
    /// The weight, guarantee, limit and priority of the workflow.
    pub shares: Workflow,
    /// The time from a request's arrival in the system to its deadline. A request may set an
    /// earlier deadline itself.
    pub deadline: Option<Duration>,
}

impl From<Workflow> for WorkflowSpec {
    fn from(shares: Workflow) -> Self {
        Self { shares, deadline: None }
    }
}

/// The reason why a process cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The name of a workflow does not fit into metadata.
    #[error(
        "workflow {0:?}: its name is empty, or longer than 96 bytes when percent-encoded; change it"
    )]
    Name(String),
    /// Two workflows or two resources have the same name.
    #[error("{0:?} is used twice; give each workflow and each resource its own name")]
    Twice(String),
    /// A number is out of range.
    #[error("{place}: {key} = {value}: must be {range}")]
    Range {
        /// The workflow or resource that has the number, or `config`.
        place: String,
        /// The field.
        key: &'static str,
        /// Its value.
        value: String,
        /// The range of valid values.
        range: &'static str,
    },
}

/// Builds a [`Flow`].
#[derive(Clone, Debug)]
pub struct Builder {
    service: String,
    config: Config,
    buckets: u32,
    workflows: Vec<(String, WorkflowSpec)>,
    resources: Vec<(String, ResourceSpec)>,
    key: Option<MemberKey>,
}

impl Flow {
    /// Returns a builder for a process of a service. All processes of the service have the same
    /// name.
    #[must_use]
    pub fn builder(service: &str) -> Builder {
        Builder {
            service: service.to_owned(),
            config: Config::default(),
            buckets: 1,
            workflows: vec![(DEFAULT_WORKFLOW.to_owned(), WorkflowSpec::default())],
            resources: Vec::new(),
            key: None,
        }
    }
}

impl Builder {
    /// Adds a workflow. All workflows without a configuration share the class [`DEFAULT_WORKFLOW`],
    /// which can itself be configured. With [`Self::hash_buckets`], they share several classes
    /// instead.
    #[must_use]
    pub fn workflow(mut self, name: &str, spec: impl Into<WorkflowSpec>) -> Self {
        match name {
            DEFAULT_WORKFLOW => self.workflows[0].1 = spec.into(),
            _ => self.workflows.push((name.to_owned(), spec.into())),
        }
        self
    }

    /// Distributes workflows without a configuration over `buckets` classes (at most 1,024) by a
    /// randomly keyed hash of their names. This is stochastic fair queuing (McKenney 1990). A
    /// workflow that floods the process then affects only the workflows in its bucket. Each bucket
    /// has the configuration of [`DEFAULT_WORKFLOW`], including its weight and its queues. Metrics
    /// combine the buckets. If clients choose the names, one client can occupy all buckets.
    #[must_use]
    pub fn hash_buckets(self, buckets: u32) -> Self {
        Self { buckets, ..self }
    }

    /// Adds a resource.
    #[must_use]
    pub fn resource(mut self, name: &str, spec: ResourceSpec) -> Self {
        self.resources.push((name.to_owned(), spec));
        self
    }

    /// Signs the metadata of calls, and accepts only metadata that was signed with the same key.
    /// All processes of the system therefore need the same key.
    #[must_use]
    pub fn key(self, key: MemberKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Replaces the default parameters.
    #[must_use]
    pub fn config(self, config: Config) -> Self {
        Self { config, ..self }
    }

    /// Builds the process. The process needs a tokio runtime when its first request arrives.
    ///
    /// # Errors
    /// A name or a number is invalid.
    pub fn build(self) -> Result<Flow, BuildError> {
        self.check()?;
        let Self { service, config, buckets, workflows, resources, key } = self;
        let mut shares: Vec<Workflow> = workflows.iter().map(|(_, spec)| spec.shares).collect();
        shares.resize(shares.len() + buckets as usize - 1, shares[0]);
        let specs: Vec<ResourceSpec> = resources.iter().map(|&(_, spec)| spec).collect();
        let state = State::new(config, service_hash(&service), &shares, &specs);
        let numbered = workflows.iter().enumerate();
        let by_name: HashMap<String, WorkflowId> =
            numbered.map(|(at, (name, _))| (name.clone(), WorkflowId(at as u32))).collect();
        let named = |(name, spec): (String, WorkflowSpec)| match WorkflowName::new(&name) {
            Some(name) => Ok((name, spec.deadline)),
            None => Err(BuildError::Name(name)),
        };
        Ok(Flow(Arc::new(Inner {
            service,
            workflows: workflows.into_iter().map(named).collect::<Result<_, _>>()?,
            by_name,
            buckets,
            resources: resources.into_iter().map(|(name, _)| name).collect(),
            drops_late: config.drops_late,
            key,
            // The standard hasher has random keys.
            caller: RandomState::new().build_hasher().finish() as u32,
            since: Instant::now(),
            state: Mutex::new(state),
            notify: Arc::new(Notify::new()),
        })))
    }

    fn check(&self) -> Result<(), BuildError> {
        for names in [names(&self.workflows), names(&self.resources)] {
            let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
            if let Some(pair) = twice {
                return Err(BuildError::Twice(pair[0].to_owned()));
            }
        }
        for (name, spec) in &self.workflows {
            let Workflow { weight, guarantee, limit, .. } = spec.shares;
            range(name, "weight", &weight, weight > 0.0 && weight.is_finite(), "above 0")?;
            let is_rate = guarantee >= 0.0 && guarantee.is_finite();
            range(name, "guarantee", &guarantee, is_rate, "0 or above")?;
            range(name, "limit", &limit, limit > 0.0, "above 0")?;
        }
        for (name, spec) in &self.resources {
            range(name, "slots", &spec.slots, spec.slots > 0, "at least 1")?;
            range(name, "queue", &spec.queue, spec.queue > 0, "at least 1")?;
        }
        let (buckets, are_few) = (self.buckets, (1..=BUCKETS_MAX).contains(&self.buckets));
        range(DEFAULT_WORKFLOW, "hash_buckets", &buckets, are_few, "between 1 and 1024")?;
        let Config { interval_ns, quantile, target, least_rate, drain_ns, .. } = self.config;
        let Config { decay, slow_decay, probe, spare_gain, .. } = self.config;
        let of = "config";
        range(of, "interval_ns", &interval_ns, interval_ns >= 1_000_000, "at least 1 ms")?;
        range(of, "quantile", &quantile, (0.0..=1.0).contains(&quantile), "between 0 and 1")?;
        range(of, "target", &target, target > 0.0 && target <= 1.0, "above 0 and at most 1")?;
        let is_rate = least_rate > 0.0 && least_rate.is_finite();
        range(of, "least_rate", &least_rate, is_rate, "above 0")?;
        for (key, part) in [("decay", decay), ("slow_decay", slow_decay)] {
            range(of, key, &part, (0.0..1.0).contains(&part), "at least 0 and below 1")?;
        }
        for (key, part) in [("probe", probe), ("spare_gain", spare_gain)] {
            range(of, key, &part, part >= 0.0 && part.is_finite(), "0 or above")?;
        }
        range(of, "drain_ns", &drain_ns, drain_ns > 0, "above 0")
    }
}

fn names<T>(named: &[(String, T)]) -> Vec<&str> {
    let mut names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names
}

fn range(
    place: &str,
    key: &'static str,
    value: &dyn ToString,
    is_inside: bool,
    range: &'static str,
) -> Result<(), BuildError> {
    if is_inside {
        return Ok(());
    }
    Err(BuildError::Range { place: place.to_owned(), key, value: value.to_string(), range })
}

/// Returns the id that identifies a service in the set of services on which a rate depends. The id
/// is an FNV-1a hash, folded to 16 bits. All processes compute the same id.
fn service_hash(name: &str) -> u16 {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 16) as u16 ^ hash as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_value_is_refused_with_its_place() {
        let weight = Workflow { weight: f64::NAN, ..Workflow::default() };
        let error = Flow::builder("a").workflow("buy", weight).build().expect_err("no weight");
        assert_eq!(error.to_string(), "buy: weight = NaN: must be above 0");
        let config = Config { interval_ns: 0, ..Config::default() };
        assert!(Flow::builder("a").config(config).build().is_err());
        let config = Config { decay: f64::NAN, ..Config::default() };
        assert!(Flow::builder("a").config(config).build().is_err());
        let none = ResourceSpec { slots: 0, queue: 1 };
        assert!(Flow::builder("a").resource("disk", none).build().is_err());
        let buy = Workflow::default();
        let twice = Flow::builder("a").workflow("buy", buy).workflow("buy", buy).build();
        assert_eq!(twice.err(), Some(BuildError::Twice("buy".to_owned())));
        assert!(Flow::builder("a").workflow("", buy).build().is_err());
        assert!([0, 1_025].iter().all(|&n| Flow::builder("a").hash_buckets(n).build().is_err()));
        assert!(Flow::builder("a").workflow(DEFAULT_WORKFLOW, buy).build().is_ok());
    }
}
