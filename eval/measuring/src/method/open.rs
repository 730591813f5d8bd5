//! The loop of the generators that never sleep: it sends what is due, and looks whether something came.
//!
//! The flow has a constant rate. Where the loop is held up for longer than a period, what was due meanwhile
//! is left out and counted, rather than sent in a burst which would wait for itself.

use std::io;
use std::time::{Duration, Instant};

use super::{Clock, Flow, PATIENCE};
use crate::frame::{PAYLOAD_BYTES, Payload};
use crate::slice::Shots;

/// With so many packets under way, stamps of those that left are fetched though none came back: the
/// kernel keeps a few hundred.
const UNDER_WAY_MAX: u64 = 8;

/// What a generator sends and receives by.
pub(super) trait Port {
    /// Sends the packet with a number.
    fn send(&mut self, number: u32, payload: &[u8; PAYLOAD_BYTES]) -> io::Result<()>;

    /// What came, if anything; with the kernel's time of it, where that is asked for.
    fn receive(&mut self) -> io::Result<Option<(Payload, Option<u64>)>>;

    /// The times of the kernel are taken, not ours.
    fn stamps(&self) -> bool {
        false
    }

    /// Of packets that were sent: their numbers and the kernel's times.
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
    while shots.under_way() > 0 && clock.0.elapsed() < took + PATIENCE {
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
