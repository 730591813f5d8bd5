//! Reasons why a server cannot be profiled, with their fixes.

use std::path::PathBuf;

use crate::binary::BinaryError;

/// The maximum length of a kernel message in an error, in bytes.
const LONGEST: usize = 400;

/// The reason why a server cannot be profiled.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages document the variants")]
pub enum LiveError {
    #[error("there is no process {0}; see `ps`")]
    NoProcess(u32),
    #[error("no permission to inspect process {0}; run this as root, where the process runs")]
    NotAllowed(u32),
    #[error("process {0} and its children listen on no TCP port; give the process that listens")]
    NoPort(u32),
    #[error("it listens on {0} ports, and at most {max} can be profiled; choose with --port",
        max = super::PORTS)]
    ManyPorts(usize),
    #[error("process {pid} and its children do not listen on port {port}, only on {ports}",
        ports = list(.ports))]
    OtherPort { pid: u32, port: u16, ports: Vec<u16> },
    #[error("{path}: {why}", path = .path.display())]
    Binary { path: PathBuf, why: BinaryError },
    #[error("{path}: {why}", path = .path.display())]
    File { path: PathBuf, why: std::io::Error },
    #[error("no process of the target has loaded a library {0}; see /proc/PID/maps")]
    NoLibrary(String),
    #[error(
        "{place} begins with an instruction that the kernel cannot emulate, so a probe costs up to 20 us per call; \
         mark another function, or allow it with --allow-slow-probes"
    )]
    Slow { place: String },
    #[error("the kernel has no BTF (/sys/kernel/btf/vmlinux); it needs CONFIG_DEBUG_INFO_BTF")]
    NoBtf,
    #[error(
        "this process may not load eBPF programs; run it as root, or give it CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
    )]
    NoPermission,
    #[error(
        "the kernel is locked down ({0}), so no program may read its memory; boot without lockdown=confidentiality"
    )]
    Lockdown(String),
    #[error("the kernel has no tracepoint {0}; use Linux 6.3 or later")]
    NoTracepoint(&'static str),
    #[error("{target}: no request was seen from its first stage to its last: {why}")]
    NoRequest { target: String, why: String },
    #[error("the kernel refuses {what}: {why}")]
    Kernel { what: String, why: String },
}

impl LiveError {
    /// Whether the error can be fixed by different arguments.
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

    /// Creates an error from a kernel error and the chain of its sources.
    pub(super) fn kernel(what: impl Into<String>, error: &dyn std::error::Error) -> LiveError {
        let mut why = error.to_string();
        let mut source = error.source();
        let mut denied = false;
        while let Some(cause) = source {
            // EACCES does not count: it means that the verifier rejected a program.
            let number =
                cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
            denied |= number == Some(nix::libc::EPERM);
            let text = cause.to_string();
            if !why.contains(&text) {
                why = format!("{why}: {text}");
            }
            source = cause.source();
        }
        // Verifier logs are long, and the cause is at the end.
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

/// Joins port numbers with commas.
pub(super) fn list(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the lockdown mode if it forbids reading the kernel's memory.
fn lockdown() -> Option<String> {
    let modes = std::fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let mode = modes.split_once('[')?.1.split_once(']')?.0;
    (mode == "confidentiality").then(|| mode.to_owned())
}
