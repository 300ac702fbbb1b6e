//! A verifier that is slow, or that refuses a program, where a test wants one.
//!
//! In a debug build, `SHUNT_HOLD_VERIFIER` names a file: as long as it is there, the agent's thread does not begin to
//! load programs. `SHUNT_REFUSE_PROGRAM` names a program that is refused there.

/// Waits as long as a test holds the verifier.
#[cfg(debug_assertions)]
pub(crate) fn wait() {
    use std::{env, path::Path, thread, time::Duration};

    if let Some(path) = env::var_os("SHUNT_HOLD_VERIFIER") {
        while Path::new(&path).exists() {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns the one of these programs that a test has refused.
#[cfg(debug_assertions)]
pub(crate) fn refuses(names: &[&'static str]) -> Option<&'static str> {
    let refused = std::env::var("SHUNT_REFUSE_PROGRAM").ok()?;
    names.iter().copied().find(|name| *name == refused)
}

#[cfg(not(debug_assertions))]
pub(crate) const fn wait() {}

#[cfg(not(debug_assertions))]
pub(crate) const fn refuses(_: &[&'static str]) -> Option<&'static str> {
    None
}
