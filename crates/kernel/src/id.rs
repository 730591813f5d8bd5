//! Names of the things in a cell. All but copies are dense indices.

/// A server of the cell: an index into its topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u32);

/// A replica group (shard) of the cell: an index into its topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// A live query: a dense index that the caller chooses, unique among the queries that have not
/// ended. The caller may use it again once the query has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u32);

/// One copy of a query on one server. Never reused: the serial number counts every copy that the
/// cell ever started. The slot is dense, for tables of the caller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyId {
    /// Counts the copies of the cell, from 0.
    pub serial: u64,
    /// A dense index, unique among the copies that have not ended.
    pub slot: u32,
}

/// "None" in a dense index.
pub(crate) const NONE: u32 = u32::MAX;

macro_rules! index {
    ($($name:ident),*) => {$(
        impl $name {
            /// The id as an index.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
index!(ServerId, GroupId, QueryId);
