//! Plays a script in both the simulator and the runtime, and compares the events and decisions of
//! the cell entry by entry.

use std::fmt::Write as _;

use curtail_sim::script::{self, Entry, Note, Script};

use crate::conductor::{self, Stuck};
use crate::wire::Wire;

/// Number of entries to show before the first difference, and from each log after it.
const CONTEXT: usize = 8;

/// How many scenarios, decisions and events were compared and found to be equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreed {
    pub scenarios: u64,
    pub decisions: u64,
    pub events: u64,
}

impl Agreed {
    pub fn of(log: &[Entry]) -> Self {
        let is_decision = |entry: &&Entry| matches!(entry.what, Note::Action(_));
        let decisions = log.iter().filter(is_decision).count() as u64;
        Self { scenarios: 1, decisions, events: log.len() as u64 - decisions }
    }

    pub fn add(&mut self, other: Self) {
        self.scenarios += other.scenarios;
        self.decisions += other.decisions;
        self.events += other.events;
    }
}

/// Returns the common log if the simulator and the runtime agree to the nanosecond. Otherwise
/// returns the difference and the command that replays it.
pub fn both(script: &Script, wire: Wire, replay: &str) -> Result<Vec<Entry>, String> {
    let simulated = script::play(script).map_err(|error| error.to_string())?;
    let replay = &format!("{replay}: {wire:?}");
    let over_sockets = conductor::play(script, wire)
        .map_err(|Stuck { at_ns, why }| format!("{replay}: over sockets, at {at_ns} ns: {why}"))?;
    agree(replay, &simulated, &over_sockets).map(|()| simulated)
}

/// Checks that both logs are the same.
pub fn agree(replay: &str, simulated: &[Entry], over_sockets: &[Entry]) -> Result<(), String> {
    let longer = simulated.len().max(over_sockets.len());
    let differs = |at: &usize| simulated.get(*at) != over_sockets.get(*at);
    let Some(at) = (0..longer).find(differs) else { return Ok(()) };
    let mut report = format!("{replay}: entry {at} differs\n");
    let mut show = |title: &str, mark: &str, entries: &[Entry]| {
        let _ = writeln!(report, "\n{title}:");
        for entry in entries {
            let _ = writeln!(report, "{mark} {entry}");
        }
        if entries.is_empty() {
            let _ = writeln!(report, "{mark} (the end)");
        }
    };
    let from = |log: &[Entry]| log.iter().skip(at).take(CONTEXT).copied().collect::<Vec<_>>();
    show("both", " ", &simulated[at.saturating_sub(CONTEXT)..at]);
    show("the simulator", "S", &from(simulated));
    show("over sockets", "R", &from(over_sockets));
    Err(report)
}
