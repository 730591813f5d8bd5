//! Where threads run, and before whom: the generator, the function and the antagonist.
//!
//! Two processors are all there is: one is the generator's, the other the function's and, with it, the
//! antagonist's. All of it is set for single threads of this process, so there is nothing to restore.

use std::fmt;
use std::io;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::sys::{Policy, schedule};

/// Of the function, with FIFO.
const FUNCTION_PRIORITY: i32 = 30;
/// How long a socket is looked at before a read sleeps: longer than packets are apart.
pub(crate) const BUSY_POLL: Duration = Duration::from_millis(1);

/// How the system is configured for the network function: what Figure 3.3 varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Configuration {
    /// As a process that nobody cares for.
    Default,
    /// On one processor, which is not the generator's.
    Pinned,
    /// And before every process that is scheduled fairly.
    Fifo,
    /// And it never sleeps.
    BusyPoll,
}

impl Configuration {
    pub(crate) const ALL: [Self; 4] = [Self::Default, Self::Pinned, Self::Fifo, Self::BusyPoll];

    /// As in tables, in the document and in names of files.
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

/// The two processors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    pub(crate) generator: usize,
    pub(crate) function: usize,
}

impl Places {
    /// The first two that this process may use.
    pub(crate) fn find() -> Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).context("cannot ask for processors")?;
        let all = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
        let two: Vec<usize> = all.take(2).collect();
        ensure!(two.len() == 2, "this needs two processors, one for the generator: there is one");
        Ok(Self { generator: two[0], function: two[1] })
    }

    /// Puts this thread where the generator belongs. It is the same in all configurations, as in the
    /// thesis, so that only the function differs. It is scheduled fairly: with FIFO, a function that is
    /// not pinned and was woken beside it would not run again for up to a second.
    pub(crate) fn be_generator(self) -> io::Result<()> {
        pin(self.generator)?;
        schedule(Policy::Other)
    }

    /// Puts this thread where the function belongs.
    pub(crate) fn be_function(self, configuration: Configuration) -> io::Result<()> {
        if configuration == Configuration::Default {
            return schedule(Policy::Other);
        }
        pin(self.function)?;
        let fair = configuration == Configuration::Pinned;
        schedule(if fair { Policy::Other } else { Policy::Fifo(FUNCTION_PRIORITY) })
    }

    /// Puts this thread beside the function.
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
