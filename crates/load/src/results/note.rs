//! What a reader of valid figures should know about them.

use curtail_jitter::machine::Taken;
use serde::{Serialize, Serializer};

use crate::results::facts::Facts;
use crate::results::limit::short;
use crate::results::verdict::{Fields, typed};

/// A remark on a report. In JSON as [`Invalid`](crate::Invalid).
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the texts say what the fields are")]
#[non_exhaustive]
pub enum Note {
    /// Other processes or the hypervisor took much of the machine, and a sending thread waited for a processor.
    #[error(
        "these figures are about {}, not only about the server: while it was measured, {taken}", machine(agent.as_ref())
    )]
    BusyMachine {
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        #[serde(flatten)]
        taken: Taken,
    },
    /// As [`Invalid::NotPoisson`](crate::Invalid::NotPoisson), but by a lag that is too small to matter.
    #[error(
        "the gaps between {gaps} requests as sent differ by {d:.2} from exponential ones, because the lag of {} is \
         not small beside them; it is negligible beside the latencies",
        short(*.lag_ns)
    )]
    NotPoisson { d: f64, gaps: usize, lag_ns: u64 },
    /// The rate of a closed loop may be that of the generator.
    #[error("a sending thread had {:.0} % of its time left: the server may do more; use more (-t)", idle * 100.0)]
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

/// The note about the machine, if it was busy.
pub(crate) fn busy_machine(facts: &Facts) -> Option<Note> {
    let taken = facts.machine.filter(Taken::is_much)?;
    // A server on this machine is another process, too. It matters if it is in the way.
    let waited = facts.sender.is_some_and(|sender| sender.kept_waiting());
    let matters = waited || Taken { others: 0.0, ..taken }.is_much();
    matters.then_some(Note::BusyMachine { agent: facts.agent.clone(), taken })
}
