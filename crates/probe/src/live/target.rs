//! The processes of a server and their listening ports.

use std::collections::BTreeSet;

use procfs::ProcError;
use procfs::net::TcpState;
use procfs::process::{FDTarget, Process};

use super::{LiveError, PORTS};

/// The maximum number of processes that are inspected.
const PROCESSES_MAX: usize = 64;

/// A running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name of the first process.
    pub name: String,
    /// The process and its descendants.
    pub processes: Vec<u32>,
    /// The ports on which the processes listen, in ascending order.
    pub ports: Vec<u16>,
    /// The number of their network namespace.
    pub(super) namespace: u32,
}

impl Target {
    /// Finds a process and its descendants. `port` restricts the target to one of its ports.
    ///
    /// # Errors
    ///
    /// If the process does not exist, cannot be inspected, or does not listen (on `port`).
    pub fn find(pid: u32, port: Option<u16>) -> Result<Target, LiveError> {
        let missing = |error| match error {
            ProcError::NotFound(_) => LiveError::NoProcess(pid),
            _ => LiveError::NotAllowed(pid),
        };
        let process = Process::new(pid.cast_signed()).map_err(missing)?;
        let name = process.stat().map_err(missing)?.comm;
        let namespaces = process.namespaces().map_err(missing)?;
        let namespace = namespaces.0.values().find(|of| of.ns_type == "net");
        let namespace = namespace.map_or(0, |of| of.identifier as u32);
        let processes = descendants(&process);
        let sockets: BTreeSet<u64> = processes.iter().flat_map(sockets).collect();
        let entries = process.tcp().into_iter().chain(process.tcp6()).flatten();
        let listening = entries
            .filter(|entry| entry.state == TcpState::Listen && sockets.contains(&entry.inode))
            .map(|entry| entry.local_address.port());
        let mut ports: Vec<u16> = listening.collect();
        ports.sort_unstable();
        ports.dedup();
        match port {
            Some(port) if ports.contains(&port) => ports = vec![port],
            Some(port) => return Err(LiveError::OtherPort { pid, port, ports }),
            None if ports.is_empty() => return Err(LiveError::NoPort(pid)),
            None if ports.len() > PORTS => return Err(LiveError::ManyPorts(ports.len())),
            None => {}
        }
        let processes = processes.iter().map(|process| process.pid.cast_unsigned()).collect();
        Ok(Target { name, processes, ports, namespace })
    }

    /// Whether at least one process of the target is running.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let runs =
            |&pid: &u32| Process::new(pid.cast_signed()).is_ok_and(|process| process.is_alive());
        self.processes.iter().any(runs)
    }
}

fn descendants(first: &Process) -> Vec<Process> {
    let parents = procfs::process::all_processes().into_iter().flatten().flatten();
    let parents: Vec<(i32, i32)> =
        parents.filter_map(|process| Some((process.pid, process.stat().ok()?.ppid))).collect();
    let mut pids = vec![first.pid];
    let mut at = 0;
    while at < pids.len() && pids.len() < PROCESSES_MAX {
        let parent = pids[at];
        pids.extend(parents.iter().filter(|of| of.1 == parent).map(|&(pid, _)| pid));
        at += 1;
    }
    pids.truncate(PROCESSES_MAX);
    pids.into_iter().filter_map(|pid| Process::new(pid).ok()).collect()
}

fn sockets(process: &Process) -> Vec<u64> {
    let inode = |file: procfs::process::FDInfo| match file.target {
        FDTarget::Socket(inode) => Some(inode),
        _ => None,
    };
    process.fd().into_iter().flatten().flatten().filter_map(inode).collect()
}
