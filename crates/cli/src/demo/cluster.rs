//! The processes of the search service.

use super::args::Plan;
use crate::child::Process;
use crate::exit::Stop;

/// The leaves. They end with this.
pub(super) struct Cluster {
    /// By shard.
    leaves: Vec<Vec<Process>>,
}

impl Cluster {
    /// Starts all leaves, one after the other: a small machine would start none any sooner.
    pub(super) async fn start(plan: &Plan) -> Result<Self, Stop> {
        let mut leaves = Vec::new();
        for shard in 0..plan.shards {
            let mut replicas = Vec::new();
            for replica in 0..plan.replicas {
                let name = format!("leaf {shard}.{replica}");
                replicas.push(Process::start(&name, &leaf(plan, shard, replica)).await?);
            }
            leaves.push(replicas);
        }
        Ok(Self { leaves })
    }

    /// Starts a root with a policy in front of the leaves.
    pub(super) async fn root(&self, plan: &Plan, policy: &str) -> Result<Process, Stop> {
        let mut args = vec!["root".into(), "--policy".into(), policy.into()];
        for replicas in &self.leaves {
            let addresses = replicas.iter().map(|leaf| leaf.address.to_string());
            args.extend(["--shard".into(), addresses.collect::<Vec<_>>().join(",")]);
        }
        args.extend(["--slots".into(), plan.slots.to_string()]);
        args.extend(["--seed".into(), plan.seed.to_string()]);
        // The leaves stop where that is asked for; policies that do not ask are not changed by it.
        args.push("--cancel".into());
        Process::start(&format!("root with {policy}"), &args).await
    }
}

fn leaf(plan: &Plan, shard: u32, replica: u32) -> Vec<String> {
    let index = plan.out.join("index").display().to_string();
    let pairs = [
        ("--index", index),
        ("--shard", shard.to_string()),
        ("--replica", replica.to_string()),
        ("--slots", plan.slots.to_string()),
        ("--service-time", plan.service_time.to_string()),
        ("--hiccup", plan.hiccup.clone()),
        ("--seed", plan.seed.to_string()),
    ];
    let flags = pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    std::iter::once("leaf".to_owned()).chain(["--honor-cancel".to_owned()]).chain(flags).collect()
}
