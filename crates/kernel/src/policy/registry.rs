//! Lists the picks and hedges, one per line: the name, and how to create it.

use alloc::vec::Vec;
use core::fmt;

use super::build::Maker;
use super::names::Args;
use super::{Driver, Gate, Named, Policy, PolicyError};
use crate::Rng;
use crate::balance::{
    C3, C3TwoChoices, Els, LeastOutstanding, LeastResponseTime, PeakEwma, Pick, Prequal, Random,
    RoundRobin, TwoChoices, WeightedRandom,
};
use crate::config::{ConfigError, Limits, Topology};
use crate::event::{Feedback, Probed};
use crate::hedge::{
    AppTimeout, Cancellation, Cloning, Das, Delayed, Hedge, LearnedDelay, Learner, Naive,
    Probabilistic, Slotless, Tied, Version,
};
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::outcome::Outcome;
use crate::time::Timestamp;

macro_rules! picks {
    ($($variant:ident $name:literal $new:expr;)+) => {
        /// A pick, by its name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PickSpec {
            $(#[doc = concat!("`", $name, "`")] $variant,)+
        }

        impl PickSpec {
            /// All names.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// The name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            pub(super) const fn reads_feedback(self) -> bool {
                match self { $(Self::$variant => $variant::READS_FEEDBACK,)+ }
            }

            pub(super) fn find(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }

            pub(super) fn pick(self, topology: &Topology, limits: &Limits) -> AnyPick {
                match self {
                    $(Self::$variant => {
                        let new: fn(&Topology, &Limits) -> $variant = $new;
                        AnyPick::$variant(new(topology, limits))
                    })+
                }
            }
        }

        /// Any of the picks, for cells that are not compiled for a particular one.
        #[derive(Clone, Debug)]
        pub enum AnyPick {
            $(#[doc = concat!("`", $name, "`")] $variant($variant),)+
        }

        impl Pick for AnyPick {
            const OBSERVES: bool = true;

            #[inline]
            fn pick(&mut self, group: GroupId, levels: Levels<'_>, avoid: Avoid, rng: &mut Rng) -> Option<ServerId> {
                match self { $(Self::$variant(pick) => pick.pick(group, levels, avoid, rng),)+ }
            }

            fn started(&mut self, server: ServerId, now: Timestamp) {
                match self { $(Self::$variant(pick) => pick.started(server, now),)+ }
            }

            fn feedback(&mut self, server: ServerId, now: Timestamp, feedback: Feedback) {
                match self { $(Self::$variant(pick) => pick.feedback(server, now, feedback),)+ }
            }

            fn restored(&mut self, server: ServerId) {
                match self { $(Self::$variant(pick) => pick.restored(server),)+ }
            }

            fn probes(&mut self, levels: Levels<'_>, rng: &mut Rng, probe: impl FnMut(ServerId)) {
                match self { $(Self::$variant(pick) => pick.probes(levels, rng, probe),)+ }
            }

            fn probed(&mut self, now: Timestamp, probed: Probed) {
                match self { $(Self::$variant(pick) => pick.probed(now, probed),)+ }
            }

            fn score(&self, server: ServerId, levels: Levels<'_>) -> Option<f64> {
                match self { $(Self::$variant(pick) => pick.score(server, levels),)+ }
            }

            fn reads_feedback(&self) -> bool {
                match self { $(Self::$variant(pick) => pick.reads_feedback(),)+ }
            }

            fn ranks(&self) -> bool {
                match self { $(Self::$variant(pick) => pick.ranks(),)+ }
            }

            fn ended(&mut self, server: ServerId, now: Timestamp, took_ns: u64, outcome: Option<Outcome>) {
                match self { $(Self::$variant(pick) => pick.ended(server, now, took_ns, outcome),)+ }
            }
        }
    };
}

picks! {
    Random "random" |_, _| Random;
    RoundRobin "round-robin" |topology, _| RoundRobin::new(topology.groups.len());
    LeastOutstanding "least-outstanding" |_, _| LeastOutstanding;
    TwoChoices "two-choices" |_, _| TwoChoices;
    PeakEwma "peak-ewma" |topology, _| PeakEwma::new(topology.servers.len());
    C3 "c3" |topology, limits| C3::new(topology.servers.len(), limits.tuning);
    C3TwoChoices "c3-two-choices" |topology, limits| C3TwoChoices::new(topology.servers.len(), limits.tuning);
    LeastResponseTime "least-response-time" |topology, limits| LeastResponseTime::new(topology.servers.len(), limits.tuning);
    WeightedRandom "weighted-random" |topology, limits| WeightedRandom::new(topology.servers.len(), limits.tuning);
    Els "els" |topology, limits| Els::new(topology.servers.len(), limits.tuning);
    Prequal "prequal" |topology, _| Prequal::new(topology.servers.len());
}

macro_rules! hedges {
    ($($variant:ident $spec:ident;)+) => {
        /// A hedge, by its name and arguments.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum HedgeSpec {
            $(#[doc = concat!("See [`", stringify!($spec), "`].")] $variant($spec),)+
        }

        $(impl From<$spec> for HedgeSpec {
            fn from(spec: $spec) -> Self {
                Self::$variant(spec)
            }
        })+

        impl HedgeSpec {
            /// Every form of every name. If `live` is true, only the forms that run on real servers
            /// are included.
            pub(super) fn forms(live: bool) -> Vec<&'static str> {
                let mut forms = Vec::new();
                $(if !live || <$spec as Named>::SIMULATOR_ONLY.is_none() {
                    forms.extend_from_slice(<$spec as Named>::FORMS);
                })+
                forms
            }

            pub(super) fn parse(args: &Args<'_>) -> Result<Self, PolicyError> {
                $(if args.is_named(<$spec as Named>::FORMS) {
                    match <$spec as Named>::parse(args) {
                        Err(PolicyError::Unknown { .. }) => {}
                        found => return found.map(Self::$variant),
                    }
                })+
                Err(args.unknown())
            }

            pub(super) const fn gate(&self) -> Gate {
                match self { $(Self::$variant(_) => <$spec as Named>::GATE,)+ }
            }

            pub(super) const fn pick(&self) -> PickSpec {
                match self { $(Self::$variant(_) => <$spec as Named>::PICK,)+ }
            }

            pub(super) const fn is_budgeted(&self) -> bool {
                match self { $(Self::$variant(_) => <$spec as Named>::Hedge::BUDGETED,)+ }
            }

            pub(super) const fn has_priorities(&self) -> bool {
                match self { $(Self::$variant(_) => <$spec as Named>::LOW_PRIORITY,)+ }
            }

            pub(super) fn needs_cancellation(&self) -> bool {
                match self { $(Self::$variant(spec) => spec.needs_cancellation(),)+ }
            }

            pub(super) fn learner(&self, limits: &Limits) -> Option<Learner> {
                match self { $(Self::$variant(spec) => spec.learner(limits),)+ }
            }

            pub(super) fn delay_ns(&self) -> Option<u64> {
                match self { $(Self::$variant(spec) => spec.delay_ns(),)+ }
            }

            pub(super) const fn simulator_only(&self) -> Option<&'static str> {
                match self { $(Self::$variant(_) => <$spec as Named>::SIMULATOR_ONLY,)+ }
            }

            pub(super) fn drive<D: Driver>(&self, maker: Maker<'_, D>) -> Result<D::Output, ConfigError> {
                match self {
                    $(Self::$variant(spec) => {
                        let hedge = spec.hedge(maker.topology, &maker.limits);
                        maker.drive_boxed(hedge)
                    })+
                }
            }
        }

        impl fmt::Display for HedgeSpec {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$variant(spec) => spec.print(f),)+ }
            }
        }
    };
}

hedges! {
    Naive Naive;
    Clone Cloning;
    Delayed Delayed;
    LearnedDelay LearnedDelay;
    Probabilistic Probabilistic;
    Tied Tied;
    AppTimeout AppTimeout;
    Laedge Cancellation;
    Rescue Version;
    Slotless Slotless;
    Das Das;
}

impl<T: Into<HedgeSpec>> From<T> for Policy {
    fn from(hedge: T) -> Self {
        Self::hedged(hedge.into())
    }
}
