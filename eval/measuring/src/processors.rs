//! Processors and scheduling of the threads: the generator, the function and the antagonist.
//!
//! Two processors suffice: one for the generator, and one that the function and the antagonist
//! share. Everything is set for single threads of this process, so nothing has to be restored.

use std::fmt;
use std::io;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::sys::{Policy, schedule};

/// The FIFO priority of the function.
const FUNCTION_PRIORITY: i32 = 30;
/// How long a read polls a socket before it sleeps. This is longer than the time between packets.
pub(crate) const BUSY_POLL: Duration = Duration::from_millis(1);

/// The system configurations for the network function, which Figure 3.3 varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Configuration {
    /// An ordinary process without special treatment.
    Default,
    /// Pinned to one processor, which is not the generator's.
    Pinned,
    /// Pinned, and scheduled before every fair process.
    Fifo,
    /// Pinned, and scheduled before every fair process; it never sleeps.
    BusyPoll,
}

impl Configuration {
    pub(crate) const ALL: [Self; 4] = [Self::Default, Self::Pinned, Self::Fifo, Self::BusyPoll];

    /// Returns the name used in tables, in the document and in file names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Pinned => "pinned",
            Self::Fifo => "pinned+fifo",
            Self::BusyPoll => "pinned+fifo+busy-poll",
        }
    }

    pub(crate) fn busy(self) -> bool {
        self == Self::BusyPoll
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The processors of the generator and of the function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Processors {
    pub(crate) generator: usize,
    pub(crate) function: usize,
}

impl Processors {
    /// Returns the first two processors that this process may use.
    pub(crate) fn find() -> Result<Self> {
        let allowed =
            sched_getaffinity(Pid::from_raw(0)).context("cannot read the allowed processors")?;
        let all = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
        let two: Vec<usize> = all.take(2).collect();
        ensure!(
            two.len() == 2,
            "this needs two processors, one of them for the generator, but there is only one"
        );
        Ok(Self { generator: two[0], function: two[1] })
    }

    /// Moves this thread to the generator's processor. The generator is the same in all
    /// configurations, as in the thesis, so that only the function differs. It is scheduled fairly.
    /// If the generator had FIFO priority, a function that is not pinned could be woken on the same
    /// processor, and might then not run for up to a second.
    pub(crate) fn be_generator(self) -> io::Result<()> {
        pin(self.generator)?;
        schedule(Policy::Other)
    }

    /// Moves this thread to the processor and scheduling policy of the function.
    pub(crate) fn be_function(self, configuration: Configuration) -> io::Result<()> {
        if configuration == Configuration::Default {
            return schedule(Policy::Other);
        }
        pin(self.function)?;
        let fair = configuration == Configuration::Pinned;
        schedule(if fair { Policy::Other } else { Policy::Fifo(FUNCTION_PRIORITY) })
    }

    /// Moves this thread to the function's processor.
    pub(crate) fn be_antagonist(self) -> io::Result<()> {
        pin(self.function)?;
        schedule(Policy::Other)
    }
}

fn pin(cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &only)?)
}
