//! What the tables are called, in the object and where they are shown.

/// The names of one family's tables in the object.
#[derive(Debug, Clone, Copy)]
pub struct TableNames {
    /// Frontend to index.
    pub frontends: &'static str,
    /// Cells.
    pub cells: &'static str,
    /// Slots.
    pub slots: &'static str,
    /// Backends.
    pub backends: &'static str,
    /// Source ranges.
    pub source_ranges: &'static str,
    /// Session affinity.
    pub affinity: &'static str,
    /// Fragments.
    pub fragments: &'static str,
    /// This node's addresses.
    pub node: &'static str,
    /// Connections.
    pub conntrack: &'static str,
    /// The constant with the ranges of this node's pods.
    pub pod_cidrs: &'static str,
    /// The constant with the address that a pod sees when it reaches itself.
    pub hairpin_ip: &'static str,
    /// As the tables whose use is shown are called there.
    pub shown: ShownNames,
}

/// The names under which the use of tables is shown.
#[derive(Debug, Clone, Copy)]
pub struct ShownNames {
    /// Frontends.
    pub frontends: &'static str,
    /// Slots.
    pub slots: &'static str,
    /// Backends.
    pub backends: &'static str,
    /// Connections.
    pub conntrack: &'static str,
}

/// The tables that only `--redirect` uses. They are not pinned: what is in them is found again.
pub const REDIRECT_TABLES: [&str; 3] = ["HOPS_V4", "HOPS_V6", "PEERS"];

/// The names with the ending of a family.
macro_rules! table_names {
    ($ending:literal, $shown_ending:literal) => {
        TableNames {
            frontends: concat!("FRONTENDS", $ending),
            cells: concat!("CELLS", $ending),
            slots: concat!("SLOTS", $ending),
            backends: concat!("BACKENDS", $ending),
            source_ranges: concat!("SOURCE_RANGES", $ending),
            affinity: concat!("AFFINITY", $ending),
            fragments: concat!("FRAGMENTS", $ending),
            node: concat!("NODE", $ending),
            conntrack: concat!("CONNTRACK", $ending),
            pod_cidrs: concat!("POD_CIDRS", $ending),
            hairpin_ip: concat!("HAIRPIN_IP", $ending),
            shown: ShownNames {
                frontends: concat!("frontends", $shown_ending),
                slots: concat!("slots", $shown_ending),
                backends: concat!("backends", $shown_ending),
                conntrack: concat!("conntrack", $shown_ending),
            },
        }
    };
}

impl TableNames {
    /// Those of IPv4.
    pub const V4: Self = table_names!("_V4", "_v4");
    /// Those of IPv6.
    pub const V6: Self = table_names!("_V6", "_v6");
}
