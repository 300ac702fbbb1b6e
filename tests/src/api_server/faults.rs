//! Faults of a server.

use std::time::Duration;

use serde_json::Value;

use super::kind::Kind;

/// A change of an object: as it was before, and after.
pub(super) type Step = (Option<Value>, Option<Value>);

/// Faults of a server, until they are replaced.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Answers every request with this status.
    pub status: Option<u16>,
    /// With how many seconds for clients to stay away, in a status 429.
    pub retry_after: u32,
    /// Sends it in a header of a plain text, as a server or a balancer that is too busy for more.
    pub is_plain: bool,
    /// Lets requests for lists of this kind wait until the faults change.
    pub withheld: Option<Kind>,
    /// Sends no more than half of a list, and then cuts the connection.
    pub half_lists: bool,
    /// Sends half of a watch's next event, and then cuts the connection.
    pub half_events: bool,
    /// Sends no bookmarks to a watch while nothing changes.
    pub no_bookmarks: bool,
    /// Forgets after the first page how a list goes on.
    pub forgets_pages: bool,
    /// Sends every answer in small pieces, with a pause of this length after each.
    pub pause: Option<Duration>,
    /// Has no objects of this kind, as clusters of an older version.
    pub lacks: Option<Kind>,
    /// Grants no right to read all objects of this kind (403); one of a name it does.
    pub forbidden: Option<Kind>,
    /// Never answers requests for Leases.
    pub holds_leases: bool,
    /// Answers requests for watches with this status.
    pub watches: Option<u16>,
    /// Answers the creation of an Event with this status.
    pub events: Option<u16>,
    /// Answers the write of a status with this status.
    pub statuses: Option<u16>,
    /// Answers the write of a slice with this status.
    pub slices: Option<u16>,
    /// With this cause.
    pub cause: Option<&'static str>,
    /// Grants no right to run anything in a container (403).
    pub execs: bool,
    /// Sends no more than so many objects in a page.
    pub page: Option<usize>,
}
