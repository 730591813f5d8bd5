//! Processors and scheduling of the threads: the generator, the function and the antagonist.
//!
//! Two processors suffice: one for the generator, and one that the function and the antagonist
//! share. Everything is set for single threads of this process, so nothing has to be restored.

use std::io;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use curtail_machine::keep_to;

use crate::sys::schedule;

/// The FIFO priority of the function.
const FUNCTION_PRIORITY: i32 = 30;
/// How long a read polls a socket before it sleeps. This is longer than the time between packets.
pub(crate) const BUSY_POLL: Duration = Duration::from_millis(1);

/// The system configurations for the network function, which Figure 3.3 varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        let allowed = curtail_machine::Processors::allowed();
        let allowed = allowed.context("cannot read the allowed processors")?;
        let [generator, function, ..] = *allowed.numbers() else {
            bail!("this needs two processors, one of them for the generator, but there is only one")
        };
        Ok(Self { generator, function })
    }

    /// Moves this thread to the generator's processor. The generator is the same in all
    /// configurations, as in the thesis, so that only the function differs. It is scheduled fairly.
    /// If the generator had FIFO priority, a function that is not pinned could be woken on the same
    /// processor, and might then not run for up to a second.
    pub(crate) fn be_generator(self) -> io::Result<()> {
        keep_to(&[self.generator])?;
        schedule(None)
    }

    /// Moves this thread to the processor and scheduling policy of the function.
    pub(crate) fn be_function(self, configuration: Configuration) -> io::Result<()> {
        if configuration == Configuration::Default {
            return schedule(None);
        }
        keep_to(&[self.function])?;
        schedule((configuration != Configuration::Pinned).then_some(FUNCTION_PRIORITY))
    }

    /// Moves this thread to the function's processor.
    pub(crate) fn be_antagonist(self) -> io::Result<()> {
        keep_to(&[self.function])?;
        schedule(None)
    }
}
