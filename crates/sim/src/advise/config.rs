//! The advice as a configuration of `curtail proxy`.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::{Latency, Question};

/// A copy has failed that is silent for so many times the 99.9th percentile of per-shard queuing.
const PATIENCE: f64 = 4.0;

/// What the proxy waits for a copy by default, in ms.
const ATTEMPT_MS: f64 = 500.0;

/// Whole where the addresses of the replicas are known, else what of it is.
pub(super) fn config(question: &Question<'_>, policy: &str, psq: &Latency, unit: &str) -> String {
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
    // The default is for policies that duplicate few queries.
    if !matches!(policy, "psq" | "rescue" | "rescue:no-cancel") {
        text += "hedge_budget = 1.0\n";
    }
    // Patience by default is for services that answer in some milliseconds.
    let patience = psq.p999.map(|p999| (PATIENCE * p999).ceil());
    if let Some(ms) = patience.filter(|ms| unit == "ms" && *ms > ATTEMPT_MS) {
        let _ = writeln!(text, "timeout = \"{}ms\"", 4.0 * ms);
        let _ =
            writeln!(text, "attempt_timeout = \"{ms}ms\"\ncancel_timeout = \"{}ms\"", 20.0 * ms);
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
    fn a_slow_service_gets_patience() {
        let experiment = Parameters::default().experiment().expect("an experiment");
        let replicas = [[9001, 9002].map(|port| SocketAddr::from(([127, 0, 0, 1], port))).to_vec()];
        let question = Question {
            experiment: &experiment,
            cancel: true,
            effort: 1.0,
            resampled: &[],
            replicas_at: &replicas,
        };
        let told = |p999, unit| {
            let psq = Latency {
                policy: "psq".to_owned(),
                stable: true,
                p50: None,
                p99: None,
                p999,
                p99_ci95: None,
                copies_per_query: None,
            };
            config(&question, "rescue", &psq, unit)
        };
        let quick = told(Some(100.0), "ms");
        assert!(quick.starts_with("[listen]") && !quick.contains("timeout"), "{quick}");
        assert!(
            quick.ends_with("replicas = [\"127.0.0.1:9001\", \"127.0.0.1:9002\"]\n"),
            "{quick}"
        );
        let slow = told(Some(200.5), "ms");
        assert!(slow.contains("timeout = \"3208ms\"\nattempt_timeout = \"802ms\"\n"), "{slow}");
        assert!(
            ![told(Some(200.5), "1"), told(None, "ms")].iter().any(|text| text.contains("time"))
        );
    }
}
