//! The options for forwarding packets in transit where the driver has them.

use std::collections::BTreeSet;

use shunt_model::InterfacePattern;

/// Place at which the XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XdpMode {
    /// Nowhere.
    #[default]
    Off,
    /// In the driver where the driver can, else before the stack.
    Auto,
    /// In the driver or not at all.
    Native,
    /// Before the stack, whatever the driver can.
    Generic,
}

/// Options for forwarding packets in transit past TC.
#[derive(Debug, Clone, Default)]
pub struct XdpOptions {
    /// Mode of the XDP program.
    pub mode: XdpMode,
    /// By which interfaces: uplinks. If there are none, those of the default routes.
    pub interfaces: BTreeSet<InterfacePattern>,
}

impl XdpOptions {
    /// Returns whether there is an XDP program anywhere.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        !matches!(self.mode, XdpMode::Off)
    }
}
