//! A crash of the agent where a test wants one.
//!
//! In a debug build, `SHUNT_DIE_AFTER` ends the agent at once after the step of this name.

/// Ends the agent here if it is to be seen what the next one makes of that.
#[cfg(debug_assertions)]
pub(crate) fn died_after(step: &str) {
    if std::env::var_os("SHUNT_DIE_AFTER").is_some_and(|last| last == step) {
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) const fn died_after(_: &str) {}
