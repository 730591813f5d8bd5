//! Checks which mechanisms this machine supports for separating the two classes, and what is used
//! instead of the missing ones.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::cpu::Mechanism;
use crate::link;

/// The result of checking one resource.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Found {
    /// `processor`, `disk` or `link`.
    pub resource: &'static str,
    /// The name of the resource.
    pub name: String,
    /// The mechanism that separates primaries from duplicates.
    pub mechanism: String,
    /// What is missing, and how to provide it. `None` if nothing is missing.
    pub lacks: Option<String>,
}

/// Checks the processors.
#[must_use]
pub fn processors() -> Found {
    let mechanism = Mechanism::find();
    let lacks = match mechanism {
        Mechanism::Fifo => None,
        Mechanism::Idle => Some(
            "SCHED_FIFO is not allowed; run as root in a control group with cpu.rt_runtime_us above 0"
                .to_owned(),
        ),
        Mechanism::None => Some("the system has no thread priorities".to_owned()),
    };
    let name = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    Found { resource: "processor", name, mechanism: mechanism.name().to_owned(), lacks }
}

/// Checks the disk that contains a folder.
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
                "ioprio_set has no effect under the scheduler {other}; the queue works without it"
            );
            (queue.to_owned(), Some(lacks))
        }
        None => (
            queue.to_owned(),
            Some("the folder is not on a block device, so ioprio_set has no effect".to_owned()),
        ),
    };
    Found { resource: "disk", name, mechanism, lacks }
}

/// Returns the I/O scheduler of a device, or of its disk if the device is a partition.
fn scheduler(device: u64) -> Option<String> {
    let (major, minor) = (device >> 8 & 0xfff, (device & 0xff) | (device >> 12 & 0xfff00));
    let folder = format!("/sys/dev/block/{major}:{minor}");
    let read = |path: &str| fs::read_to_string(format!("{folder}/{path}")).ok();
    let all = read("queue/scheduler").or_else(|| read("../queue/scheduler"))?;
    let (_, rest) = all.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Checks the link that carries the traffic of a listener with this address.
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
        let lacks = "the device of this address is unknown; see tc qdisc show";
        return found(marks, Some(lacks.to_owned()));
    };
    let text = output("tc", &["qdisc", "show", "dev", &device]).unwrap_or_default();
    if text.contains("pfifo_fast") && (text.contains("htb") || text.contains("tbf")) {
        return found(&format!("{marks}; bands of pfifo_fast on {device}"), None);
    }
    let commands =
        link::commands(&device, 1_000_000_000).map(|(program, line)| format!("{program} {line}"));
    let lacks = format!(
        "{device} has no priority bands; add them, with a rate just below the link's:\n    {}",
        commands.join("\n    ")
    );
    found(&format!("{marks}; {device} ignores the marks"), Some(lacks))
}

/// Returns the device to which an address is assigned.
fn device(address: IpAddr) -> Option<String> {
    if address.is_unspecified() {
        return None;
    }
    let text = output("ip", &["-o", "addr", "show", "to", &address.to_string()])?;
    text.split_whitespace().nth(1).map(str::to_owned)
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let out = Command::new(program).args(arguments).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_disk_has_a_mechanism_that_separates_classes() {
        let found = disk(Path::new("/"));
        assert!(found.mechanism.starts_with("a queue"), "{found:?}");
        assert!(disk(Path::new("/absent")).lacks.is_some());
    }

    #[test]
    fn the_report_on_a_link_without_bands_contains_the_fix() {
        let found = link("127.0.0.1".parse().unwrap());
        let lacks = found.lacks.unwrap();
        // If the program `ip` is missing, not even the device is known.
        assert!(lacks.contains("tc qdisc"), "{lacks}");
    }
}
