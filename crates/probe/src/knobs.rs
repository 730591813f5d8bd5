//! Control knobs that may reduce a stage's variability, grouped by cause.
//!
//! Source: document 004, part 2, "Finding A Control Knob" and the case studies. The gains from the
//! case studies are quoted with each knob. A knob for the wrong cause can hurt, so each knob
//! describes what `curtail profile --compare` shows if it worked.

use curtail_machine as machine;
use serde::Serialize;

use crate::profile::Evidence;

/// A control knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Knob {
    /// The name.
    pub name: &'static str,
    /// The way to adjust the knob.
    pub how: &'static str,
    /// The expected gain and its cost.
    pub expect: &'static str,
    /// The change that a comparison before and after shows if the knob worked.
    pub test: &'static str,
}

const BATCHES: Knob = Knob {
    name: "bounded batching",
    how: "limit how much is sent or read at once: the client's flush threshold (size and time), \
          or the server's requests per event (memcached -R)",
    expect: "on memcached, 24 to 26 % less mean and 34 to 40 % less tail; a limit that is too low \
             costs packets, one that is too high costs delay",
    test: "sd and p99 of this stage fall, and p99 of the total; try several limits",
};
const BUDGETS: Knob = Knob {
    name: "background work in budgets",
    how: "do maintenance (eviction, flushes, compaction) on the workers, a little per request, with a budget that \
          grows with the rate",
    expect: "on memcached, 20 to 28 % less mean and 4 to 32 % less tail; each request pays a little",
    test: "sd of this stage falls although its mean may rise, and p99 of the total falls",
};
const PINNING: Knob = Knob {
    name: "pinning",
    how: "bind each worker to a processor of its own (taskset -cp, or the server's setting), and \
          background threads to other processors",
    expect: "on httpd, 15 to 50 % less mean and 19 to 52 % less tail; a pinned thread waits even \
             if other processors are idle, and pinning hurt by 12 % where batches were the cause",
    test: "sd of this stage and p99 of the total fall; p50 shows the price",
};
const PRIORITY: Knob = Knob {
    name: "priority",
    how: "give the workers priority: renice -n -5 -p PID, or SCHED_FIFO (chrt -f -p 1 TID)",
    expect: "shorter waits for a processor; other threads wait longer, and SCHED_FIFO may starve them",
    test: "p99 of this stage and of the total fall; check the other programs on these processors, \
           too",
};
const POLLING: Knob = Knob {
    name: "busy polling",
    how: "poll before sleeping: sysctl net.core.busy_poll=50 and busy_read=50 (microseconds), or the server's own spin",
    expect: "no sleep, so no wake-up delay; it costs processor time, or a whole processor if it \
             never sleeps",
    test: "mean, sd and p99 of this stage fall; other stages must not grow",
};
const INTERRUPTS: Knob = Knob {
    name: "interrupt placement",
    how: "receive packets on the processors of the workers, or next to them: \
          /proc/irq/N/smp_affinity_list, or receive packet steering \
          (/sys/class/net/DEV/queues/rx-N/rps_cpus)",
    expect: "fewer moves between processors; a processor with too many interrupts delays its worker",
    test: "sd of this stage falls, and p99 of the total",
};
const QUOTA: Knob = Knob {
    name: "quota",
    how: "raise or remove the limit of the control group (cpu.max), or allow bursts (cpu.max.burst)",
    expect: "no more pauses of up to a period, 100 ms by default",
    test: "p99 of all stages of the process falls",
};
const MEMORY: Knob = Knob {
    name: "memory",
    how: "keep the working set in memory: add memory, set memory.low of the control group, or use \
          mlock",
    expect: "no request reads pages from a disk",
    test: "p99 of the stage that touches data falls",
};

const FEWER_CALLS: Knob = Knob {
    name: "fewer calls",
    how: "in the caller: request everything at once (a batch, a join), cache responses within a \
          request, or make the calls in parallel; for retries, find out why the first attempt \
          fails",
    expect: "a request takes as long as one call, not as the sum of many",
    test: "sd of this stage and p99 of the total fall; if calls run in parallel, the callee's \
           load peaks",
};

/// Returns the knobs for a kind of evidence, the most promising first.
pub(crate) fn of(evidence: Evidence) -> &'static [Knob] {
    match evidence {
        Evidence::Wakeup => &[POLLING, PRIORITY, INTERRUPTS],
        Evidence::RunQueue => &[BUDGETS, PRIORITY, PINNING],
        Evidence::Blocked => &[BUDGETS],
        Evidence::Remote => &[PINNING, INTERRUPTS],
        Evidence::Batch => &[BATCHES],
        Evidence::Calls => &[FEWER_CALLS],
        Evidence::Attribute | Evidence::Queue => &[],
    }
}

/// Returns the knobs that may relieve a kind of pressure. The result is empty if there is no such
/// knob.
pub(crate) fn of_machine(cause: machine::Cause) -> &'static [Knob] {
    match cause {
        machine::Cause::Throttled => &[QUOTA],
        machine::Cause::RunQueue => of(Evidence::RunQueue),
        machine::Cause::MajorFaults => &[MEMORY],
        _ => &[],
    }
}
