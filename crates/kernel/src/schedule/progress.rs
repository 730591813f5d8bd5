//! How far a request has come, end to end: what it took so far, and what it will take in all.
//!
//! Source: document 002 §5.2.4, *Progress metrics*. Two counters per metric travel with a request: a, what was spent
//! before it came here, and b, what is spent here and further downstream. Downstream they begin as (a + b, 0); what a
//! call spent comes back with its response and is added to b here. In parallel calls the work adds up, and the
//! service time, which stands for time, is divided by their number.
//!
//! The estimated totals are averages of whole requests at the entry ([`Totals`]), and travel along.

/// What a part of a request spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// st: service time without queueing, in ns; parallel parts count by their mean.
    pub service_ns: u64,
    /// θ: work, in ns of one slot; parallel parts add up.
    pub work_ns: u64,
}

impl Spent {
    fn plus(self, other: Self) -> Self {
        Self {
            service_ns: self.service_ns.saturating_add(other.service_ns),
            work_ns: self.work_ns.saturating_add(other.work_ns),
        }
    }
}

/// The counters of a request at one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// a: what was spent before it came here.
    pub upstream: Spent,
    /// b: what is spent here, and by calls that have come back.
    pub here: Spent,
    /// T: the service time of a whole request of this workflow, estimated, in ns; 0 where it is not known.
    pub total_service_ns: u64,
    /// T: its work, estimated, in ns; 0 where it is not known.
    pub total_work_ns: u64,
}

impl Progress {
    /// What a request begins with at the entry, where so much is known of its workflow.
    #[must_use]
    pub fn begin(totals: &Totals) -> Self {
        let (total_service_ns, total_work_ns) = totals.estimate();
        Self { total_service_ns, total_work_ns, ..Self::default() }
    }

    /// The counters that travel with a call downstream.
    #[must_use]
    pub fn downstream(&self) -> Self {
        Self { upstream: self.upstream.plus(self.here), here: Spent::default(), ..*self }
    }

    /// A resource has served a sub-task for so long.
    pub fn served(&mut self, ns: u64) {
        self.here = self.here.plus(Spent { service_ns: ns, work_ns: ns });
    }

    /// So many parallel calls or sub-tasks have ended, which spent so much in all.
    pub fn joined(&mut self, parallel: u32, sum: Spent) {
        let service_ns = sum.service_ns / u64::from(parallel.max(1));
        self.here = self.here.plus(Spent { service_ns, ..sum });
    }

    /// a + b of the service time, in ns.
    #[must_use]
    pub fn elapsed_service_ns(&self) -> u64 {
        self.upstream.plus(self.here).service_ns
    }

    /// a + b of the work, in ns.
    #[must_use]
    pub fn elapsed_work_ns(&self) -> u64 {
        self.upstream.plus(self.here).work_ns
    }

    /// The service time that the request still needs, as estimated, in ns.
    #[must_use]
    pub fn remaining_service_ns(&self) -> u64 {
        self.total_service_ns.saturating_sub(self.elapsed_service_ns())
    }
}

/// Averages over whole requests of a workflow, at the entry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    service_ns: f64,
    work_ns: f64,
    is_known: bool,
}

impl Totals {
    /// The weight of a new request. Open in the source.
    const WEIGHT: f64 = 0.1;

    /// A request has ended well after it spent so much.
    pub fn add(&mut self, progress: &Progress) {
        let spent = progress.upstream.plus(progress.here);
        let weight = if self.is_known { Self::WEIGHT } else { 1.0 };
        self.service_ns += weight * (spent.service_ns as f64 - self.service_ns);
        self.work_ns += weight * (spent.work_ns as f64 - self.work_ns);
        self.is_known = true;
    }

    /// The service time and the work, in ns; 0 before the first request.
    #[must_use]
    pub fn estimate(&self) -> (u64, u64) {
        (self.service_ns as u64, self.work_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_calls_add_their_work_and_share_their_service_time() {
        // An entry of 6 ns calls two services in parallel: one of 10, and one of 4 that calls a third of 20.
        let mut entry = Progress::default();
        entry.served(6);
        let mut left = entry.downstream();
        left.served(10);
        let mut right = entry.downstream();
        right.served(4);
        let mut third = right.downstream();
        assert_eq!(third.elapsed_service_ns(), 10);
        third.served(20);
        right.joined(1, third.here);
        assert_eq!(right.here, Spent { service_ns: 24, work_ns: 24 });
        let sum = left.here.plus(right.here);
        entry.joined(2, sum);
        assert_eq!(entry.here, Spent { service_ns: 6 + 17, work_ns: 6 + 34 });

        let mut totals = Totals::default();
        totals.add(&entry);
        let mut next = Progress::begin(&totals);
        next.served(6);
        assert_eq!((next.remaining_service_ns(), next.total_work_ns), (17, 40));
        next.served(1_000);
        assert_eq!(next.remaining_service_ns(), 0, "it takes longer than others did");
    }
}
