//! Scenarios as people write them: TOML, times with units, steps in order of time.

use curtail_kernel::hedge::{Exploration, Snapshot};
use curtail_kernel::{Limits, NEVER_NS, Policy, duration};
use curtail_sim::script::{Script, Step, What};
use serde::Deserialize;

/// A scenario from a file.
pub struct Scenario {
    pub script: Script,
    /// What must stand in the log, in this order: so that a scenario goes on showing what it is for.
    pub decides: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    policy: String,
    servers: u32,
    slots: u32,
    cancel: Cancel,
    seed: u64,
    #[serde(default)]
    limits: WrittenLimits,
    #[serde(default)]
    learned: WrittenLearned,
    #[serde(default)]
    decides: Vec<String>,
    steps: Vec<WrittenStep>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Cancel {
    None,
    Reset,
}

/// Those that are left out are the defaults of the kernel.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenLimits {
    max_outstanding: Option<u32>,
    queue: Option<u32>,
    timeout: Option<String>,
    attempt_timeout: Option<String>,
    retries: Option<u8>,
    eject_after: Option<u32>,
    ejection: Option<String>,
    hedge_budget: Option<f64>,
}

/// What the service has learned, with a policy that learns; nothing, where it is left out.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenLearned {
    suspect: Option<String>,
    overtakes: Option<u32>,
    explore: Option<String>,
    every: Option<u32>,
    #[serde(default)]
    at_once: bool,
    audit: Option<bool>,
}

/// One of `query`, `leaves`, `up`, `unhealthy`, `drain` and `down`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStep {
    at: String,
    query: Option<String>,
    #[serde(default)]
    jitter: Vec<String>,
    leaves: Option<u32>,
    up: Option<u32>,
    unhealthy: Option<u32>,
    drain: Option<u32>,
    down: Option<u32>,
}

/// Reads a scenario.
pub fn read(text: &str) -> Result<Scenario, String> {
    let written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
    let policy = Policy::parse(&written.policy, None).map_err(|error| error.to_string())?;
    let limits = written.limits.read(matches!(written.cancel, Cancel::Reset))?;
    let steps = written.steps.iter().map(WrittenStep::read).collect::<Result<_, _>>()?;
    let learned = written.learned.read()?;
    let Written { servers, slots, seed, decides, .. } = written;
    let script = Script { policy, servers, slots, limits, seed, learned, steps };
    script.check().map_err(|error| error.to_string())?;
    Ok(Scenario { script, decides })
}

fn ns(text: &str) -> Result<u64, String> {
    duration::parse(text).map_err(|error| format!("{text:?}: {error}"))
}

impl WrittenLimits {
    fn read(self, cancel: bool) -> Result<Limits, String> {
        let default = Limits::default();
        let time = |text: Option<String>, default| text.map_or(Ok(default), |text| ns(&text));
        Ok(Limits {
            max_outstanding: self.max_outstanding.unwrap_or(default.max_outstanding),
            queue: self.queue.unwrap_or(default.queue),
            timeout_ns: time(self.timeout, default.timeout_ns)?,
            attempt_timeout_ns: time(self.attempt_timeout, default.attempt_timeout_ns)?,
            cancel,
            retries: self.retries.unwrap_or(default.retries),
            eject_after: self.eject_after.unwrap_or(default.eject_after),
            ejection_ns: time(self.ejection, default.ejection_ns)?,
            hedge_budget: self.hedge_budget.unwrap_or(default.hedge_budget),
            ..default
        })
    }
}

impl WrittenLearned {
    fn read(&self) -> Result<Snapshot, String> {
        let time = |text: &Option<String>| text.as_deref().map_or(Ok(NEVER_NS), ns);
        let nothing = Snapshot::NOTHING;
        let mut explore = nothing.explore;
        let every = self.every.unwrap_or(1);
        explore[0] = Exploration { age_ns: time(&self.explore)?, every };
        Ok(Snapshot {
            suspect_ns: time(&self.suspect)?,
            overtakes: self.overtakes.unwrap_or(nothing.overtakes),
            explore,
            at_once: self.at_once,
            audit: self.audit.unwrap_or(nothing.audit),
        })
    }
}

/// Writes what a service has learned; nothing, where that is nothing.
fn write_learned(learned: &Snapshot) -> String {
    if *learned == Snapshot::NOTHING {
        return String::new();
    }
    let Snapshot { suspect_ns, overtakes, explore: [explore, _], at_once, audit } = *learned;
    let mut text =
        format!("learned = {{ overtakes = {overtakes}, at-once = {at_once}, audit = {audit}");
    for (name, ns) in [("suspect", suspect_ns), ("explore", explore.age_ns)] {
        if ns != NEVER_NS {
            text += &format!(", {name} = \"{}\"", duration::format(ns));
        }
    }
    text + &format!(", every = {} }}\n", explore.every)
}

impl WrittenStep {
    fn read(&self) -> Result<Step, String> {
        let Self { at, query, jitter, leaves, up, unhealthy, drain, down } = self;
        let jitter_ns = match jitter.iter().map(|text| ns(text)).collect::<Result<Vec<_>, _>>()?[..]
        {
            [] => [0, 0],
            [first] => [first, 0],
            [first, second] => [first, second],
            _ => return Err(format!("the step at {at} has more than two times of jitter")),
        };
        let servers = [
            up.map(What::Up),
            unhealthy.map(What::Unhealthy),
            drain.map(What::Drain),
            down.map(What::Down),
        ];
        let servers: Vec<What> = servers.into_iter().flatten().collect();
        let what = match (query, leaves, &servers[..]) {
            (Some(service), None, []) => What::Arrive { service_ns: ns(service)?, jitter_ns },
            (None, Some(query), []) => What::Leave(*query),
            (None, None, &[what]) => what,
            _ => {
                let one = "query, leaves, up, unhealthy, drain and down";
                return Err(format!("the step at {at} needs one of {one}"));
            }
        };
        Ok(Step { at_ns: ns(at)?, what })
    }
}

/// Writes a script so that [`read`] reads it, to be kept as a scenario.
pub fn write(script: &Script) -> String {
    let Script { policy, servers, slots, limits, seed, learned, steps } = script;
    let cancel = if limits.cancel { "reset" } else { "none" };
    let mut text = format!(
        "policy = \"{policy}\"\nservers = {servers}\nslots = {slots}\ncancel = \"{cancel}\"\n\
         seed = {seed}\nlimits = {{ max-outstanding = {}, queue = {}, retries = {}, eject-after = {}, ejection = \"{}\", hedge-budget = {}",
        limits.max_outstanding,
        limits.queue,
        limits.retries,
        limits.eject_after,
        duration::format(limits.ejection_ns),
        limits.hedge_budget
    );
    let times = [("timeout", limits.timeout_ns), ("attempt-timeout", limits.attempt_timeout_ns)];
    for (name, ns) in times.into_iter().filter(|&(_, ns)| ns != NEVER_NS) {
        text += &format!(", {name} = \"{}\"", duration::format(ns));
    }
    text += " }\n";
    text += &write_learned(learned);
    text += "steps = [\n";
    for Step { at_ns, what } in steps {
        let what = match *what {
            What::Arrive { service_ns, jitter_ns } => {
                let [service, first, second] =
                    [service_ns, jitter_ns[0], jitter_ns[1]].map(duration::format);
                format!("query = \"{service}\", jitter = [\"{first}\", \"{second}\"]")
            }
            What::Leave(query) => format!("leaves = {query}"),
            What::Up(server) => format!("up = {server}"),
            What::Unhealthy(server) => format!("unhealthy = {server}"),
            What::Drain(server) => format!("drain = {server}"),
            What::Down(server) => format!("down = {server}"),
        };
        text += &format!("  {{ at = \"{}\", {what} }},\n", duration::format(*at_ns));
    }
    text + "]\n"
}
