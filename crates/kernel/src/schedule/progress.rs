//! The progress of a request, end to end: the service time and work that it has taken so far and
//! will take in total.
//!
//! Source: document 002 §5.2.4, *Progress metrics*. For each metric, two counters travel with a
//! request. The counter a is what the request spent before it arrived here, and b is what it spends
//! here and further downstream. A call downstream starts with (a + b, 0). The response returns what
//! the call spent, which is added to b here. For parallel calls, the work adds up, but the service
//! time is divided by their number, because it represents elapsed time.
//!
//! The estimated totals are averages over whole requests at the entry ([`Totals`]). The estimates
//! travel with the request.

/// Time and work that part of a request has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// st: service time without queueing, in ns. For parallel parts, it is the mean of their
    /// service times.
    pub service_ns: u64,
    /// θ: work, in ns of one slot. The work of parallel parts adds up.
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
    /// a: what the request spent before it arrived here.
    pub upstream: Spent,
    /// b: what it has spent here, plus what its completed calls have spent.
    pub here: Spent,
    /// T: estimated service time of a whole request of this workflow, in ns. 0 if unknown.
    pub total_service_ns: u64,
    /// T: estimated work of a whole request, in ns. 0 if unknown.
    pub total_work_ns: u64,
}

impl Progress {
    /// Creates the counters of a request at the entry, with the estimated totals of its workflow.
    #[must_use]
    pub fn begin(totals: &Totals) -> Self {
        let Spent { service_ns: total_service_ns, work_ns: total_work_ns } = totals.estimate();
        Self { total_service_ns, total_work_ns, ..Self::default() }
    }

    /// Returns the counters that travel with a call downstream.
    #[must_use]
    pub fn downstream(&self) -> Self {
        Self { upstream: self.upstream.plus(self.here), here: Spent::default(), ..*self }
    }

    /// Records that a resource has served a sub-task for `ns`.
    pub fn served(&mut self, ns: u64) {
        self.here = self.here.plus(Spent { service_ns: ns, work_ns: ns });
    }

    /// Records the end of `parallel` calls or sub-tasks that ran in parallel and spent `sum` in
    /// total.
    pub fn joined(&mut self, parallel: u32, sum: Spent) {
        let service_ns = sum.service_ns / u64::from(parallel.max(1));
        self.here = self.here.plus(Spent { service_ns, ..sum });
    }

    /// Returns a + b of the service time, in ns.
    #[must_use]
    pub fn elapsed_service_ns(&self) -> u64 {
        self.upstream.plus(self.here).service_ns
    }

    /// Returns a + b of the work, in ns.
    #[must_use]
    pub fn elapsed_work_ns(&self) -> u64 {
        self.upstream.plus(self.here).work_ns
    }

    /// Returns the estimated remaining service time of the request, in ns.
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
    /// The weight of a new request. The source does not specify it.
    const WEIGHT: f64 = 0.1;

    /// Adds a request that has ended successfully.
    pub fn add(&mut self, progress: &Progress) {
        let spent = progress.upstream.plus(progress.here);
        let weight = if self.is_known { Self::WEIGHT } else { 1.0 };
        self.service_ns += weight * (spent.service_ns as f64 - self.service_ns);
        self.work_ns += weight * (spent.work_ns as f64 - self.work_ns);
        self.is_known = true;
    }

    /// Returns what a request spends. It is nothing before the first request.
    #[must_use]
    pub fn estimate(&self) -> Spent {
        Spent { service_ns: self.service_ns as u64, work_ns: self.work_ns as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_calls_add_their_work_and_share_their_service_time() {
        // An entry that takes 6 ns calls two services in parallel. One of them takes 10 ns. The
        // other takes 4 ns, and calls a third service, which takes 20 ns.
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
