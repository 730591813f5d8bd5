//! Rescue: our own policy.

mod live;
mod properties;
mod steps;
mod table;
mod worlds;

pub(super) use live::judge as live;
pub(super) use properties::judge as properties;
pub(super) use steps::judge as steps;
pub(super) use table::judge as table;
pub(super) use worlds::judge as worlds;
