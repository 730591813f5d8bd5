//! Faults of processes and announcements: deaths, slow periods, silence, nonsense, loss and delay.
//!
//! - **A process that dies** loses all its requests. Its callers notice immediately that their
//!   connections have ended, and the calls that it has made continue unless something stops them.
//!   Later attempts to connect are refused after a round trip.
//! - **Calls by key** still go to a process that is down, because its partitions are there.
//!   Requests that need these partitions fail until the process is back up. **Other calls** avoid
//!   the process once health checks have detected that it is down, which takes [`DETECTION_NS`].
//!   These calls use the process again as soon as it is up.
//! - **Announcements** are polled (Algorithm 3). Each is lost independently, and those that arrive
//!   stay in order.

use curtail_dist::seed;
use curtail_kernel::Timestamp;
use curtail_kernel::flow::{Announcement, InstanceId, ResourceId, WorkflowId};
use rand_core::Rng as _;

use super::{Simulation, guard};
use crate::graph::parts::{Event, Frame, Mail, NONE, ORPHAN};
use crate::graph::spec::{Announces, Change, Route};
use crate::pool::Pool;

/// The time after which health checks detect that a process is down.
const DETECTION_NS: u64 = 1_000_000_000;

/// An impossible rate, in requests per second.
const ABSURD: f64 = 1e300;

impl Simulation<'_> {
    /// Schedules all changes of a process.
    pub(super) fn expect_changes(&mut self, instance: u32) {
        let service = self.instances[instance as usize].service as usize;
        let (of, within) = (&self.graph.services[service], instance - self.firsts[service]);
        for (change, &(at, at_one, _)) in of.changes.iter().enumerate() {
            if at_one.is_none_or(|one| one == within) {
                self.at(at, Event::Change { instance, change: change as u32 });
            }
        }
        if of.fluctuates.is_some() {
            self.at(0, Event::Fluctuate { instance });
        }
    }

    pub(super) fn change(&mut self, instance: u32, change: u32) {
        let of = &mut self.instances[instance as usize];
        match self.graph.services[of.service as usize].changes[change as usize].2 {
            Change::Slots { resource, slots } => {
                of.process.set_slots(ResourceId(resource), slots);
                self.pump(instance, ResourceId(resource));
            }
            Change::Down => self.die(instance),
            Change::Up => {
                of.down_at = u64::MAX;
                self.arm(instance);
            }
            Change::Slower(times) => of.slower[0] = times,
            Change::Announces(what) => of.announces = what,
        }
    }

    /// Makes a process fast or slow for the next interval. The draws are the same under all
    /// controls.
    pub(super) fn fluctuate(&mut self, instance: u32) {
        let of = &mut self.instances[instance as usize];
        let Some((every, times)) = self.graph.services[of.service as usize].fluctuates else {
            return;
        };
        let name = [instance.to_le_bytes().as_slice(), &self.now.to_le_bytes()].concat();
        let is_slow = seed::stream(self.seed, &[b"speed", &name]) & 1 == 1;
        of.slower[1] = if is_slow { times } else { 1.0 };
        self.at(self.now + every, Event::Fluctuate { instance });
    }

    pub(super) fn is_down(&self, instance: u32) -> bool {
        self.instances[instance as usize].down_at != u64::MAX
    }

    /// Whether health checks have detected that it is down.
    pub(super) fn is_known_down(&self, instance: u32) -> bool {
        self.instances[instance as usize].down_at.saturating_add(DETECTION_NS) <= self.now
    }

    pub(super) fn set_here(&mut self, frame: u32, is_here: bool) {
        let of = self.instance_of(frame);
        let here = &mut self.instances[of as usize].here;
        *here = if is_here { *here + 1 } else { *here - 1 };
        self.frames[frame].is_here = is_here;
    }

    fn die(&mut self, instance: u32) {
        for frame in 0..self.frames.len() {
            let Frame { root, parent, .. } = self.frames[frame];
            if root != NONE && parent < ORPHAN && self.instance_of(parent) == instance {
                self.frames[frame].parent = ORPHAN;
                self.roots[root].orphans += 1;
            }
        }
        for frame in 0..self.frames.len() {
            let Frame { root, is_here, .. } = self.frames[frame];
            if root != NONE && is_here && self.instance_of(frame) == instance {
                self.set_here(frame, false);
                self.refuse(frame);
            }
        }
        let count = self.instances.len() as u32;
        let of = &mut self.instances[instance as usize];
        of.process = of.blank.clone();
        of.guard = guard(self.control, count, self.seed, instance);
        of.jobs.iter_mut().for_each(|jobs| *jobs = Pool::new());
        of.links.fill(None);
        of.picks.iter_mut().for_each(|pick| *pick = None);
        (of.due_at, of.down_at, of.deaths) = (u64::MAX, self.now, of.deaths + 1);
    }

    /// Moves a call away from a process that is known to be down, if another one is up.
    pub(super) fn reroute(&mut self, root: u32, node: u32) {
        let planned = self.roots[root].plan.nodes[node as usize].instance;
        let service = self.instances[planned as usize].service as usize;
        if !self.is_known_down(planned)
            || matches!(self.graph.services[service].route, Route::Key { .. })
        {
            return;
        }
        let first = self.firsts[service];
        let all = first..first + self.graph.services[service].instances;
        let up: Vec<u32> = all.filter(|&of| !self.is_known_down(of)).collect();
        if !up.is_empty() {
            let at = self.chance.next_u32() as usize % up.len();
            self.roots[root].plan.nodes[node as usize].instance = up[at];
        }
    }

    /// Announces a process's rate to a caller.
    pub(super) fn announce(
        &mut self,
        from: u32,
        to: u32,
        link: InstanceId,
        workflow: WorkflowId,
        announcement: Announcement,
    ) {
        let loss = self.graph.loss;
        if loss > 0.0 && seed::unit(&mut self.chance) < loss {
            return;
        }
        let announcement = match self.instances[from as usize].announces {
            Announces::Rates => announcement,
            Announces::Nothing => return,
            Announces::Nonsense => {
                let rate = [0.0, ABSURD, f64::NAN][self.chance.next_u32() as usize % 3];
                Announcement { rate, local: rate, ..announcement }
            }
        };
        let deaths = self.instances[to as usize].deaths;
        self.mail.push_back(Mail { to, deaths, link, workflow, announcement });
        match self.graph.delay_ns {
            0 => self.receive_announcement(),
            delay_ns => self.at(self.now + delay_ns, Event::Announcement),
        }
    }

    /// Delivers the oldest announcement.
    pub(super) fn receive_announcement(&mut self) {
        let Some(Mail { to, deaths, link, workflow, announcement }) = self.mail.pop_front() else {
            return;
        };
        let of = &mut self.instances[to as usize];
        if of.deaths == deaths {
            of.process.announced(Timestamp(self.now), link, workflow, announcement);
        }
    }
}
