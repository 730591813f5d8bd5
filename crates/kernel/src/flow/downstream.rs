//! The rates that downstream services can sustain. The announcements of their instances are reduced
//! to one rate per workflow.
//!
//! Source: document 002 §5.2.4, Algorithm 3, lines 1 to 4. The rates of the instances of a service
//! are scaled by the amplification α and reduced to the quantile q. σ′ is the lowest of the
//! resulting rates, or ∞ if there are no announcements.
//!
//! Deviations:
//! - **α is measured per instance**, as the number of copies sent to it per admitted request. With
//!   one α for the whole service, a rate would have to be multiplied by the number of instances.
//!   That would be correct only if a workflow used all instances equally. A workflow that is served
//!   by a single partition is limited by that partition alone. Copies are counted, not calls,
//!   because hedges and retries also cause load.
//! - **The quantile is weighted by α**, so that instances that a workflow hardly uses have little
//!   influence. It is interpolated linearly between ranks. With equal weights, q = 0 is the
//!   minimum, 0.5 is the median, and 1 is the maximum.
//! - **A silent instance** that has announced a rate before keeps its rate for
//!   [`super::Config::stale_ns`]. Only the time during which it is called counts, because an idle
//!   instance has no response to carry an announcement. After that, its rate is 1.1 times the rate
//!   of its good responses, plus an allowance for chance. Without the allowance, a workflow with
//!   few requests would be limited to less than it sends. This rate falls if fewer requests are
//!   served, rises while all requests succeed, and is discarded at the next announcement.
//! - **An announcement ages**: it is discarded after five times [`super::Config::stale_ns`] without
//!   a call.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::meter::{Meter, Weight};
use super::{Config, InstanceId, Via};

/// Valid rates, per second. Metadata carries thousandths.
const SANE: RangeInclusive<f64> = 1e-3..=1e12;

/// The allowance for chance, in responses from a silent instance.
const CHANCE: f64 = 2.0;

/// An announcement is discarded after this multiple of [`Config::stale_ns`] without a call.
const IDLE: u64 = 5;

/// The announcement that an instance has made for a workflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Announcement {
    /// σ: the caller's part, in requests per second. It is ∞ if there is no limit.
    pub rate: f64,
    /// The caller's part of the rate that the instance's own resources can sustain.
    pub local: f64,
    /// The services that `rate` depends on.
    pub via: Via,
}

/// The state of an instance for one workflow.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    announced: Option<Announcement>,
    /// Time during which copies were sent but no announcement arrived, in ns.
    silent_ns: u64,
    /// Time during which no copy was sent, in ns.
    idle_ns: u64,
    copies: Meter,
    good: Meter,
}

/// All instances that the process calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Downstream {
    /// The state by workflow and instance. The workflow comes first, because a workflow reads the
    /// state of all its instances at once.
    links: Vec<Vec<Link>>,
    instances: u32,
    /// The instances of each service.
    services: Vec<Vec<u32>>,
    /// Scratch space for the rates and weights of one service.
    rates: Vec<(f64, f64)>,
}

/// The rate of a workflow that all downstream services can sustain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bottleneck {
    /// σ′, in requests per second.
    pub(super) rate: f64,
    pub(super) via: Via,
    /// Number of instances in use that are silent.
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

    /// Records an announcement. Ignores a rate that is 0, implausible, or not a number. Rates have
    /// a lower bound, so 0 is either invalid or a reply to a caller that claimed to want nothing.
    pub(super) fn announced(
        &mut self,
        instance: InstanceId,
        workflow: usize,
        announcement: Announcement,
    ) {
        let is_rate = |rate: f64| SANE.contains(&rate) || rate == f64::INFINITY;
        let is_sane = is_rate(announcement.rate) && is_rate(announcement.local);
        if let Some(link) = self.link(instance, workflow).filter(|_| is_sane) {
            (link.announced, link.silent_ns) = (Some(announcement), 0);
        }
    }

    /// Forgets the state of an instance that is gone or has restarted.
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
                    link.silent_ns = link.silent_ns.saturating_add(config.interval_ns);
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

    /// Returns the number of copies to the instance per admitted request.
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
        workflow: usize,
        service: u16,
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
                let rate = if link.silent_ns > config.stale_ns {
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

/// Returns the quantile of weighted values, interpolated linearly between the middles of their
/// weights. `None` without values.
fn quantile(values: &mut [(f64, f64)], q: f64) -> Option<f64> {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = values.iter().map(|&(_, weight)| weight).sum();
    let (mut below, mut last) = (0.0, None);
    for &(value, weight) in &*values {
        let middle = (below + weight / 2.0) / total;
        if q <= middle {
            let Some((least, at)) = last else { return Some(value) };
            // Do not interpolate between equal values, so that ∞ stays ∞.
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
