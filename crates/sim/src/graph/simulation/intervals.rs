//! Handles recurring events. Once per interval, processes adapt and exchange their rates. Once per
//! sample, the rates are recorded.

use curtail_kernel::Timestamp;
use curtail_kernel::flow::{CallerId, RequestId, WorkflowId};

use super::Simulation;
use crate::graph::parts::Event;

impl Simulation<'_> {
    /// Records the rates at the end of a sample.
    pub(super) fn sample(&mut self) {
        let at = self.sampled as usize;
        self.sampled += 1;
        for (workflow, book) in self.books.iter_mut().enumerate() {
            let Some(second) = book.series.get_mut(at) else { continue };
            second.rates = vec![0.0; self.graph.services.len()];
            for of in &self.instances {
                let rate = of.process.view(WorkflowId(workflow as u32)).rate;
                second.rates[of.service as usize] += rate;
            }
            // JSON cannot represent infinity.
            second.rates.iter_mut().filter(|rate| !rate.is_finite()).for_each(|rate| *rate = -1.0);
        }
    }

    /// Schedules the next event of a process.
    pub(super) fn arm(&mut self, instance: u32) {
        let of = &mut self.instances[instance as usize];
        let at = of.process.next_deadline().0.max(self.now);
        if at < of.due_at {
            of.due_at = at;
            self.at(at, Event::Due { instance });
        }
    }

    pub(super) fn due(&mut self, instance: u32) {
        if self.instances[instance as usize].due_at != self.now {
            return;
        }
        let now = Timestamp(self.now);
        self.instances[instance as usize].due_at = u64::MAX;
        self.exchange(instance);
        self.instances[instance as usize].process.tick(now);
        while let Some((RequestId(frame), outcome)) =
            self.instances[instance as usize].process.release(now)
        {
            match outcome {
                Ok(()) => self.begin(frame),
                Err(_) => {
                    let service = self.instances[instance as usize].service;
                    self.services[service as usize].admission += 1;
                    self.set_here(frame, false);
                    self.hop(Event::Return { frame, ok: false });
                }
            }
        }
        self.arm(instance);
    }

    /// Polls the processes that a process calls, once per interval (Algorithm 3, lines 1 and 2).
    pub(super) fn exchange(&mut self, from: u32) {
        let now = Timestamp(self.now);
        if !self.instances[from as usize].process.ticks(now) {
            return;
        }
        for to in 0..self.instances.len() {
            let Some(link) = self.instances[from as usize].links[to] else { continue };
            if self.is_down(to as u32) {
                continue;
            }
            for workflow in (0..self.books.len() as u32).map(WorkflowId) {
                let caller = CallerId(from);
                let wants = self.instances[from as usize].process.wants(link, workflow);
                let callee = &mut self.instances[to].process;
                if wants > 0.0 {
                    callee.wanted(now, caller, workflow, wants);
                }
                let announcement = callee.announce(caller, workflow);
                self.announce(to as u32, from, link, workflow, announcement);
            }
        }
    }
}
