//! The loop of the generators that never sleep: it sends packets that are due and polls for
//! returned ones.
//!
//! The flow has a constant rate. If the loop is delayed for longer than a period, the packets that
//! became due in the meantime are skipped and counted. If they were sent in a burst, they would
//! wait for each other.

use std::io;
use std::time::{Duration, Instant};

use super::{Clock, Flow, LOSS_TIMEOUT};
use crate::frame::{PAYLOAD_BYTES, Payload};
use crate::slice::Shots;

/// If more packets than this are in flight, the timestamps of sent packets are fetched even if no
/// packet came back, because the kernel keeps only a few hundred.
const UNDER_WAY_MAX: u64 = 8;

/// The interface through which a generator sends and receives.
pub(super) trait Port {
    /// Sends the packet with this number.
    fn send(&mut self, number: u32, payload: &[u8; PAYLOAD_BYTES]) -> io::Result<()>;

    /// Returns a packet if one came back, with the kernel's timestamp if it was requested.
    fn receive(&mut self) -> io::Result<Option<(Payload, Option<u64>)>>;

    /// Whether the kernel's timestamps are used instead of the program's.
    fn stamps(&self) -> bool {
        false
    }

    /// Reports the numbers of sent packets and the kernel's timestamps.
    fn left(&mut self, _: &mut dyn FnMut(u32, u64)) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn run(
    port: &mut impl Port,
    shots: &mut Shots,
    flow: Flow,
    run: u16,
) -> io::Result<Duration> {
    let clock = Clock(Instant::now());
    let mut number = 0;
    while number < flow.packets {
        let now_ns = clock.now_ns();
        let due_ns = u64::from(number) * flow.period_ns;
        if now_ns >= due_ns + flow.period_ns {
            number = u32::try_from(now_ns / flow.period_ns).unwrap_or(u32::MAX);
        } else if now_ns >= due_ns {
            let payload = Payload::new(run, number).bytes();
            let sent_ns = clock.now_ns();
            port.send(number, &payload)?;
            shots.sent(number, sent_ns);
            number += 1;
            if shots.under_way() > UNDER_WAY_MAX {
                port.left(&mut |number, left_ns| shots.left(number, left_ns))?;
            }
        }
        look(port, shots, run, clock)?;
    }
    let took = clock.0.elapsed();
    while shots.under_way() > 0 && clock.0.elapsed() < took + LOSS_TIMEOUT {
        look(port, shots, run, clock)?;
    }
    Ok(took)
}

fn look(port: &mut impl Port, shots: &mut Shots, run: u16, clock: Clock) -> io::Result<()> {
    let Some((payload, stamp)) = port.receive()? else { return Ok(()) };
    let came_ns = clock.now_ns();
    if payload.run != run {
        return Ok(());
    }
    shots.came(payload, came_ns);
    if port.stamps() {
        shots.stamped(payload.number, stamp);
        port.left(&mut |number, left_ns| shots.left(number, left_ns))?;
    }
    Ok(())
}
