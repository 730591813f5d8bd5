//! The processes of the search service, and their real hiccups. A signal stops a leaf, as a long garbage
//! collection or a busy hypervisor would, and another signal resumes it. Or each leaf gets a control
//! group with a share of one core, like a container with a CPU limit: a leaf that has exhausted its
//! share of a period waits for the next period.

use std::time::Duration;

use curtail_dist::seed;
use curtail_machine::CpuLimit;
use rand_core::Rng as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::args::{Args, Pauses, Plan};
use crate::child::Process;
use crate::exit::{Stop, lacking};

/// The leaves. Dropping this kills them.
pub(super) struct Cluster {
    /// Leaves by shard.
    leaves: Vec<Vec<Process>>,
    /// Declared after the leaves, because a control group can be removed only when it is empty.
    _limits: Vec<CpuLimit>,
}

impl Cluster {
    /// Starts all leaves in sequence; starting them in parallel would not be faster on a small
    /// machine.
    pub(super) async fn start(plan: &Plan<'_>) -> Result<Self, Stop> {
        let mut leaves = Vec::new();
        let mut limits = Vec::new();
        for shard in 0..plan.args.shards {
            let mut replicas = Vec::new();
            for replica in 0..plan.args.replicas {
                let name = format!("leaf {shard}.{replica}");
                let process = Process::start(&name, &leaf(plan, shard, replica)).await?;
                if let (Some(share), Some(id)) = (plan.args.throttle, process.id()) {
                    let limit = CpuLimit::new(id).and_then(|limit| {
                        limit.set(Some(share))?;
                        Ok(limit)
                    });
                    limits.push(limit.map_err(|why| lacking!("--throttle: {why}"))?);
                }
                replicas.push(process);
            }
            leaves.push(replicas);
        }
        Ok(Self { leaves, _limits: limits })
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

/// Stops these processes at random times. Dropping the set resumes them.
///
/// The times depend on `number`, so each load has its own times, which are the same for all
/// policies.
pub(super) fn pause(pauses: Pauses, leaves: &[u32], number: usize, seed: u64) -> JoinSet<()> {
    let mut set = JoinSet::new();
    for (leaf, &process) in leaves.iter().enumerate() {
        let labels = [b"pause".as_slice(), &number.to_le_bytes(), &leaf.to_le_bytes()];
        let mut rng = seed::rng(seed::stream(seed, &labels));
        set.spawn(async move {
            loop {
                // Uniform on (0, 1], so that the logarithm is finite.
                let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                sleep(Duration::from_secs_f64(-uniform.ln() / pauses.per_second)).await;
                let Some(_stopped) = Stopped::stop(process) else { return };
                sleep(Duration::from_nanos(pauses.length_ns)).await;
            }
        });
    }
    set
}

/// A process that is stopped until this value is dropped.
struct Stopped(Pid);

impl Stopped {
    fn stop(process: u32) -> Option<Self> {
        let process = Pid::from_raw(i32::try_from(process).ok()?)?;
        kill_process(process, Signal::STOP).ok()?;
        Some(Self(process))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Fails only if the process has ended.
        let _ = kill_process(self.0, Signal::CONT);
    }
}
