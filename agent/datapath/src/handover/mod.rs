//! An earlier agent's connection tables of another size hand over to ours while packets go on. So do
//! tables of session affinity and fragments that are too small.
//!
//! The table of the earlier agent decides until no hook has a program of it; then ours
//! has all that it has, and decides. `docs/upgrade.md` has the steps, and why each prefix of them
//! can be begun again.

pub(crate) mod array;
pub(crate) mod dated;
pub(crate) mod outgrown;
pub(crate) mod phases;
pub(crate) mod reconcile;
pub(crate) mod steps;
