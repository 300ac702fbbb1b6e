//! One version of the pinned layouts hands over to the next while packets go on.
//!
//! The table of the version before decides until no hook has a program of that version; then ours
//! has all that it has, and decides. `docs/upgrade.md` has the steps, and why each prefix of them
//! can be begun again.

#[cfg(feature = "next-layout")]
pub(crate) mod conntrack_pair;
#[cfg(feature = "next-layout")]
pub(crate) mod phases;
#[cfg(any(test, feature = "next-layout"))]
pub(crate) mod reconcile;
#[cfg(feature = "next-layout")]
pub(crate) mod steps;
#[cfg(not(feature = "next-layout"))]
#[path = "none.rs"]
pub(crate) mod steps;
