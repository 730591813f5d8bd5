//! Gates that move: closed by a driver, or for want of a token.

use curtail_kernel::{Core, Event, ServerId, Timestamp, Tuning};

use super::Model;

impl Model {
    pub(crate) fn is_closed(&self, server: ServerId) -> bool {
        let no_token = self.policy.rate().is_some() && self.buckets[server.index()].1;
        self.closed[server.index()].is_some() || no_token
    }

    /// Before an event: time has brought tokens, at the rates of the cell.
    pub(crate) fn earn(&mut self, core: &Core, now: Timestamp) {
        let Tuning { interval_ns, burst, .. } = self.limits.tuning;
        let intervals = now.since(self.now) as f64 / interval_ns as f64;
        for (at, (tokens, closed)) in self.buckets.iter_mut().enumerate() {
            let server = ServerId(at as u32);
            let Some(per_second) = core.rate(server) else { return };
            let rate = per_second * interval_ns as f64 / 1e9;
            *tokens = (*tokens + rate * intervals).min(burst);
            *closed = core.is_closed(server);
        }
    }

    /// The servers that have a token again open.
    pub(super) fn open_paced(&mut self, servers: std::ops::Range<usize>) {
        for (tokens, closed) in &mut self.buckets[servers] {
            *closed &= *tokens < 1.0 - 1e-6;
        }
    }

    /// A copy takes a token of its server's.
    pub(super) fn pay(&mut self, server: ServerId) {
        if self.policy.rate().is_some() {
            let (tokens, closed) = &mut self.buckets[server.index()];
            assert!(*tokens >= 1.0 - 1e-6, "{server:?} is sent more than its rate");
            *tokens -= 1.0;
            *closed = *tokens < 1.0 - 1e-6;
        }
    }

    /// After an event: a server is closed as long as it has no token, or until the next tick.
    pub(super) fn check_rates(&mut self, core: &Core, event: &Event) {
        for at in 0..self.buckets.len() {
            let server = ServerId(at as u32);
            let (tokens, closed) = &mut self.buckets[at];
            *closed = core.is_closed(server);
            let waits = *closed && self.closed[at].is_none() && core.rate(server).is_some();
            let should_open = *tokens >= 1.0 + 1e-6 && matches!(event, Event::Tick);
            assert!(!(waits && should_open), "{server:?} is closed and has {tokens} tokens");
        }
    }

    /// Does the gate of a server let another copy in?
    pub(crate) fn has_room(&self, server: ServerId) -> bool {
        !self.is_closed(server) && self.outstanding(server) < self.gate(server)
    }
}
