//! Why a server cannot be profiled, and what helps.

use std::path::PathBuf;

use crate::binary::BinaryError;

/// How much of a message of the kernel's is shown, in bytes.
const LONGEST: usize = 400;

/// Why a server cannot be profiled.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// There is no such process.
    #[error("there is no process {0}; see `ps`")]
    NoProcess(u32),
    /// We may not look at the process.
    #[error(
        "process {0} may not be looked at by this one; run this as root, where the process runs"
    )]
    NotAllowed(u32),
    /// It accepts no connections.
    #[error("process {0} and its children listen on no TCP port; give the process that does")]
    NoPort(u32),
    /// It listens on more than there is room for.
    #[error("it listens on {0} ports, and there is room for {max}; choose with --port", max = super::kernel::PORTS)]
    ManyPorts(usize),
    /// The port is not among those of the target.
    #[error("process {pid} and its children do not listen on port {port}; they do on {ports}", ports = list(.ports))]
    OtherPort {
        /// Which process.
        pid: u32,
        /// The port asked for.
        port: u16,
        /// Those that there are.
        ports: Vec<u16>,
    },
    /// A mark cannot be placed.
    #[error("{path}: {why}", path = .path.display())]
    Binary {
        /// Where it was looked for.
        path: PathBuf,
        /// Why not.
        why: BinaryError,
    },
    /// A file of the target cannot be read.
    #[error("{path}: {why}", path = .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        why: std::io::Error,
    },
    /// The library of a mark is not loaded.
    #[error("no process of the target has loaded a library {0}; see /proc/PID/maps")]
    NoLibrary(String),
    /// A probe would cost far too much.
    #[error(
        "{place} begins with an instruction that the kernel cannot emulate, so a probe costs up to 20 us per call; \
         mark another function, or allow it with --allow-slow-probes"
    )]
    Slow {
        /// Which mark.
        place: String,
    },
    /// The kernel says nothing of its types.
    #[error("the kernel has no BTF (/sys/kernel/btf/vmlinux); it needs CONFIG_DEBUG_INFO_BTF")]
    NoBtf,
    /// We may not.
    #[error(
        "this process may not load eBPF programs; run it as root, or give it CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
    )]
    NoPermission,
    /// The system is configured so that no process may.
    #[error(
        "the kernel is locked down ({0}), so no program may read its memory; boot without lockdown=confidentiality"
    )]
    Lockdown(String),
    /// The kernel lacks a tracepoint that is needed.
    #[error("the kernel has no tracepoint {0}; Linux 6.3 or later has all that are needed")]
    NoTracepoint(&'static str),
    /// There was nothing to profile.
    #[error("{target}: no request was seen from its first stage to its last: {why}")]
    NoRequest {
        /// Of what.
        target: String,
        /// Why not.
        why: String,
    },
    /// Something else that the kernel said.
    #[error("the kernel refuses {what}: {why}")]
    Kernel {
        /// What was tried.
        what: String,
        /// Its message.
        why: String,
    },
}

impl LiveError {
    /// If other arguments would help.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        !matches!(
            self,
            LiveError::NoBtf
                | LiveError::NotAllowed(_)
                | LiveError::NoPermission
                | LiveError::NoRequest { .. }
                | LiveError::Lockdown(_)
                | LiveError::NoTracepoint(_)
                | LiveError::Kernel { .. }
        )
    }

    /// From a message of the kernel's, with its sources.
    pub(super) fn kernel(what: impl Into<String>, error: &dyn std::error::Error) -> LiveError {
        let mut why = error.to_string();
        let mut source = error.source();
        let mut denied = false;
        while let Some(cause) = source {
            // Not EACCES, which is the verifier's verdict on a program.
            let number =
                cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
            denied |= number == Some(nix::libc::EPERM);
            let text = cause.to_string();
            if !why.contains(&text) {
                why = format!("{why}: {text}");
            }
            source = cause.source();
        }
        // Verifiers explain themselves at length, and say at the end what it was.
        if why.len() > LONGEST {
            let cut = why.len() - LONGEST;
            let cut = (cut..why.len()).find(|&at| why.is_char_boundary(at)).unwrap_or(cut);
            why = format!("... {}", &why[cut..]);
        }
        match denied {
            true => lockdown().map_or(LiveError::NoPermission, LiveError::Lockdown),
            false => LiveError::Kernel { what: what.into(), why },
        }
    }
}

/// Ports as people write them.
pub(super) fn list(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

/// The lockdown that forbids reading the kernel's memory, if one is on.
fn lockdown() -> Option<String> {
    let modes = std::fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let mode = modes.split_once('[')?.1.split_once(']')?.0;
    (mode == "confidentiality").then(|| mode.to_owned())
}
