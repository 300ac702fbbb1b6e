//! A few frontends, read within the event loop.

use std::{cell::OnceCell, sync::Arc};

use shunt_api::view::Difference;
use shunt_common::{V4, V6};
use shunt_datapath::{DualPublisher, LiveKey, SourceRanges, TableError, Tables};
use shunt_model::{FrontendKey, Query, Renderer};

use crate::{
    frontends::InspectedFrontend,
    read_back::journal::{Journal, Noted, Position, Since},
};

/// Work of one piece: a frontend counts as one, and each of its backends as another one. The loop takes a few hundred
/// microseconds for it, unless one frontend alone has more.
const PIECE: usize = 512;

/// Frontends to read.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// The frontends that a question is about.
    Query(Query),
    /// The frontends with these keys.
    Keys(Vec<LiveKey>),
    /// The frontends that events lead to, behind this key.
    Wanted(Option<FrontendKey>),
    /// The frontends that events have changed from this position of the log on.
    Changed(u64),
}

/// Source ranges for a piece. Those of single frontends cannot be read: a longest-prefix table has no order to find
/// them by.
#[derive(Debug, Clone)]
pub(crate) enum Ranges {
    /// A frontend that has any is not read.
    Unknown,
    /// They were listed beside the loop. A frontend that has changed since is not read.
    Listed(Arc<Listing>),
    /// They are read within the loop.
    Read,
}

/// Source ranges, and a position of the log before they were listed.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) position: Position,
    pub(crate) ranges: SourceRanges,
}

/// The state of a key: in the kernel and by the events.
#[derive(Debug)]
pub(crate) enum Seen {
    /// A frontend in the kernel.
    There(Box<InspectedFrontend>),
    /// No frontend, although events lead to one.
    Missing,
    /// No frontend, because its address family is not translated.
    Untranslated,
    /// No frontend, and no event leads to one.
    Nothing,
}

impl Seen {
    /// Returns how kernel and events differ, if they do.
    pub(crate) fn difference(&self) -> Option<Difference> {
        match self {
            Self::There(frontend) => frontend.difference(),
            Self::Missing => Some(Difference::Missing),
            Self::Untranslated | Self::Nothing => None,
        }
    }
}

/// The rest of a part.
#[derive(Debug)]
pub(crate) enum Rest {
    /// All of it was read.
    Nothing,
    /// This is still to be read.
    Part(Part),
    /// Whatever was read before may have changed.
    Anew,
}

/// The frontends that were read together.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) seen: Vec<(LiveKey, Seen)>,
    /// Frontends whose source ranges are not known.
    pub(crate) unread: Vec<LiveKey>,
    pub(crate) rest: Rest,
    /// The end of the log at that time.
    pub(crate) end: Position,
}

/// Reads the beginning of `part`.
///
/// # Errors
///
/// If the kernel refuses to read.
pub(crate) fn read<A: Tables<V4>, B: Tables<V6>>(
    publisher: &DualPublisher<A, B>,
    renderer: &Renderer,
    journal: &Journal,
    part: Part,
    ranges: &Ranges,
) -> Result<Piece, TableError> {
    let none = SourceRanges::default();
    let now;
    let known = match ranges {
        Ranges::Unknown => &none,
        Ranges::Listed(listing) => &listing.ranges,
        Ranges::Read => {
            now = publisher.source_ranges()?;
            &now
        }
    };
    let mut reader = publisher.reader(known);
    let changed = OnceCell::new();
    // Whether the source ranges of a frontend are as they are known.
    let are_known = |key: &LiveKey| match ranges {
        Ranges::Unknown => false,
        Ranges::Read => true,
        Ranges::Listed(listing) => {
            let since: &Since = changed.get_or_init(|| journal.since(&listing.position));
            key.frontend().is_none_or(|key| !since.concerns(&key))
        }
    };
    let mut piece = Piece {
        seen: Vec::new(),
        unread: Vec::new(),
        rest: Rest::Nothing,
        end: journal.end(),
    };
    let mut work = 0;
    // Reads one frontend, and returns whether there is to be another one in this piece.
    let mut look = |piece: &mut Piece, key: LiveKey| {
        let live = reader.frontend(&key)?;
        let wanted = key.frontend().and_then(|key| renderer.frontend(key));
        work += 1 + live.as_ref().map_or(0, |live| live.backends.len());
        let seen = match (live, wanted) {
            (Some(live), _) if live.has_source_ranges() && !are_known(&key) => {
                piece.unread.push(key);
                return Ok(work < PIECE);
            }
            (Some(live), wanted) => {
                Seen::There(Box::new(InspectedFrontend::new(live, wanted.cloned())))
            }
            (None, None) => Seen::Nothing,
            (None, Some(_)) if publisher.families().has(key.address) => Seen::Missing,
            (None, Some(_)) => Seen::Untranslated,
        };
        piece.seen.push((key, seen));
        Ok::<_, TableError>(work < PIECE)
    };
    let keys = match part {
        Part::Query(query) => renderer
            .keys_of(&query)
            .into_iter()
            .map(Into::into)
            .collect(),
        Part::Keys(keys) => keys,
        Part::Wanted(after) => {
            for (key, _) in renderer.frontends_after(after) {
                if !look(&mut piece, key.into())? {
                    piece.rest = Rest::Part(Part::Wanted(Some(key)));
                    break;
                }
            }
            return Ok(piece);
        }
        Part::Changed(since) => {
            for (position, noted) in journal.from(since) {
                let Noted::Frontend(key) = noted else {
                    piece.rest = Rest::Anew;
                    break;
                };
                if !look(&mut piece, key.into())? {
                    piece.rest = Rest::Part(Part::Changed(position + 1));
                    break;
                }
            }
            return Ok(piece);
        }
    };
    let mut keys = keys.into_iter();
    for key in keys.by_ref() {
        if !look(&mut piece, key)? {
            break;
        }
    }
    let rest: Vec<_> = keys.collect();
    if !rest.is_empty() {
        piece.rest = Rest::Part(Part::Keys(rest));
    }
    Ok(piece)
}
