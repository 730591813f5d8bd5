//! Ids of the servers, groups, queries and copies of a cell. All are dense indices, except the ids
//! of copies.

/// A server of the cell: an index into its topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u32);

/// A replica group (shard) of the cell: an index into its topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// A query: a dense index that the caller chooses, unique among the queries that have not ended.
/// The caller may reuse it once the query has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u32);

/// One copy of a query on one server. It is never reused, because the serial number counts every
/// copy that the cell has started. The slot is a dense index for the caller's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyId {
    /// The number of copies that the cell had started before this one.
    pub serial: u64,
    /// A dense index, unique among the copies that have not ended.
    pub slot: u32,
}

/// The value of a dense index that stands for "none".
pub(crate) const NONE: u32 = u32::MAX;

macro_rules! index {
    ($($name:ident),*) => {$(
        impl $name {
            /// Returns the id as an index.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
index!(ServerId, GroupId, QueryId);
