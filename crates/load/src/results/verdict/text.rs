//! Verdicts as sentences.

use std::fmt;

use curtail_kernel::duration::format;

use super::{FEW, Invalid, Withheld, too_few};
use crate::engine::stamp::PastStack;
use crate::results::record::Errors;

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::FellBehind { late, requests, limit_ns, waited, connections } => {
                let limit = format(three_digits(*limit_ns));
                write!(
                    f,
                    "fell behind: {late} of {requests} requests were sent more than {limit} "
                )?;
                write!(f, "after their intended times; ")?;
                match waited * 2 >= *late {
                    true => {
                        write!(f, "{waited} found all {connections} connections busy: use more")
                    }
                    false => write!(f, "use a less busy machine, or a lower rate"),
                }
            }
            Invalid::FellShort { answered, requests, errors } => {
                fell_short(f, *answered, *requests, errors)
            }
            Invalid::LeftOut { requests, errors } => {
                let count = errors.total();
                write!(
                    f,
                    "left out: {count} of {requests} requests have no good answer, {errors}"
                )?;
                write!(f, "; the percentiles are of the others")
            }
            Invalid::Dropped { count, backlog } => {
                write!(
                    f,
                    "dropped: {count} requests were never sent, for all connections were busy "
                )?;
                write!(f, "and {backlog} requests waiting; use more connections or a lower rate")
            }
            Invalid::NothingMeasured { requests: 0 } => {
                write!(
                    f,
                    "nothing measured: no request was due in the measured time; use a higher "
                )?;
                write!(f, "rate or a longer duration")
            }
            Invalid::NothingMeasured { .. } => {
                write!(f, "nothing measured: there is no good answer")
            }
            Invalid::StampsMissing { missing, past_stack } => {
                stamps_missing(f, *missing, past_stack.as_ref())
            }
            Invalid::Unasked { count, good } => unasked(f, *count, *good),
            Invalid::NotSure { per_mille, found, asked } => not_sure(f, *per_mille, *found, *asked),
            Invalid::Withheld(withheld) => write!(f, "{withheld}, and it was asked for"),
            Invalid::NotPoisson { d, gaps } => {
                write!(
                    f,
                    "not Poisson: the gaps between {gaps} requests as sent differ by {d:.2} "
                )?;
                write!(f, "from exponential ones; use more threads, a lower rate, or constant gaps")
            }
            Invalid::NotStationary { percentile, first_ns, last_ns } => {
                not_stationary(f, *percentile, *first_ns, *last_ns)
            }
            Invalid::Agent { agent, reason } => write!(f, "agent {agent} {reason}"),
            Invalid::AgentLost { agent, why } => lost(f, agent, why),
            Invalid::Interrupted { requests: 0 } => {
                write!(f, "interrupted before anything was measured")
            }
            Invalid::Interrupted { .. } => write!(f, "interrupted: partial results"),
        }
    }
}

/// Only time is a matter of the rate: a bad status would be as bad at a lower one.
fn fell_short(
    f: &mut fmt::Formatter<'_>,
    answered: u64,
    requests: u64,
    errors: &Errors,
) -> fmt::Result {
    let good = requests.saturating_sub(errors.total());
    let late = good.saturating_sub(answered);
    write!(f, "fell short: {answered} of {requests} requests were answered well and in time")?;
    if errors.total() > 0 {
        write!(f, ", {errors}")?;
    }
    if late > 0 {
        write!(f, ", {late} well but late")?;
    }
    match too_few(answered, good) || errors.timeout > FEW {
        true => write!(f, "; the server does not sustain this rate"),
        false => Ok(()),
    }
}

fn unasked(f: &mut fmt::Formatter<'_>, count: u64, good: u64) -> fmt::Result {
    write!(
        f,
        "unasked: the server sent more behind {count} of {good} good answers, which may not have "
    )?;
    write!(f, "been whole; is it the right protocol, and the right end of an answer?")
}

fn lost(f: &mut fmt::Formatter<'_>, agent: &str, why: &str) -> fmt::Result {
    write!(f, "agent {agent} was lost: {why}; the figures are of what was told until then")
}

/// Rounds to what people read: 35.205939 ms are 35.2 ms.
fn three_digits(ns: u64) -> u64 {
    let step = 10u64.pow(ns.checked_ilog10().unwrap_or(0).saturating_sub(2));
    ns.saturating_add(step / 2) / step * step
}

fn not_stationary(
    f: &mut fmt::Formatter<'_>,
    percentile: u32,
    first_ns: u64,
    last_ns: u64,
) -> fmt::Result {
    let [first, last] = [first_ns, last_ns].map(|ns| format(three_digits(ns)));
    write!(
        f,
        "not stationary: the {percentile}th percentile went from {first} in the first third "
    )?;
    write!(f, "of the run to {last} in the last; ")?;
    match last_ns > first_ns {
        true => write!(f, "use a lower rate, if a queue grows, or a longer warm-up"),
        false => write!(f, "use a longer warm-up"),
    }
}

fn stamps_missing(
    f: &mut fmt::Formatter<'_>,
    missing: f64,
    past_stack: Option<&PastStack>,
) -> fmt::Result {
    write!(f, "stamps missing: {:.1} % of the answers ", missing * 100.0)?;
    match past_stack {
        None => {
            write!(f, "lack one of the kernel's; use a lower rate, or leave out --stamps kernel")
        }
        Some(PastStack { device, queues: 2.., .. }) => write!(
            f,
            "came through the network stack; have {device} receive by one queue (ethtool -L {device} \
             combined 1, or rx 1 tx 1), or leave out --stamps xdp"
        ),
        Some(_) => write!(
            f,
            "came through the network stack, as do fragments and what is longer than a frame; use a \
             smaller --size, or leave out --stamps xdp"
        ),
    }
}

fn not_sure(
    f: &mut fmt::Formatter<'_>,
    per_mille: u32,
    found: Option<f64>,
    asked: f64,
) -> fmt::Result {
    let name = f64::from(per_mille) / 10.0;
    match found {
        Some(found) => write!(f, "not sure: p{name} is known to ±{:.1} %", found * 100.0),
        None => write!(f, "not sure: the run is too short to tell how well p{name} is known"),
    }?;
    write!(f, ", and ±{:.1} % were asked for; use a longer duration", asked * 100.0)
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Withheld { late, requests, limit_ns } = *self;
        let limit = format(three_digits(limit_ns));
        write!(f, "p99.9 is withheld: {late} of {requests} requests were sent more than {limit} ")?;
        write!(f, "after their intended times, which is too much of it")
    }
}
