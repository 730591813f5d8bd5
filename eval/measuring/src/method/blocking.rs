//! Sends one packet at a time through sockets that sleep, like netperf's request-response test with
//! a time between packets.
//!
//! Nothing is sent while a response is outstanding, so packets that become due in that time are
//! never sent. The rate falls, and the slowest times are measured least often. This is a property
//! of the method.

use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

use super::{Clock, Flow, LOSS_TIMEOUT, or_lost, sockets};
use crate::frame::{PAYLOAD_BYTES, Payload};
use crate::slice::Shots;

pub(super) fn run(shots: &mut Shots, flow: Flow, run: u16) -> io::Result<Duration> {
    let (out, back) = sockets()?;
    back.set_read_timeout(Some(LOSS_TIMEOUT))?;
    let clock = Clock(Instant::now());
    let mut number = 0;
    while number < flow.packets {
        let now_ns = clock.now_ns();
        let due_ns = u64::from(number) * flow.period_ns;
        if due_ns > now_ns {
            thread::sleep(Duration::from_nanos(due_ns - now_ns));
        } else if now_ns - due_ns >= flow.period_ns {
            // Continue with the next packet that is not overdue.
            number = u32::try_from(now_ns.div_ceil(flow.period_ns)).unwrap_or(u32::MAX);
            continue;
        }
        let sent_ns = clock.now_ns();
        or_lost(out.send(&Payload::new(run, number).bytes()))?;
        shots.sent(number, sent_ns);
        let mut bytes = [0; PAYLOAD_BYTES];
        loop {
            match back.recv(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    break;
                }
                count => count?,
            };
            let came_ns = clock.now_ns();
            // Any other packet was sent earlier and is late.
            let ours = |payload: &Payload| (payload.run, payload.number) == (run, number);
            if let Some(payload) = Payload::read(&bytes).filter(ours) {
                shots.came(payload, came_ns);
                break;
            }
        }
        number += 1;
    }
    Ok(clock.0.elapsed())
}
