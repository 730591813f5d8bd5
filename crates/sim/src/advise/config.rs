//! Turns advice into a configuration of `curtail proxy`.

use std::fmt::Write as _;
use std::net::SocketAddr;

use curtail_kernel::Limits;

use super::Question;

/// The attempt timer, as a multiple of the 99.9th percentile under per-shard queuing.
const ATTEMPT_P999: f64 = 4.0;

/// The proxy's default attempt timer, in ms: half of its default timeout.
const ATTEMPT_MS: f64 = 1_000.0;

/// Returns a complete configuration if the replicas' addresses are known, otherwise a part of one.
/// `second_copies` is the number of second copies per query in the simulation. `p999_ms` is the
/// p99.9 under per-shard queuing.
pub(super) fn config(
    question: &Question<'_>,
    policy: &str,
    second_copies: f64,
    p999_ms: Option<f64>,
) -> String {
    let mut text = String::new();
    if !question.replicas_at.is_empty() {
        text += "[listen]\nhttp = \"127.0.0.1:8080\"\nadmin = \"127.0.0.1:9901\"\n\n";
    }
    let cancel = if question.cancel { "reset" } else { "none" };
    let slots = question.experiment.slots;
    let _ = write!(
        text,
        "[[service]]\nname = \"service\"\npolicy = \"{policy}\"\nslots = {slots}\ncancel = \"{cancel}\"\n"
    );
    // The simulation does not limit second copies by a hedge budget. If few second copies are sent,
    // the default budget has no effect.
    if second_copies > 0.5 * Limits::default().hedge_budget {
        text += "hedge_budget = 1.0\n";
    }
    let attempt = p999_ms.map(|p999| (ATTEMPT_P999 * p999).ceil());
    if let Some(ms) = attempt.filter(|ms| *ms > ATTEMPT_MS) {
        let (timeout, cancel) = (4.0 * ms, 20.0 * ms);
        let _ = write!(
            text,
            "timeout = \"{timeout}ms\"\nattempt_timeout = \"{ms}ms\"\ncancel_timeout = \"{cancel}ms\"\n"
        );
    }
    if question.replicas_at.is_empty() {
        text += "# and a [[service.shard]] with its replicas for each shard: --replicas-at writes them\n";
        return text;
    }
    if question.replicas_at.len() > 1 {
        text += "shard_by = { header = \"x-shard\" }  # where requests name their shard\n";
    }
    for (shard, replicas) in question.replicas_at.iter().enumerate() {
        let replicas: Vec<String> = replicas.iter().map(quoted).collect();
        let _ = write!(
            text,
            "\n[[service.shard]]\nname = \"{shard}\"\nreplicas = [{}]\n",
            replicas.join(", ")
        );
    }
    text
}

fn quoted(address: &SocketAddr) -> String {
    format!("\"{address}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameters;

    #[test]
    fn timers_and_budget_are_those_of_the_simulation() {
        let experiment = Parameters::default().experiment().expect("an experiment");
        let replicas = [[9001, 9002].map(|port| SocketAddr::from(([127, 0, 0, 1], port))).to_vec()];
        let question = Question {
            experiment: &experiment,
            cancel: true,
            effort: 1.0,
            resampled: &[],
            replicas_at: &replicas,
        };
        let text = |copies, p999_ms| config(&question, "rescue", copies, p999_ms);
        let quick = text(0.02, Some(100.0));
        assert!(quick.starts_with("[listen]") && !quick.contains("time"), "{quick}");
        assert!(!quick.contains("hedge_budget"), "{quick}");
        assert!(quick.ends_with("replicas = [\"127.0.0.1:9001\", \"127.0.0.1:9002\"]\n"));
        assert!(text(0.3, None).contains("hedge_budget = 1.0\n"));
        let slow = text(0.02, Some(300.5));
        assert!(slow.contains("timeout = \"4808ms\"\nattempt_timeout = \"1202ms\"\n"), "{slow}");
        assert!(!text(0.02, None).contains("time"));
    }
}
