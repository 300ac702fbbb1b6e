//! The maps by which connection tables of another size hand over to ours, and the phases of that.

use super::{Kind, Map, Size, both};

/// The tables that hand over to ours.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// None.
    Nothing = 0,
    /// Tables of another size.
    Array = 4,
}

/// The maps of one address family.
#[derive(Debug, Clone, Copy)]
pub struct FamilyMaps {
    /// The connections in a table of another size.
    pub resized: Map,
    /// The space in which a CPU carries a connection from one to the other.
    pub carriers: Map,
}

/// A connection table that hands over, by its name in our object and as it is pinned.
const fn handing_over(name: &'static str, pin: &'static str) -> Map {
    Map {
        name,
        pin,
        shown: name,
        kind: Kind::Scratch,
        size: Size::Fixed,
    }
}

impl FamilyMaps {
    /// The maps of IPv4.
    pub const V4: Self = Self {
        resized: handing_over("RESIZED_CONNTRACK_V4", super::FamilyMaps::V4.conntrack.pin),
        carriers: both("CARRIERS_V4", "carriers_v4", Kind::Scratch, Size::Fixed),
    };
    /// The maps of IPv6.
    pub const V6: Self = Self {
        resized: handing_over("RESIZED_CONNTRACK_V6", super::FamilyMaps::V6.conntrack.pin),
        carriers: both("CARRIERS_V6", "carriers_v6", Kind::Scratch, Size::Fixed),
    };
}

/// The [`Phase`] that the programs are in, a word.
pub const PHASE: Map = both("HANDOVER", "handover", Kind::Setting, Size::Fixed);

/// All of them.
pub const ALL: [Map; 5] = [
    FamilyMaps::V4.resized,
    FamilyMaps::V4.carriers,
    FamilyMaps::V6.resized,
    FamilyMaps::V6.carriers,
    PHASE,
];

/// The phase of a handover, by the table that decides.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// There is only the table of this agent.
    None = 0,
    /// Some hooks have programs of an earlier agent, which know its table alone: so it decides, and a connection is
    /// opened or removed there first, then in ours. What is looked up there is copied to ours.
    Swapping = 1,
    /// No hook has, and our table has all that the other one has: ours decides. Connections are still
    /// entered into both, for programs that began before.
    Draining = 2,
}
