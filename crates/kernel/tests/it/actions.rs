//! Reads the actions of a cell.

use curtail_kernel::{Action, CopyId, ServerId};

/// The copies that start, and their servers.
pub(crate) fn starts(actions: &[Action]) -> Vec<(CopyId, ServerId)> {
    let start = |action: &Action| match *action {
        Action::Start { copy, server, .. } => Some((copy, server)),
        _ => None,
    };
    actions.iter().filter_map(start).collect()
}
