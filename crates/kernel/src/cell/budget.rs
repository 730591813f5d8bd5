//! A budget for retries and duplicates that grows with each arrival.
//!
//! Source: the retry budgets of Finagle and Envoy: a token bucket that is filled by requests rather
//! than by time. Cost: O(1) per use. Arrivals cost nothing, because tokens are computed only when
//! they are needed.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    rate: f64,
    burst: f64,
    /// The number of tokens when the number of arrivals was `seen`.
    tokens: f64,
    seen: u64,
}

impl Budget {
    pub(crate) fn new(rate: f64, burst: u32) -> Self {
        Self { rate, burst: f64::from(burst), tokens: f64::from(burst), seen: 0 }
    }

    pub(crate) fn tokens(&self, arrivals: u64) -> f64 {
        let earned = (arrivals - self.seen) as f64 * self.rate;
        (self.tokens + earned).min(self.burst)
    }

    #[inline(always)]
    pub(crate) fn allows(&self, arrivals: u64) -> bool {
        self.tokens(arrivals) >= 1.0
    }

    pub(crate) fn spend(&mut self, arrivals: u64) {
        self.add(arrivals, -1.0);
    }

    pub(crate) fn refund(&mut self, arrivals: u64) {
        self.add(arrivals, 1.0);
    }

    fn add(&mut self, arrivals: u64, tokens: f64) {
        self.tokens = (self.tokens(arrivals) + tokens).min(self.burst);
        self.seen = arrivals;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_pay_up_to_the_burst() {
        let mut budget = Budget::new(0.25, 2);
        budget.spend(0);
        budget.spend(0);
        assert!(!budget.allows(3), "three quarters of a token");
        assert!(budget.allows(4));
        budget.spend(4);
        assert!(!budget.allows(4));
        assert_eq!(budget.tokens(1_000), 2.0, "no more than the burst is saved up");
        budget.spend(1_000);
        budget.refund(1_000);
        budget.refund(1_000);
        assert_eq!(budget.tokens(1_000), 2.0);
    }
}
