//! Child processes that end with this one.
//!
//! Cost: one additional exec per process, for `setpriv`.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child as Process, Command};

use anyhow::{Context as _, Result};

/// A process that is killed when this value is dropped, or when the thread that started it ends.
#[derive(Debug)]
pub(crate) struct Child(Process);

impl Child {
    pub(crate) fn spawn(command: &mut Command) -> Result<Self> {
        Ok(Self(command.spawn().context("cannot run setpriv; install util-linux")?))
    }
}

impl Deref for Child {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.0
    }
}

impl DerefMut for Child {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.0
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = self.wait();
    }
}

/// Returns a command that starts a program, and kills it when this process ends.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}
