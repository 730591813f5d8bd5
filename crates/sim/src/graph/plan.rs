//! What one request will do, drawn before it begins: so all ways of control meet the same requests, and its time in
//! isolation is known.

use std::collections::BTreeMap;

use curtail_dist::seed;
use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

use super::spec::{Graph, Route, Step, Workflow};

/// What a visit does.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "as in a file")]
pub enum Act {
    /// Holds a resource for a time.
    Use { resource: u32, ns: u64 },
    /// Calls these nodes in parallel, each of which holds a resource meanwhile, if one is given.
    Call { first: u32, count: u32, via: Option<u32> },
}

/// A visit of a process.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Of all instances of all services.
    pub instance: u32,
    /// Of the scarcest resource that it uses there; 0 where it uses none.
    slots: u32,
    acts: (u32, u32),
}

/// A request: nodes and their acts; the calls of a node are behind it.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Visits; the first is that of the entry.
    pub nodes: Vec<Node>,
    /// The priority of its user, 0 to 127.
    pub user: u32,
    acts: Vec<Act>,
}

impl Plan {
    /// A request of a workflow.
    #[must_use]
    pub fn draw(graph: &Graph, workflow: &Workflow, rng: &mut Pcg64Mcg) -> Self {
        let mut plan = Self { user: rng.next_u32() >> 25, ..Self::default() };
        let partition = rng.next_u32() % workflow.partitions;
        // By node: its endpoint.
        let mut endpoints = vec![0_u32];
        plan.nodes.push(Node::default());
        let mut at = 0;
        while at < plan.nodes.len() {
            let endpoint = &workflow.endpoints[endpoints[at] as usize];
            let instance = route(graph, endpoint.service, (&workflow.name, partition), rng);
            let begin = plan.acts.len() as u32;
            for step in &endpoint.steps {
                let act = match step {
                    Step::Use { resource, time } => {
                        Act::Use { resource: *resource, ns: (time.sample(rng) as u64).max(1) }
                    }
                    Step::Call { endpoint, count, via } => {
                        let first = plan.nodes.len() as u32;
                        for _ in 0..*count {
                            plan.nodes.push(Node::default());
                            endpoints.push(*endpoint);
                        }
                        Act::Call { first, count: *count, via: *via }
                    }
                };
                plan.acts.push(act);
            }
            let resources = &graph.services[endpoint.service as usize].resources;
            let slots = endpoint.steps.iter().filter_map(|step| match step {
                Step::Use { resource, .. } => Some(resources[*resource as usize].slots),
                Step::Call { .. } => None,
            });
            let slots = slots.min().unwrap_or(0);
            plan.nodes[at] = Node { instance, slots, acts: (begin, plan.acts.len() as u32) };
            at += 1;
        }
        plan
    }

    /// The act of a node at this step; none after the last.
    #[must_use]
    pub fn act(&self, node: u32, step: u32) -> Option<Act> {
        let (begin, end) = self.nodes[node as usize].acts;
        (begin + step < end).then(|| self.acts[(begin + step) as usize])
    }

    /// How long the request takes where it is alone, in ns: parallel calls of its own wait for each other where they
    /// meet at one process, and are taken to keep its slots busy.
    pub(super) fn isolated_ns(&self, network_ns: u64) -> u64 {
        let mut took = vec![0_u64; self.nodes.len()];
        for at in (0..self.nodes.len()).rev() {
            let (begin, end) = self.nodes[at].acts;
            let acts = &self.acts[begin as usize..end as usize];
            let act = |act: &Act| match *act {
                Act::Use { ns, .. } => ns,
                Act::Call { first, count, .. } => {
                    let calls = first as usize..(first + count) as usize;
                    2 * network_ns + self.together_ns(calls, &took)
                }
            };
            took[at] = acts.iter().map(act).sum();
        }
        took[0] + 2 * network_ns
    }

    /// How long parallel calls take, of which each takes so long.
    fn together_ns(&self, calls: std::ops::Range<usize>, took: &[u64]) -> u64 {
        let longest = took[calls.clone()].iter().max().copied().unwrap_or(0);
        let mut sums = BTreeMap::new();
        for call in calls {
            let Node { instance, slots, .. } = self.nodes[call];
            *sums.entry(instance).or_insert(0) += took[call] / u64::from(slots.max(1));
        }
        sums.into_values().max().unwrap_or(0).max(longest)
    }
}

/// An instance of the service, of all instances.
fn route(graph: &Graph, service: u32, (name, partition): (&str, u32), rng: &mut Pcg64Mcg) -> u32 {
    let before = &graph.services[..service as usize];
    let first: u32 = before.iter().map(|service| service.instances).sum();
    let service = &graph.services[service as usize];
    let within = match service.route {
        Route::Random | Route::Pick(_) => rng.next_u64(),
        Route::Key { blocks } => {
            let block = rng.next_u32() % blocks;
            let key = [name.as_bytes(), &partition.to_le_bytes(), &block.to_le_bytes()];
            seed::stream(7, &key)
        }
    };
    first + (within % u64::from(service.instances)) as u32
}
