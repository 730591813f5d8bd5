//! Remarks on the figures of a report.

use curtail_jitter::machine::Taken;
use serde::{Serialize, Serializer};

use crate::results::facts::Facts;
use crate::results::limit::short;
use crate::results::verdict::{Fields, typed};

/// A remark on a report. Its JSON has the same form as the JSON of [`Invalid`](crate::Invalid).
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the messages document the fields")]
#[non_exhaustive]
pub enum Note {
    /// Other processes or the hypervisor took much of the machine's processor time, and a sending
    /// thread waited for a processor.
    #[error(
        "these figures describe {}, not only the server: during the measurement, {taken}",
        machine(agent.as_ref())
    )]
    BusyMachine {
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        #[serde(flatten)]
        taken: Taken,
    },
    /// The gaps fail the test of [`Invalid::NotPoisson`](crate::Invalid::NotPoisson), but only
    /// because of a lag that is too small to matter.
    #[error(
        "the gaps between the {gaps} requests differ by {d:.2} from exponential ones, because the \
         lag of {} is not small compared to them; it is negligible compared to the latencies",
        short(*.lag_ns)
    )]
    NotPoisson { d: f64, gaps: usize, lag_ns: u64 },
    /// The generator, not the server, may limit the rate of a closed loop.
    #[error("a sending thread was idle for only {:.0} % of the time, so the server may sustain \
             more; use more threads (-t)", idle * 100.0)]
    SenderSpent { idle: f64 },
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        typed(self, serializer)
    }
}

impl Fields for Note {
    fn fields<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Note::serialize(self, to)
    }
}

fn machine(agent: Option<&String>) -> String {
    agent.map_or_else(|| "this machine".to_owned(), |agent| format!("the machine of agent {agent}"))
}

/// Returns the note about the machine, if the machine was busy.
pub(crate) fn busy_machine(facts: &Facts) -> Option<Note> {
    let taken = facts.machine.filter(Taken::is_much)?;
    // A server on this machine counts as another process. The server's processor time matters only
    // if a sending thread had to wait for a processor.
    let waited = facts.sender.is_some_and(|sender| sender.kept_waiting());
    let matters = waited || Taken { others: 0.0, ..taken }.is_much();
    matters.then_some(Note::BusyMachine { agent: facts.agent.clone(), taken })
}
