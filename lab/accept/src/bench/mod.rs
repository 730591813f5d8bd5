//! Benchmarks. They measure costs and are not tests.

mod kernel;
mod proxies;
mod train;

pub(crate) use kernel::{BOUND_1, GROWTH_2, LEARNED_10, SIM_4, SIM_5};
pub(crate) use proxies::{Cost, PROXY_7};

use crate::line::Line;

pub(crate) const LINES: &[Line] = &[
    BOUND_1,
    GROWTH_2,
    kernel::KERNEL_3,
    SIM_4,
    SIM_5,
    kernel::SIM_POLICIES_6,
    PROXY_7,
    proxies::SATURATE_8,
    proxies::REQUEST_9,
    LEARNED_10,
    train::TRAIN_11,
];
