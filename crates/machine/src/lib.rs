//! Measures how the machine affects running threads in general, and one process in particular.
//! Linux only.

mod causes;
mod cgroup;
mod counters;
mod leaf;
mod limit;
mod processors;
mod rounds;
mod spin;
mod taken;

pub use causes::{Cause, Causes, Likely, likely};
pub use cgroup::{CpuGroup, Version};
pub use counters::Counters;
pub use leaf::{LeafError, LocalLeaf, Sampler, SamplerReport};
pub use limit::CpuLimit;
pub use processors::{Processors, keep_to};
pub use rounds::{Round, Rounds, STOLEN_MAX, Stolen, take_turns};
pub use spin::{Gaps, observe};
pub use taken::{Reading, Taken};
