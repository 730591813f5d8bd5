//! The course of one request, which is drawn before the request begins. All controls therefore meet
//! the same requests, and the time that a request would take if it were alone in the graph can be
//! computed.

use std::collections::BTreeMap;

use curtail_dist::seed;
use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

use super::spec::{Graph, Route, Step, Workflow};

/// One action of a visit to a process.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the comments on the variants cover the fields")]
pub enum Act {
    /// Holds a resource for the given time.
    Use { resource: u32, ns: u64 },
    /// Calls these nodes in parallel. Each call holds the resource `via`, if there is one, while
    /// the call runs.
    Call { first: u32, count: u32, via: Option<u32> },
}

/// A visit to a process.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Index among all instances of all services.
    pub instance: u32,
    /// The number of slots of the scarcest resource that the visit uses, or 0 if it uses none.
    slots: u32,
    acts: (u32, u32),
}

/// A request: its nodes and their actions. The nodes that a node calls come after the node itself.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The visits. The first visit is at the entry.
    pub nodes: Vec<Node>,
    /// The priority of its user, 0 to 127.
    pub user: u32,
    acts: Vec<Act>,
}

impl Plan {
    /// Draws a request of a workflow.
    #[must_use]
    pub fn draw(graph: &Graph, workflow: &Workflow, rng: &mut Pcg64Mcg) -> Self {
        let mut plan = Self { user: rng.next_u32() >> 25, ..Self::default() };
        let partition = rng.next_u32() % workflow.partitions;
        // Endpoint of each node.
        let mut endpoints = vec![0_u32];
        plan.nodes.push(Node::default());
        let mut at = 0;
        while at < plan.nodes.len() {
            let endpoint = &workflow.endpoints[endpoints[at] as usize];
            let instance = route(graph, endpoint.service, &workflow.name, partition, rng);
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

    /// Returns the action of a node at this step, or `None` after the last step.
    #[must_use]
    pub fn act(&self, node: u32, step: u32) -> Option<Act> {
        let (begin, end) = self.nodes[node as usize].acts;
        (begin + step < end).then(|| self.acts[(begin + step) as usize])
    }

    /// Returns the time, in ns, that the request takes if it is alone in the graph. Parallel calls
    /// of the request wait for each other if they visit the same process. Such calls are assumed to
    /// keep all slots of the process busy.
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

    /// Returns the time from the start of parallel calls until the last of them ends. `took`
    /// contains the time that each node takes.
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

/// Chooses an instance of the service. Returns its index among all instances.
fn route(graph: &Graph, service: u32, name: &str, partition: u32, rng: &mut Pcg64Mcg) -> u32 {
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
