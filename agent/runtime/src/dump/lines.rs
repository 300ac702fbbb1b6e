//! A dump line by line, read beside the event loop: of each table a copy is made when it is its turn.

use std::{
    collections::VecDeque,
    fmt, io,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use shunt_datapath::{Jiffies, TableCopies, monotonic};
use shunt_trace::{
    BYTE_ORDER, Collector, Dump, Frontend, Hex, Node, Record, Sockets, table_records,
};
use tokio::task::spawn_blocking;

use crate::{
    borrowed::Borrowed,
    dump::{network::network, tables},
    error::InspectError,
};

/// A piece has about so many bytes at most.
const PIECE: usize = 1 << 20;

/// The lines of a dump. A reader may take its time.
pub struct DumpLines {
    copies: Arc<TableCopies>,
    next: usize,
    ready: VecDeque<Record>,
    lines: usize,
    is_over: bool,
    _memory: Borrowed,
}

impl fmt::Debug for DumpLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DumpLines").finish_non_exhaustive()
    }
}

impl DumpLines {
    /// Begins with the tables of these copies, the events' view of frontends and what is translated at the
    /// socket. Holds `memory` until the end.
    ///
    /// # Errors
    ///
    /// If the kernel does not report the network, or the time.
    pub(crate) async fn begin(
        copies: Arc<TableCopies>,
        frontends: Vec<Frontend>,
        sockets: Sockets,
        memory: Borrowed,
    ) -> Result<Self, InspectError> {
        let begun = spawn_blocking(move || {
            // Before the clock is read: by an earlier clock, a rejection that was sent meanwhile would be due in the
            // future, and the next one too early.
            let dues = dues(&copies)?;
            let mut ready = VecDeque::from([Record::Node(node(sockets)?)]);
            let constants = copies
                .constants()
                .iter()
                .map(|(name, value)| Record::Constant {
                    name: (*name).to_owned(),
                    value: Hex(value.to_vec()),
                });
            ready.extend(constants);
            ready.extend(network()?);
            ready.extend(frontends.into_iter().map(Record::Frontend));
            ready.extend(dues);
            Ok::<_, io::Error>(Self {
                copies,
                next: 0,
                ready,
                lines: 0,
                is_over: false,
                _memory: memory,
            })
        });
        begun.await?.map_err(InspectError::Dump)
    }

    /// Returns some more lines, and the reader of the next; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read a table.
    pub async fn next(mut self) -> Result<Option<(Vec<u8>, Self)>, InspectError> {
        let piece = spawn_blocking(move || (self.piece(), self)).await?;
        match piece {
            (Err(error), _) => Err(InspectError::Dump(error)),
            (Ok(lines), _) if lines.is_empty() => Ok(None),
            (Ok(lines), this) => Ok(Some((lines, this))),
        }
    }

    /// Returns the content of all other lines, in one piece.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read a table.
    pub async fn whole(mut self) -> Result<Dump, InspectError> {
        let taken = spawn_blocking(move || {
            let mut collector = Collector::default();
            while let Some(record) = self.record()? {
                collector.put(record).map_err(io::Error::other)?;
            }
            collector.finish().map_err(io::Error::other)
        });
        taken.await?.map_err(InspectError::Dump)
    }

    fn piece(&mut self) -> io::Result<Vec<u8>> {
        let mut piece = Vec::new();
        while piece.len() < PIECE
            && let Some(record) = self.record()?
        {
            piece.extend(record.line());
        }
        Ok(piece)
    }

    /// Returns the content of the next line; `None` after the last one.
    fn record(&mut self) -> io::Result<Option<Record>> {
        while self.ready.is_empty()
            && let Some(name) = self.copies.name(self.next)
        {
            let number = self.next;
            self.next += 1;
            if tables::is_of_use(name) && !tables::has_dues(name) {
                self.ready.extend(records(&self.copies, number, name)?);
            }
        }
        if let Some(record) = self.ready.pop_front() {
            self.lines += 1;
            return Ok(Some(record));
        }
        let is_last = !self.is_over;
        self.is_over = true;
        Ok(is_last.then_some(Record::End { lines: self.lines }))
    }
}

/// Returns the lines of the tables with times that are compared with the node's clock.
fn dues(copies: &TableCopies) -> io::Result<Vec<Record>> {
    let names = copies.names().enumerate();
    let dues = names.filter(|(_, name)| tables::has_dues(name));
    let records = dues.map(|(number, name)| records(copies, number, name));
    Ok(records.collect::<io::Result<Vec<_>>>()?.concat())
}

/// Returns the lines of the table with this number; none if it cannot be copied.
fn records(copies: &TableCopies, number: usize, name: &str) -> io::Result<Vec<Record>> {
    let copy = copies.copy(number).transpose()?;
    Ok(copy.map_or_else(Vec::new, |copy| table_records(name, &tables::table(copy))))
}

/// The node now.
fn node(sockets: Sockets) -> io::Result<Node> {
    let taken = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(Node {
        shunt: env!("CARGO_PKG_VERSION").to_owned(),
        taken: taken.map_or(0, |since| since.as_secs()),
        ticks: Jiffies::open()?.read()?,
        nanoseconds: monotonic(),
        byte_order: BYTE_ORDER.to_owned(),
        anonymous: false,
        sockets,
    })
}
