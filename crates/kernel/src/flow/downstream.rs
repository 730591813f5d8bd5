//! What downstream services bear: the rates that their instances announced, reduced to one per workflow.
//!
//! Source: document 002 §5.2.4, Algorithm 3, lines 1 to 4. The rates of the instances of a service are scaled by the
//! amplification α, reduced by the quantile q, and the least over the services counts. σ′ is ∞ where nothing is known.
//!
//! Deviations:
//! - **α is measured per instance**: copies sent to it per request admitted. With the α of the service, a rate would
//!   have to be multiplied by the number of its instances, and that is right only where a workflow uses all of them
//!   alike. A workflow that one partition serves is limited by that partition alone. Copies count, not calls: hedges
//!   and retries are load.
//! - **The quantile is weighted by α**, so that an instance that a workflow hardly uses does not decide. Between ranks
//!   it is linear. With equal weights, q = 0 is the minimum, 0.5 the median, 1 the maximum.
//! - **A silent instance** that has announced before is believed for [`super::Config::stale_ns`], counted while it is
//!   called: one that is idle has nothing to say. Then its rate is that of its good responses, a tenth more, and
//!   what chance adds to so few of them: else a workflow of few requests would be limited to less than it sends. It
//!   falls to what is served, rises while all goes well, and is forgotten with the next announcement.
//! - **An announcement ages**: after five times as long without a call it says nothing any more.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::meter::{Meter, Weight};
use super::{Config, InstanceId, Via};

/// Rates that make sense, per second; metadata carries thousandths.
const SANE: RangeInclusive<f64> = 1e-3..=1e12;

/// So many more responses might have come of late from a silent instance.
const CHANCE: f64 = 2.0;

/// An announcement is forgotten after so many times [`Config::stale_ns`] without a call.
const IDLE: u64 = 5;

/// What an instance announces for a workflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Announcement {
    /// σ, requests per second, the caller's part; ∞ for no limit.
    pub rate: f64,
    /// What the instance's own resources bear of that.
    pub local: f64,
    /// The services that `rate` depends on.
    pub via: Via,
}

/// An instance, as far as one workflow goes.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    announced: Option<Announcement>,
    /// For so long copies have been sent and no announcement has come, in ns.
    unheard_ns: u64,
    /// For so long none has been sent, in ns.
    idle_ns: u64,
    copies: Meter,
    good: Meter,
}

/// All instances that a process calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Downstream {
    /// By workflow, because that is how they are read; by instance.
    links: Vec<Vec<Link>>,
    instances: u32,
    /// By service: its instances.
    services: Vec<Vec<u32>>,
    /// Scratch: rates and weights of one service.
    rates: Vec<(f64, f64)>,
}

/// What is downstream of a workflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bottleneck {
    /// σ′, requests per second.
    pub(super) rate: f64,
    pub(super) via: Via,
    /// Instances in use that are silent.
    pub(super) silent: u32,
}

impl Downstream {
    pub(super) fn new(workflows: usize) -> Self {
        Self { links: alloc::vec![Vec::new(); workflows], ..Self::default() }
    }

    pub(super) fn add(&mut self, service: u32) -> InstanceId {
        let id = self.instances;
        self.instances += 1;
        let services = self.services.len().max(service as usize + 1);
        self.services.resize(services, Vec::new());
        self.services[service as usize].push(id);
        self.links.iter_mut().for_each(|links| links.push(Link::default()));
        InstanceId(id)
    }

    fn link(&mut self, instance: InstanceId, workflow: usize) -> Option<&mut Link> {
        self.links.get_mut(workflow)?.get_mut(instance.0 as usize)
    }

    pub(super) fn called(&mut self, instance: InstanceId, workflow: usize) {
        if let Some(link) = self.link(instance, workflow) {
            link.copies.add(1.0);
        }
    }

    pub(super) fn returned(&mut self, instance: InstanceId, workflow: usize, good: bool) {
        if let Some(link) = self.link(instance, workflow).filter(|_| good) {
            link.good.add(1.0);
        }
    }

    /// A rate that is no number, or none, or absurd, is as good as no announcement: processes keep to a least rate, so 0
    /// is nonsense, or means a caller that has said that it wants nothing.
    pub(super) fn announced(
        &mut self,
        instance: InstanceId,
        workflow: usize,
        announcement: Announcement,
    ) {
        let is_rate = |rate: f64| SANE.contains(&rate) || rate == f64::INFINITY;
        let is_sane = is_rate(announcement.rate) && is_rate(announcement.local);
        if let Some(link) = self.link(instance, workflow).filter(|_| is_sane) {
            (link.announced, link.unheard_ns) = (Some(announcement), 0);
        }
    }

    /// An instance is gone, or begins anew: nothing is known of it.
    pub(super) fn forget(&mut self, instance: InstanceId) {
        for workflow in 0..self.links.len() {
            if let Some(link) = self.link(instance, workflow) {
                *link = Link::default();
            }
        }
    }

    pub(super) fn roll(&mut self, config: &Config, keeps: &[f64], rates: &Weight) {
        for (links, keeps) in self.links.iter_mut().zip(keeps) {
            for link in links {
                if link.copies.present() > 0.0 {
                    link.unheard_ns = link.unheard_ns.saturating_add(config.interval_ns);
                    link.idle_ns = 0;
                } else {
                    link.idle_ns = link.idle_ns.saturating_add(config.interval_ns);
                    if link.idle_ns > IDLE * config.stale_ns {
                        link.announced = None;
                    }
                }
                link.copies.roll(*keeps);
                link.good.roll(rates.decay);
            }
        }
    }

    /// Copies to the instance per request admitted.
    pub(super) fn amplification(
        &self,
        instance: InstanceId,
        workflow: usize,
        admitted: &Meter,
    ) -> f64 {
        let link = self.links.get(workflow).and_then(|of| of.get(instance.0 as usize));
        match (link, admitted.sum()) {
            (Some(link), sum) if sum > 0.0 => link.copies.sum() / sum,
            _ => 0.0,
        }
    }

    /// Algorithm 3, lines 1 to 4, for one workflow.
    pub(super) fn bottleneck(
        &mut self,
        (workflow, service): (usize, u16),
        admitted: &Meter,
        rates: &Weight,
        config: &Config,
    ) -> Bottleneck {
        let mut found = Bottleneck { rate: f64::INFINITY, via: Via::only(service), silent: 0 };
        for of in &self.services {
            self.rates.clear();
            for &instance in of {
                let link = &self.links[workflow][instance as usize];
                let alpha = link.copies.sum() / admitted.sum();
                let Some(announced) = link.announced.filter(|_| alpha.is_finite() && alpha > 0.0)
                else {
                    continue;
                };
                let rate = if link.unheard_ns > config.stale_ns {
                    found.silent += 1;
                    let good = link.good.sum();
                    let chance = if good > 0.0 { CHANCE } else { 0.0 };
                    rates.rate_of(good * 1.1 + chance) + config.least_rate * alpha.min(1.0)
                } else if announced.via.leads_to(service) {
                    announced.local
                } else {
                    found.via.extend(&announced.via);
                    announced.rate
                };
                self.rates.push((rate / alpha, alpha));
            }
            if let Some(rate) = quantile(&mut self.rates, config.quantile) {
                found.rate = found.rate.min(rate);
            }
        }
        found
    }
}

/// The quantile of weighted values, linear between the middles of their weights; none of none.
fn quantile(values: &mut [(f64, f64)], q: f64) -> Option<f64> {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = values.iter().map(|&(_, weight)| weight).sum();
    let (mut below, mut last) = (0.0, None);
    for &(value, weight) in &*values {
        let middle = (below + weight / 2.0) / total;
        if q <= middle {
            let Some((least, at)) = last else { return Some(value) };
            // From the same to the same, so that ∞ stays what it is.
            let part = if middle > at { (q - at) / (middle - at) } else { 1.0 };
            return Some(if part >= 1.0 || value == least {
                value
            } else {
                least + part * (value - least)
            });
        }
        below += weight;
        last = Some((value, middle));
    }
    last.map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(values: &[(f64, f64)], q: f64) -> f64 {
        quantile(&mut values.to_vec(), q).expect("there are some")
    }

    #[test]
    fn quantiles_are_minimum_median_and_maximum_and_between_them_linear() {
        let even = [(100.0, 1.0), (50.0, 1.0), (10.0, 1.0)];
        assert_eq!([0.0, 0.5, 1.0].map(|q| one(&even, q)), [10.0, 50.0, 100.0]);
        assert_eq!(one(&[(10.0, 1.0), (20.0, 1.0)], 0.5), 15.0);
        assert_eq!(one(&[(10.0, 0.01), (20.0, 1.0), (30.0, 1.0)], 0.5) as u32, 24);
        assert_eq!(one(&[(7.0, 2.0)], 0.9), 7.0);
        assert_eq!(one(&[(f64::INFINITY, 1.0), (f64::INFINITY, 1.0)], 0.5), f64::INFINITY);
        assert_eq!(quantile(&mut [], 0.5), None);
    }
}
