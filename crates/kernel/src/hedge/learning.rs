//! Learning: what cells record about their queries, and what their service concludes from it.
//!
//! Cells record how queries ended. At fixed epochs, the driver passes the records to the learner of
//! the service, in the order of the cells, and hands the snapshot to all cells.
//!
//! A hedge and its learner exchange types of their own: they implement [`Learns`] and [`Learner`].
//! Drivers do not know these types: they pass [`Records`] from [`AnyLearns`] to an [`AnyLearner`],
//! and its [`Snapshot`] back. This costs a comparison of types per cell and epoch.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::{Any, TypeId};
use core::fmt;

use crate::cell::Core;
use crate::id::{CopyId, QueryId, ServerId};

/// A hedge that learns: it records how its queries end, and adopts what its service has learned.
/// [`super::Hedge::learns`] returns it, and [`super::NewHedge::learner`] creates its learner.
pub trait Learns {
    /// The learner of the service.
    type Learner: Learner;

    /// Handles the winning response of a copy, just before the query ends. Returns true if the
    /// query's other copies should run on until their timeout, although losers are otherwise
    /// stopped.
    fn answered(&mut self, core: &mut Core, query: QueryId, copy: CopyId, server: ServerId)
    -> bool;

    /// Handles the end of a copy whose query had already ended. The server of the copy is healthy.
    /// For bookkeeping only.
    fn outlived(&mut self, _core: &mut Core, _server: ServerId, _copy: CopyId) {}

    /// Handles the timeout of a copy that was allowed to run on. The cell then stops the copy.
    fn overran(&mut self, _core: &Core, _copy: CopyId) {}

    /// Moves the records for the service's learner to the end of a list. A [`Journal`] keeps a
    /// bounded number of them until then.
    fn publish(&mut self, into: &mut Vec<<Self::Learner as Learner>::Record>);

    /// Adopts what the service has learned, for queries that start from now on.
    fn adopt(&mut self, snapshot: &<Self::Learner as Learner>::Snapshot);
}

/// The learner of a service: it learns parameters for all its cells.
pub trait Learner: fmt::Debug + Send + 'static {
    /// What a cell records.
    type Record: Send + 'static;

    /// What a cell adopts.
    type Snapshot: fmt::Debug + Send + Sync + 'static;

    /// Adds the records of an epoch, in the order of the cells.
    fn absorb(&mut self, records: &[Self::Record]);

    /// Returns the parameters that all cells use until the next epoch.
    fn snapshot(&self) -> Self::Snapshot;
}

/// [`Learns`] of any type, as a cell calls it. Every hedge that learns implements it.
pub trait AnyLearns {
    /// See [`Learns::answered`].
    fn answered(&mut self, core: &mut Core, query: QueryId, copy: CopyId, server: ServerId)
    -> bool;

    /// See [`Learns::outlived`].
    fn outlived(&mut self, core: &mut Core, server: ServerId, copy: CopyId);

    /// See [`Learns::overran`].
    fn overran(&mut self, core: &Core, copy: CopyId);

    /// See [`Learns::publish`].
    fn publish(&mut self, into: &mut Records);

    /// See [`Learns::adopt`]. Ignores the snapshot of another policy.
    fn adopt(&mut self, snapshot: &Snapshot);

    /// Returns the type of the learner.
    fn learner(&self) -> TypeId;
}

impl<L: Learns> AnyLearns for L {
    #[inline(always)]
    fn answered(
        &mut self,
        core: &mut Core,
        query: QueryId,
        copy: CopyId,
        server: ServerId,
    ) -> bool {
        Learns::answered(self, core, query, copy, server)
    }

    #[inline(always)]
    fn outlived(&mut self, core: &mut Core, server: ServerId, copy: CopyId) {
        Learns::outlived(self, core, server, copy);
    }

    fn overran(&mut self, core: &Core, copy: CopyId) {
        Learns::overran(self, core, copy);
    }

    fn publish(&mut self, into: &mut Records) {
        Learns::publish(self, into.list());
    }

    fn adopt(&mut self, snapshot: &Snapshot) {
        if let Some(snapshot) = snapshot.get() {
            Learns::adopt(self, snapshot);
        }
    }

    fn learner(&self) -> TypeId {
        TypeId::of::<L::Learner>()
    }
}

/// A [`Learner`] of any type, as a driver calls it.
#[derive(Debug)]
pub struct AnyLearner(Box<dyn Erased>);

trait Erased: Any + fmt::Debug + Send {
    fn absorb(&mut self, records: &mut Records);
    fn snapshot(&self) -> Snapshot;
}

impl<L: Learner> Erased for L {
    fn absorb(&mut self, records: &mut Records) {
        let records = records.list();
        Learner::absorb(self, records);
        records.clear();
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new(Learner::snapshot(self))
    }
}

impl AnyLearner {
    /// Wraps a learner.
    #[must_use]
    pub fn new(learner: impl Learner) -> Self {
        Self(Box::new(learner))
    }

    /// Adds the records of an epoch, in the order of the cells, and clears the list.
    pub fn absorb(&mut self, records: &mut Records) {
        self.0.absorb(records);
    }

    /// Returns the parameters that all cells use until the next epoch.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    /// Returns the learner if it has this type, for metrics.
    #[must_use]
    pub fn get<L: Learner>(&self) -> Option<&L> {
        self.as_any().downcast_ref()
    }

    pub(crate) fn as_any(&self) -> &dyn Any {
        &*self.0
    }
}

/// The records of a service's cells in an epoch. All have the same type.
#[derive(Debug, Default)]
pub struct Records(Option<Box<dyn Any + Send>>);

impl Records {
    /// Returns the list of the records. Records of another type are discarded.
    pub fn list<R: Send + 'static>(&mut self) -> &mut Vec<R> {
        if !self.0.as_ref().is_some_and(|list| list.is::<Vec<R>>()) {
            self.0 = Some(Box::new(Vec::<R>::new()));
        }
        self.0.as_mut().and_then(|list| list.downcast_mut()).expect("it has this type")
    }
}

/// What a service has learned, in the form that its cells use. Clones share it.
#[derive(Clone)]
pub struct Snapshot(Arc<dyn Learned>);

trait Learned: Any + fmt::Debug + Send + Sync {}

impl<T: Any + fmt::Debug + Send + Sync> Learned for T {}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Snapshot {
    /// Wraps the snapshot of a [`Learner`].
    #[must_use]
    pub fn new(snapshot: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self(Arc::new(snapshot))
    }

    /// Returns the snapshot if it has this type.
    #[must_use]
    pub fn get<T: 'static>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref()
    }
}

/// The records of a cell since the last epoch. Beyond [`Self::MOST`], further records are dropped.
#[derive(Clone, Debug)]
pub struct Journal<R>(Vec<R>);

impl<R> Default for Journal<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<R> Journal<R> {
    /// The maximum number of records between two epochs.
    pub const MOST: usize = 16_384;

    /// Adds a record.
    pub fn push(&mut self, record: R) {
        if self.0.len() < Self::MOST {
            self.0.push(record);
        }
    }

    /// Moves the records to the end of a list.
    pub fn publish(&mut self, into: &mut Vec<R>) {
        into.append(&mut self.0);
    }
}
