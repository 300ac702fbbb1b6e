//! The programs that a packet comes by in a test: those of TC alone, or the XDP program before them.

use std::cell::Cell;

/// The hooks that have programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hooks {
    Tc,
    XdpAndTc,
}

thread_local! {
    /// Programs of the nodes that this thread makes.
    static HOOKS: Cell<Hooks> = const { Cell::new(Hooks::Tc) };
}

impl Hooks {
    pub(crate) const ALL: [Self; 2] = [Self::Tc, Self::XdpAndTc];

    /// Runs a test on nodes with these.
    pub(crate) fn with(self, test: impl FnOnce()) {
        HOOKS.set(self);
        eprintln!("with the programs of {self:?}");
        test();
        HOOKS.set(Self::Tc);
    }

    /// Returns the programs of the nodes that this thread makes.
    pub(crate) fn of_this_thread() -> Self {
        HOOKS.get()
    }
}
