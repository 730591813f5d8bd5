//! Curtail inside Envoy, as a dynamic module: tails and costs, beside Envoy's own router and `curtail
//! proxy`.

mod cpu;
mod storm;
mod tail;

use crate::line::Line;

pub(crate) const LINES: &[Line] = &[
    tail::A_2,
    tail::B_2,
    tail::C_2,
    cpu::CPU_3,
    cpu::INSTRUCTIONS_3,
    storm::STORM_4,
    tail::TWO_6,
];
