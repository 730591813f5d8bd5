//! Gates that change, slots that are held, and the ramp of a server that returns. A gate is closed
//! if the driver has closed it, if its server has requested a pause, or if it has no token.

use curtail_kernel::{Core, Event, Outcome, ServerId, Timestamp, Tuning};

use super::{Copy, Model};

impl Model {
    pub(crate) fn is_closed(&self, server: ServerId) -> bool {
        let no_token = self.policy.rate().is_some() && self.buckets[server.index()].1;
        self.closed[server.index()].is_some() || no_token
    }

    /// Before an event, adds the tokens for the time that has passed, at the rates of the cell.
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

    /// Reopens the servers that have a token again.
    pub(super) fn open_paced(&mut self, servers: std::ops::Range<usize>) {
        for (tokens, closed) in &mut self.buckets[servers] {
            *closed &= *tokens < 1.0 - 1e-6;
        }
    }

    /// Takes one of a server's tokens for a copy.
    pub(super) fn pay(&mut self, server: ServerId) {
        if self.policy.rate().is_some() {
            let (tokens, closed) = &mut self.buckets[server.index()];
            assert!(*tokens >= 1.0 - 1e-6, "{server:?} is sent more than its rate");
            *tokens -= 1.0;
            *closed = *tokens < 1.0 - 1e-6;
        }
    }

    /// After an event, checks that a server is closed only until it has a token, or until the next
    /// tick after that.
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

    /// Whether the gate of a server admits another copy.
    pub(crate) fn has_room(&self, server: ServerId) -> bool {
        !self.is_closed(server) && self.taken(server) < self.gate(server)
    }

    /// Handles a pause that a server requests. It is granted unless one of the server's groups
    /// would be left without an open server.
    pub(super) fn pause(&mut self, server: ServerId, ns: u64) {
        let until = self.now.after(ns.min(self.limits.retry_after_max_ns));
        let mut mine = self.topology.groups.iter().filter(|group| group.contains(&server));
        let takes = |other: ServerId| self.is_open(other) && !self.is_closed(other);
        let has_other = |group: &Vec<ServerId>| group.iter().any(|&s| s != server && takes(s));
        if mine.all(has_other)
            && until > self.now.max(self.closed[server.index()].unwrap_or(self.now))
        {
            self.closed[server.index()] = Some(until);
        }
    }

    /// Handles the end of a copy on its server.
    pub(super) fn learn(&mut self, copy: &Copy, outcome: Outcome) {
        let at = copy.server.index();
        if outcome.wins() {
            self.longest_ns = self.longest_ns.max(self.now.since(copy.started));
            let limit = self.limit_of(copy.server);
            self.ramp[at] = self.ramp[at].map(|ramp| ramp + 1).filter(|&ramp| ramp < limit);
        } else if outcome != Outcome::Local {
            self.faults[at].push(copy.started);
        }
    }

    /// Begins the ramp of a server that has returned, unless one of its groups has no other server.
    pub(super) fn begin_ramp(&mut self, server: ServerId) {
        let mut mine = self.topology.groups.iter().filter(|group| group.contains(&server));
        let has_peer = |group: &Vec<ServerId>| group.iter().any(|&s| s != server && self.is_up(s));
        let one_more = self.outstanding(server) + 1;
        self.ramp[server.index()] = mine.all(has_peer).then_some(one_more);
    }

    /// After an event, checks the slots that the cell holds. Each belongs to a copy that was
    /// refused, failed or exceeded a limit. No slot is held for longer than a good response takes.
    pub(super) fn hold(&mut self, core: &Core, event: &Event) {
        for at in 0..self.held.len() {
            if matches!(event, Event::Tick) {
                let (now, longest) = (self.now, self.longest_ns);
                self.faults[at].retain(|started| started.after(longest) > now);
            }
            self.held[at] = core.server(ServerId(at as u32)).held;
            let faults = self.faults[at].len();
            assert!(self.held[at] as usize <= faults, "{} slots held for {faults}", self.held[at]);
        }
    }
}
