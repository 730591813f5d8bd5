//! Open files: every connection is one. A shell often allows 1024 where the system allows far more.

/// Raises this process's bound as far as it may. Best effort: where it fails, whatever finds no
/// descriptor says so.
pub(crate) fn allow_many() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
