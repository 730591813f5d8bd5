//! Checks the limit on open files.

use curtail_load::Plan;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::exit::{Stop, lacking};

/// Raises this process's limit on open files to the hard limit. Every connection is an open file,
/// and shells often allow 1024 where the system allows far more. Errors are ignored: any operation
/// that later lacks a descriptor reports its own error.
pub(crate) fn allow_many() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Open files that are not connections: results that are written at the end, and the runtime's own
/// files.
const OTHERS: usize = 32;
/// Open files of a sending thread, in addition to its connections.
const PER_THREAD: usize = 4;

/// Returns an error if the limit on open files is too low for all connections of a plan to be open
/// at once. A request that fails for lack of a descriptor would look like one that the server has
/// refused.
pub(crate) fn room_for(plan: &Plan) -> Result<(), Stop> {
    let most = getrlimit(Resource::Nofile).current;
    most.map_or(Ok(()), |most| room_within(plan.connections, plan.threads, most))
}

fn room_within(connections: usize, threads: usize, most: u64) -> Result<(), Stop> {
    let others = OTHERS + PER_THREAD * threads;
    let (needed, room) = (connections + others, (most as usize).saturating_sub(others));
    if needed as u64 <= most {
        return Ok(());
    }
    let fewer = if room > 0 { format!("use at most {room}, or ") } else { String::new() };
    Err(lacking!(
        "{connections} connections need {needed} open files, but the system allows this process \
         {most}; {fewer}raise the limit (ulimit -n)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_connections_are_rejected_with_the_possible_number() {
        assert!(room_within(64, 1, 100).is_ok());
        let Err(Stop::Lacking(message)) = room_within(65, 1, 100) else {
            panic!("there is no room")
        };
        assert!(
            message.contains("65 connections need 101 open files")
                && message.contains("at most 64"),
            "{message}"
        );
        let Err(Stop::Lacking(message)) = room_within(1, 1, 8) else { panic!("there is no room") };
        assert!(message.ends_with("8; raise the limit (ulimit -n)"), "{message}");
    }
}
