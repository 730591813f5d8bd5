//! Open files: every connection is one, and the system bounds them.
//!
//! A proxy that lets clients have them all cannot reach its replicas any more, so half of them are
//! kept for replicas, probes and operators.

/// How many files this process may open, where the system says.
#[cfg(unix)]
fn allowed() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current
}

#[cfg(not(unix))]
fn allowed() -> Option<u64> {
    None
}

/// How many clients may be connected at once, of those that the configuration allows.
pub(crate) fn client_permits(max_connections: usize) -> usize {
    let Some(files) = allowed() else { return max_connections };
    let permits = share(max_connections, files);
    if permits < max_connections {
        tracing::warn!(
            "listen.max_connections is {max_connections}, but the system allows {files} open files: \
             {permits} clients at once; raise it with `ulimit -n` or LimitNOFILE"
        );
    }
    permits
}

/// Half of the open files.
fn share(max_connections: usize, files: u64) -> usize {
    let half = usize::try_from(files / 2).unwrap_or(usize::MAX).max(1);
    max_connections.min(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_half_of_the_open_files_at_most() {
        assert_eq!(share(10_000, 1_024), 512);
        assert_eq!(share(100, 1_024), 100);
        assert_eq!(share(100, 1), 1);
    }
}
