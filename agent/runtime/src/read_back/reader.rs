//! Reads the tables beside the event loop, which does it piece by piece.

use std::{
    collections::{BTreeMap, HashSet},
    mem,
    sync::Arc,
};

use shunt_datapath::{LiveKey, SourceRanges};
use shunt_model::Query;

use crate::{
    error::InspectError,
    read_back::{
        journal::Position,
        piece::{Listing, Part, Piece, Ranges, Rest, Seen},
    },
};

/// Number of keys that are handed to the loop together.
const KEYS: usize = 64;

/// Number of times that source ranges are listed beside the loop before they are read within it, as they change all
/// the time.
const LISTINGS: usize = 2;

/// Number of times that all is read anew because of a Resync.
const TRIES: usize = 3;

/// A way to the event loop and to the tables beside it.
pub(crate) trait Access {
    /// Has the loop read the beginning of a part.
    async fn read(&self, part: Part, ranges: Ranges) -> Result<Piece, InspectError>;

    /// Lists all frontends in the tables.
    async fn list(&self) -> Result<Vec<LiveKey>, InspectError>;

    /// Lists all source ranges.
    async fn source_ranges(&self) -> Result<SourceRanges, InspectError>;
}

/// Reads the frontends that `query` is about, and those that have its subject as a backend. Returns what `keep` keeps,
/// sorted by key.
///
/// # Errors
///
/// If the kernel refuses, or the agent is ending.
pub(crate) async fn asked<T>(
    access: &impl Access,
    query: Query,
    keep: impl FnMut(LiveKey, Seen) -> Option<T>,
) -> Result<BTreeMap<LiveKey, T>, InspectError> {
    let mut reading = Reading::new(access, keep);
    reading.read(Part::Query(query)).await?;
    reading.settle().await?;
    Ok(reading.kept)
}

/// Reads all frontends, those in the tables and those that events lead to. Returns what `keep` keeps, sorted by key, as
/// it is at one moment. If one Resync follows another one, each frontend is as it was when it was read.
///
/// # Errors
///
/// If the kernel refuses, or the agent is ending.
pub(crate) async fn all<T>(
    access: &impl Access,
    keep: impl FnMut(LiveKey, Seen) -> Option<T>,
) -> Result<BTreeMap<LiveKey, T>, InspectError> {
    let mut reading = Reading::new(access, keep);
    for _ in 0..TRIES {
        if reading.try_all().await? {
            break;
        }
    }
    Ok(reading.kept)
}

/// A reading that is under way.
struct Reading<'a, A, K, T> {
    access: &'a A,
    keep: K,
    kept: BTreeMap<LiveKey, T>,
    /// Keys that were read.
    known: HashSet<LiveKey>,
    /// Frontends that are to be read with their source ranges.
    unread: Vec<LiveKey>,
    ranges: Ranges,
    /// Number of times that source ranges were listed.
    listings: usize,
    /// The end of the log at the last piece, and at the first one.
    last: Option<Position>,
    first: Option<Position>,
}

impl<'a, A: Access, T, K: FnMut(LiveKey, Seen) -> Option<T>> Reading<'a, A, K, T> {
    fn new(access: &'a A, keep: K) -> Self {
        Self {
            access,
            keep,
            kept: BTreeMap::new(),
            known: HashSet::new(),
            unread: Vec::new(),
            ranges: Ranges::Unknown,
            listings: 0,
            last: None,
            first: None,
        }
    }

    /// Reads all frontends. Returns false if a Resync came meanwhile.
    async fn try_all(&mut self) -> Result<bool, InspectError> {
        self.kept.clear();
        self.known.clear();
        self.unread.clear();
        (self.ranges, self.listings) = (Ranges::Unknown, 0);
        self.first = None;
        self.read(Part::Wanted(None)).await?;
        let mut others = self.access.list().await?;
        others.retain(|key| !self.known.contains(key));
        self.read_keys(&others).await?;
        self.settle().await?;
        let mut since = self.first.as_ref().map_or(0, |first| first.number);
        loop {
            if !self.read(Part::Changed(since)).await? {
                return Ok(false);
            }
            if self.unread.is_empty() {
                return Ok(true);
            }
            since = self.last.as_ref().map_or(since, |last| last.number);
            self.settle().await?;
        }
    }

    async fn read_keys(&mut self, keys: &[LiveKey]) -> Result<(), InspectError> {
        for some in keys.chunks(KEYS) {
            self.read(Part::Keys(some.to_vec())).await?;
        }
        Ok(())
    }

    /// Reads a part, piece by piece. Returns false if all is to be read anew.
    async fn read(&mut self, part: Part) -> Result<bool, InspectError> {
        let mut parts = vec![part];
        while let Some(part) = parts.pop() {
            let Piece {
                seen,
                unread,
                rest,
                end,
            } = self.access.read(part, self.ranges.clone()).await?;
            for (key, seen) in seen {
                self.known.insert(key);
                match (self.keep)(key, seen) {
                    Some(kept) => drop(self.kept.insert(key, kept)),
                    None => drop(self.kept.remove(&key)),
                }
            }
            self.known.extend(&unread);
            self.unread.extend(unread);
            self.first.get_or_insert_with(|| end.clone());
            self.last = Some(end);
            match rest {
                Rest::Nothing => {}
                Rest::Part(Part::Keys(keys)) => {
                    let some = keys.chunks(KEYS).rev();
                    parts.extend(some.map(|some| Part::Keys(some.to_vec())));
                }
                Rest::Part(part) => parts.push(part),
                Rest::Anew => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Reads the frontends that were not read because their source ranges were not known.
    async fn settle(&mut self) -> Result<(), InspectError> {
        while let Some(position) = self.last.clone()
            && !self.unread.is_empty()
        {
            self.ranges = if self.listings < LISTINGS {
                let ranges = self.access.source_ranges().await?;
                Ranges::Listed(Arc::new(Listing { position, ranges }))
            } else {
                Ranges::Read
            };
            self.listings += 1;
            let unread = mem::take(&mut self.unread);
            self.read_keys(&unread).await?;
        }
        Ok(())
    }
}
