//! What of the agent's settings may change while it runs.

use std::collections::BTreeSet;

use shunt_model::InterfacePattern;

/// Settings that take effect at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LiveSettings {
    /// The interfaces that have the programs, besides those of the events.
    pub interfaces: BTreeSet<InterfacePattern>,
    /// Those that never have them, whoever names them.
    pub excluded_interfaces: BTreeSet<InterfacePattern>,
    /// How many of all frontends one event may remove, in percent; `None`: all.
    pub max_removal: Option<u8>,
}
