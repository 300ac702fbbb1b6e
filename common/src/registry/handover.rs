//! The maps by which one version of the layouts hands over to the next, and the phases of that.

use super::{Kind, Map, Size, both};

/// The version that hands over.
pub const FROM: u64 = 3;

/// The maps of one address family.
#[derive(Debug, Clone, Copy)]
pub struct FamilyMaps {
    /// The connections in the layout of the version before: its pinned table.
    pub previous: Map,
    /// Where a CPU makes an entry of one layout what it is in the other.
    pub converted: Map,
}

/// A map of the version before, by its name in our object and as it is pinned.
const fn before(name: &'static str, pin: &'static str) -> Map {
    Map {
        name,
        pin,
        shown: name,
        kind: Kind::Scratch,
        size: Size::Fixed,
    }
}

impl FamilyMaps {
    /// Those of IPv4.
    pub const V4: Self = Self {
        previous: before("PREVIOUS_CONNTRACK_V4", "CONNTRACK_V4"),
        converted: both("CONVERTED_V4", "converted_v4", Kind::Scratch, Size::Fixed),
    };
    /// Those of IPv6.
    pub const V6: Self = Self {
        previous: before("PREVIOUS_CONNTRACK_V6", "CONNTRACK_V6"),
        converted: both("CONVERTED_V6", "converted_v6", Kind::Scratch, Size::Fixed),
    };
}

/// The [`Phase`] that the programs are in, a word.
pub const PHASE: Map = both("HANDOVER", "handover", Kind::Setting, Size::Fixed);

/// All of them.
pub const ALL: [Map; 5] = [
    FamilyMaps::V4.previous,
    FamilyMaps::V4.converted,
    FamilyMaps::V6.previous,
    FamilyMaps::V6.converted,
    PHASE,
];

/// Which of the two tables decides.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// There is only the table of this version.
    None = 0,
    /// Some hooks have programs of the version before, which know its table alone: so it decides, and
    /// whoever opens or removes a connection does so there first, then in ours. What is looked up
    /// there is copied to ours.
    Swapping = 1,
    /// No hook has, and our table has all that the other one has: ours decides. Connections are still
    /// entered into both, for programs that began before.
    Draining = 2,
}
