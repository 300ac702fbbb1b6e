//! The treatment of packets for services' addresses that are for none of their frontends.

/// Options for packets to services' addresses that are for none of their frontends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuardOptions {
    /// True if another port or protocol of a ClusterIP is rejected, a free address of a ServiceCIDR
    /// dropped, and what would go to and fro between this node and a router dropped too.
    pub guard: bool,
    /// True if echo requests are answered.
    pub echo: bool,
}

impl GuardOptions {
    /// The bits of the programs' constant.
    pub(crate) const fn bits(self) -> u32 {
        self.guard as u32 | (self.echo as u32) << 1
    }
}
