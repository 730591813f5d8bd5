//! The sink of a run, to which shards report the outcomes of their queries.

use std::ops::Range;

use crate::requests::{Done, Requests};
use crate::tally::Tally;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) request: u64,
    pub(crate) latency_ns: u64,
    /// The time from arrival to the start of the first copy.
    pub(crate) waited_ns: u64,
    /// The execution time of the copy that won.
    pub(crate) useful_ns: u64,
    pub(crate) copies: u32,
}

#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) requests: Requests,
    pub(crate) tally: Tally,
    /// The total execution time, in ns, of copies whose response was used, since the first request.
    pub(crate) useful_ns: u128,
    measured: Range<u64>,
}

impl Sink {
    pub(crate) fn new(shards: u32, measured: Range<u64>) -> Self {
        Self { requests: Requests::new(shards), tally: Tally::new(), useful_ns: 0, measured }
    }

    #[inline(always)]
    pub(crate) fn measures(&self, request: u64) -> bool {
        self.measured.contains(&request)
    }

    #[inline(always)]
    pub(crate) fn answered(&mut self, answered: Answered) {
        let Answered { request, latency_ns, waited_ns, useful_ns, copies } = answered;
        self.requests.answered(request, latency_ns);
        self.useful_ns += u128::from(useful_ns);
        if self.measures(request) {
            let tally = &mut self.tally;
            tally.queries.saturating_record(latency_ns);
            tally.query_ns += u128::from(latency_ns);
            tally.waited_ns += u128::from(waited_ns);
            tally.copies += u64::from(copies);
            tally.hedged += u64::from(copies > 1);
        }
    }

    /// Ends the run if a queue has overflowed.
    pub(crate) fn overflowed(&mut self, has: bool) {
        self.tally.queue_full |= has;
        self.tally.overflowed |= has;
    }

    pub(crate) fn failed(&mut self, request: u64) {
        self.requests.failed(request);
    }

    /// Counts the requests that are done. Returns false when all measured requests are done.
    pub(crate) fn collect(&mut self) -> bool {
        for done in self.requests.late() {
            self.count(done);
        }
        while let Some(done) = self.requests.pop() {
            self.count(done);
        }
        self.requests.oldest() < self.measured.end
    }

    #[inline(always)]
    fn count(&mut self, done: Done) {
        let Done { request, latency_ns } = done;
        // Windows also count unmeasured requests, because a change may occur before measuring
        // begins.
        if let Some(windows) = &mut self.tally.windows
            && let Some(ns) = latency_ns
        {
            windows.count(request, ns, &self.tally.requests);
        }
        if !self.measures(request) {
            return;
        }
        match latency_ns {
            Some(ns) => {
                self.tally.requests.saturating_record(ns);
                self.tally.request_ns += u128::from(ns);
            }
            None => self.tally.failed += 1,
        }
    }
}
