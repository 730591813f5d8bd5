//! The network function: what comes in on wire one goes out on wire two, addressed to the generator.
//!
//! Port forwarding as in document 000, §3.2.2, by two programs that wait for packets as programs do; and a
//! switch, which is the tap itself: packets turn around in the kernel, with no process to be woken. Like
//! the hardware switch of Figure 3.2 it is what all methods are tried on first.

mod frames;
mod sockets;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::place::{Configuration, Places};
use crate::worker::{self, Worker};
use crate::world::{Tap, World};

/// How often a function that waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// What forwards packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Function {
    /// The kernel, at once.
    Switch,
    /// A process, with UDP sockets.
    Sockets,
    /// A process, with sockets of AF_XDP.
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

/// A function, how the system is configured for it, and whether it is alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Subject {
    pub(crate) function: Function,
    /// None of the switch, which is no process.
    pub(crate) configuration: Option<Configuration>,
    pub(crate) antagonist: bool,
}

impl Subject {
    /// All of them: those without an antagonist first, as the figures have them.
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

/// A subject that runs. It is gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    forwarder: Option<Worker>,
    antagonist: Option<Worker>,
    _tap: Arc<Tap>,
}

impl Running {
    /// Starts the antagonist first, if there is one, so that the function meets it.
    pub(crate) fn start(world: &Arc<World>, places: Places, subject: Subject) -> Result<Self> {
        let antagonist = subject.antagonist.then(|| worker::antagonist(places)).transpose()?;
        let Some(configuration) = subject.configuration else {
            return Ok(Self { forwarder: None, antagonist, _tap: Arc::new(world.switch()?) });
        };
        let tap = Arc::new(world.tap_function()?);
        let (world, at) = (Arc::clone(world), Arc::clone(&tap));
        let forwarder = Worker::start("network function", move |stop, ready| {
            world.function.enter()?;
            places.be_function(configuration)?;
            match subject.function {
                Function::Xdp => frames::forward(&at, configuration.busy(), stop, ready),
                _ => sockets::forward(configuration.busy(), stop, ready),
            }
        })?;
        Ok(Self { forwarder: Some(forwarder), antagonist, _tap: tap })
    }

    /// Ends it.
    pub(crate) fn end(mut self) -> Result<()> {
        let forwarder = self.forwarder.as_mut().map_or(Ok(()), Worker::end);
        forwarder.and(self.antagonist.as_mut().map_or(Ok(()), Worker::end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_told_apart() {
        let all = Subject::all();
        let mut names: Vec<String> = all.iter().map(Subject::to_string).collect();
        assert_eq!(names[0], "switch");
        assert!(names.contains(&"xdp, pinned+fifo+busy-poll, antagonist".to_owned()), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!((all.len(), names.len()), (18, 18));
    }
}
