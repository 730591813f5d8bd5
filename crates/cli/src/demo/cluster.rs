//! Starts and ends the processes of the search service.

use super::args::{Args, Plan};
use super::throttle::Throttle;
use crate::child::Process;
use crate::exit::Stop;

/// The leaves. Dropping this kills them.
pub(super) struct Cluster {
    /// Leaves by shard.
    leaves: Vec<Vec<Process>>,
    /// Declared after the leaves, because a control group can be removed only when it is empty.
    _throttle: Option<Throttle>,
}

impl Cluster {
    /// Starts all leaves in sequence; starting them in parallel would not be faster on a small
    /// machine.
    pub(super) async fn start(plan: &Plan<'_>) -> Result<Self, Stop> {
        let mut leaves = Vec::new();
        let mut throttle = plan.args.throttle.map(Throttle::new);
        for shard in 0..plan.args.shards {
            let mut replicas = Vec::new();
            for replica in 0..plan.args.replicas {
                let name = format!("leaf {shard}.{replica}");
                let process = Process::start(&name, &leaf(plan, shard, replica)).await?;
                if let (Some(throttle), Some(id)) = (&mut throttle, process.id()) {
                    throttle.add(id)?;
                }
                replicas.push(process);
            }
            leaves.push(replicas);
        }
        Ok(Self { leaves, _throttle: throttle })
    }

    /// The process ids of the running leaves.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.leaves.iter().flatten().filter_map(Process::id).collect()
    }

    /// Returns an error if a leaf has ended. A root would cope with that, but the measured service
    /// would no longer be the same.
    pub(super) fn is_whole(&mut self) -> Result<(), Stop> {
        for (shard, replicas) in self.leaves.iter_mut().enumerate() {
            for (replica, leaf) in replicas.iter_mut().enumerate() {
                if let Some(how) = leaf.ended() {
                    let text = format!(
                        "leaf {shard}.{replica} has ended ({how}) during its measurement; earlier \
                         results are kept"
                    );
                    return Err(Stop::Lacking(text));
                }
            }
        }
        Ok(())
    }

    /// Starts a root that queries these leaves under a policy.
    pub(super) async fn root(&self, plan: &Plan<'_>, policy: &str) -> Result<Process, Stop> {
        let mut args = vec!["root".into(), "--policy".into(), policy.into()];
        for replicas in &self.leaves {
            let addresses = replicas.iter().map(|leaf| leaf.address.to_string());
            args.extend(["--shard".into(), addresses.collect::<Vec<_>>().join(",")]);
        }
        args.extend(["--slots".into(), plan.args.slots.to_string()]);
        args.extend(["--seed".into(), plan.args.seed.seed.to_string()]);
        // The leaves stop cancelled queries. Policies that do not cancel are not affected.
        args.push("--cancel".into());
        Process::start(&format!("root with {policy}"), &args).await
    }
}

fn leaf(plan: &Plan<'_>, shard: u32, replica: u32) -> Vec<String> {
    let Args { out, slots, service_time, seed, pause, .. } = plan.args;
    let mut args = format!(
        "leaf --honor-cancel --shard {shard} --replica {replica} --slots {slots} --seed {}",
        seed.seed
    );
    if let Some(hiccup) = plan.hiccup {
        args += &format!(" --stratified --hiccup {hiccup}");
    }
    if pause.is_some() {
        args += " --tied-to-parent";
    }
    let mut args: Vec<String> = args.split(' ').map(str::to_owned).collect();
    // These values may contain spaces.
    args.extend(["--index".to_owned(), out.join("index").display().to_string()]);
    args.extend(["--service-time".to_owned(), service_time.to_string()]);
    args
}
