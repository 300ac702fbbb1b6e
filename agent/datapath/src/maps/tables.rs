//! The tables as the publisher sees them: typed writes of one family's frontends and backends.

use shunt_common::{Backend, Cell, Family, FrontendKey, Slot, SourceRange};

use crate::error::TableError;

/// Number of entries in each table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Frontends, and so cells.
    pub frontends: u32,
    /// Slots of all frontends.
    pub slots: u32,
    /// Backends of all services.
    pub backends: u32,
}

/// The tables of one address family: the kernel's or, in tests, plain memory.
///
/// A write is seen by packets at once and in the order of the calls. Indexes are within
/// [`Tables::capacity`]; the publisher's allocators see to that.
pub trait Tables<F: Family> {
    /// The sizes of the tables.
    fn capacity(&self) -> Capacity;

    /// Every entry of the frontend table as it is now, from any writer; its index may be any.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    fn frontends(&self) -> Result<Vec<(FrontendKey<F>, u32)>, TableError>;

    /// Returns the index of the frontend with this key, from any writer, which may be any; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    fn frontend(&self, key: FrontendKey<F>) -> Result<Option<u32>, TableError>;

    /// The cell of the frontend with this index.
    fn cell(&self, frontend: u32) -> Cell;

    /// The slot at `index`.
    fn slot(&self, index: u32) -> Slot;

    /// The backend at `index`.
    fn backend(&self, index: u32) -> Backend<F>;

    /// Returns the number of connections that the backend at `index` was chosen for since it has that index.
    fn connections(&self, index: u32) -> u64;

    /// Replaces the backend at `index`. With another generation its connections are counted from 0. Packets may read it meanwhile, so the caller changes no
    /// field that they read, unless nothing refers to the index.
    fn write_backend(&mut self, index: u32, backend: Backend<F>);

    /// Writes `slots` from `offset` on, where nothing refers to yet.
    fn write_slots(&mut self, offset: u32, slots: &[Slot]);

    /// Replaces the cell of the frontend with this index, in one store.
    fn write_cell(&mut self, frontend: u32, cell: Cell);

    /// Adds frontends with their indexes, one after the other. On `Err` none of them is in the
    /// table.
    ///
    /// # Errors
    ///
    /// If there is no room, or the kernel refuses.
    fn insert_frontends(&mut self, new: &[(FrontendKey<F>, u32)]) -> Result<(), TableError>;

    /// Removes a frontend; one that is not there is no error.
    ///
    /// # Errors
    ///
    /// If the kernel refuses; it is there then.
    fn remove_frontend(&mut self, key: FrontendKey<F>) -> Result<(), TableError>;

    /// Every entry of the source range table as it is now: prefix length in bits, and the range.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    fn source_ranges(&self) -> Result<Vec<(u32, SourceRange<F>)>, TableError>;

    /// Adds a source range of `bits` bits. On `Err` the table is as it was.
    ///
    /// # Errors
    ///
    /// If there is no room, or the kernel refuses.
    fn insert_source_range(&mut self, bits: u32, range: SourceRange<F>) -> Result<(), TableError>;

    /// Removes a source range; one that is not there is no error.
    ///
    /// # Errors
    ///
    /// If the kernel refuses; it is there then.
    fn remove_source_range(&mut self, bits: u32, range: SourceRange<F>) -> Result<(), TableError>;

    /// Returns when no packet that is on its way through a program can have seen what earlier
    /// writes replaced.
    ///
    /// # Errors
    ///
    /// If the kernel cannot wait; nothing may be taken for free then.
    fn wait_for_readers(&mut self) -> Result<(), TableError>;
}
