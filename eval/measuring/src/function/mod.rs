//! The network function: packets that arrive on wire one leave on wire two, addressed to the
//! generator.
//!
//! Two programs do the port forwarding of document 000, §3.2.2, and wait for packets in the usual
//! ways. The third function is a switch. It consists only of the tap: packets are sent back within
//! the kernel, and no process is woken. Like the hardware switch of Figure 3.2, it is the first
//! subject for all methods.

mod frames;
mod sockets;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::processors::{Configuration, Processors};
use crate::testbed::{Tap, Testbed};
use crate::worker::{self, Worker};

/// The interval at which a waiting function checks whether it should end.
const LOOK: Duration = Duration::from_millis(20);

/// The kinds of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Function {
    /// The kernel forwards packets immediately.
    Switch,
    /// A process with UDP sockets.
    Sockets,
    /// A process with AF_XDP sockets.
    Xdp,
}

impl Function {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Sockets => "sockets",
            Self::Xdp => "xdp",
        }
    }
}

/// A function, its system configuration, and whether an antagonist runs at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Subject {
    pub(crate) function: Function,
    /// `None` for the switch, which is not a process.
    pub(crate) configuration: Option<Configuration>,
    pub(crate) antagonist: bool,
}

impl Subject {
    /// Returns all subjects, those without an antagonist first, as in the figures.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for antagonist in [false, true] {
            all.push(Self { function: Function::Switch, configuration: None, antagonist });
            for function in [Function::Sockets, Function::Xdp] {
                let of = |configuration| Self {
                    function,
                    configuration: Some(configuration),
                    antagonist,
                };
                all.extend(Configuration::ALL.map(of));
            }
        }
        all
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.name())?;
        if let Some(configuration) = self.configuration {
            write!(f, ", {configuration}")?;
        }
        if self.antagonist { f.write_str(", antagonist") } else { Ok(()) }
    }
}

/// A running subject, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    forwarder: Option<Worker>,
    antagonist: Option<Worker>,
    _tap: Arc<Tap>,
}

impl Running {
    /// Starts a subject. If it has an antagonist, the antagonist starts first, so that the function
    /// is disturbed from its start.
    pub(crate) fn start(
        testbed: &Arc<Testbed>,
        places: Processors,
        subject: Subject,
    ) -> Result<Self> {
        let antagonist = subject.antagonist.then(|| worker::antagonist(places)).transpose()?;
        let Some(configuration) = subject.configuration else {
            return Ok(Self { forwarder: None, antagonist, _tap: Arc::new(testbed.switch()?) });
        };
        let tap = Arc::new(testbed.tap_function()?);
        let (testbed, at) = (Arc::clone(testbed), Arc::clone(&tap));
        let forwarder = Worker::start("network function", move |stop, ready| {
            testbed.function.enter()?;
            places.be_function(configuration)?;
            match subject.function {
                Function::Xdp => frames::forward(&at, configuration.busy(), stop, ready),
                _ => sockets::forward(configuration.busy(), stop, ready),
            }
        })?;
        Ok(Self { forwarder: Some(forwarder), antagonist, _tap: tap })
    }

    /// Ends the subject and returns its errors.
    pub(crate) fn end(mut self) -> Result<()> {
        let forwarder = self.forwarder.as_mut().map_or(Ok(()), Worker::end);
        forwarder.and(self.antagonist.as_mut().map_or(Ok(()), Worker::end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_have_distinct_names() {
        let all = Subject::all();
        let mut names: Vec<String> = all.iter().map(Subject::to_string).collect();
        assert_eq!(names[0], "switch");
        assert!(names.contains(&"xdp, pinned+fifo+busy-poll, antagonist".to_owned()), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!((all.len(), names.len()), (18, 18));
    }
}
