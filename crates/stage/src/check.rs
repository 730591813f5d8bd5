//! What this machine has to tell two classes apart, and what is used where it has it not.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::cpu::Mechanism;
use crate::link;

/// A resource.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Found {
    /// `processor`, `disk` or `link`.
    pub resource: &'static str,
    /// Which one.
    pub name: String,
    /// What separates primaries from duplicates there.
    pub mechanism: String,
    /// What is missing, and how to have it; none where all is there.
    pub lacks: Option<String>,
}

/// The processors.
#[must_use]
pub fn processors() -> Found {
    let mechanism = Mechanism::find();
    let lacks = match mechanism {
        Mechanism::Fifo => None,
        Mechanism::Idle => Some(
            "SCHED_FIFO is not allowed; run as root in a control group with cpu.rt_runtime_us above 0"
                .to_owned(),
        ),
        Mechanism::None => Some("the system schedules no thread before others".to_owned()),
    };
    let name = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    Found { resource: "processor", name, mechanism: mechanism.name().to_owned(), lacks }
}

/// The disk that holds a folder.
#[must_use]
pub fn disk(folder: &Path) -> Found {
    let name = folder.display().to_string();
    let scheduler = fs::metadata(folder).ok().and_then(|of| scheduler(of.dev()));
    let queue = "a queue in this process, before a bounded number of reads";
    let (mechanism, lacks) = match scheduler.as_deref() {
        Some(known @ ("bfq" | "mq-deadline")) => {
            (format!("{queue}; ioprio_set under {known}"), None)
        }
        Some(other) => {
            let lacks = format!(
                "ioprio_set does nothing under the scheduler {other}; the queue does without it"
            );
            (queue.to_owned(), Some(lacks))
        }
        None => (
            queue.to_owned(),
            Some("no block device is below it: ioprio_set does nothing".to_owned()),
        ),
    };
    Found { resource: "disk", name, mechanism, lacks }
}

/// The scheduler of a device, or of the one that it is a part of.
fn scheduler(device: u64) -> Option<String> {
    let (major, minor) = (device >> 8 & 0xfff, (device & 0xff) | (device >> 12 & 0xfff00));
    let folder = format!("/sys/dev/block/{major}:{minor}");
    let read = |path: &str| fs::read_to_string(format!("{folder}/{path}")).ok();
    let all = read("queue/scheduler").or_else(|| read("../queue/scheduler"))?;
    let (_, rest) = all.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// The link that a listener of this address is on.
#[must_use]
pub fn link(address: IpAddr) -> Found {
    let (resource, name) = ("link", address.to_string());
    let found = |mechanism: &str, lacks| Found {
        resource,
        name: name.clone(),
        mechanism: mechanism.to_owned(),
        lacks,
    };
    let marks = "sockets are marked (SO_PRIORITY, IP_TOS)";
    let Some(device) = device(address) else {
        let lacks = "which device that is, the address does not say; see tc qdisc show";
        return found(marks, Some(lacks.to_owned()));
    };
    let said = output("tc", &["qdisc", "show", "dev", &device]).unwrap_or_default();
    if said.contains("pfifo_fast") && (said.contains("htb") || said.contains("tbf")) {
        return found(&format!("{marks}; bands of pfifo_fast on {device}"), None);
    }
    let commands =
        link::commands(&device, 1_000_000_000).map(|(program, line)| format!("{program} {line}"));
    let lacks = format!(
        "{device} has no bands of its own; with a rate just below that of the link:\n    {}",
        commands.join("\n    ")
    );
    found(&format!("{marks}; {device} does not look at that"), Some(lacks))
}

/// The device that has an address.
fn device(address: IpAddr) -> Option<String> {
    if address.is_unspecified() {
        return None;
    }
    let said = output("ip", &["-o", "addr", "show", "to", &address.to_string()])?;
    said.split_whitespace().nth(1).map(str::to_owned)
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let out = Command::new(program).args(arguments).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_machine_has_something_tells_classes_apart_on_its_disks() {
        let found = disk(Path::new("/"));
        assert!(found.mechanism.starts_with("a queue"), "{found:?}");
        assert!(disk(Path::new("/absent")).lacks.is_some());
    }

    #[test]
    fn a_link_without_bands_says_how_to_have_them() {
        let found = link("127.0.0.1".parse().unwrap());
        let lacks = found.lacks.unwrap();
        // Where there is no `ip`, not even the device is known.
        assert!(lacks.contains("tc qdisc"), "{lacks}");
    }
}
