//! Grace periods that take microseconds, while many programs are attached or detached.
//!
//! The kernel waits for an RCU grace period each time that a hook's list of programs is replaced,
//! and holds the lock of all network configuration meanwhile (`tcx_entry_sync` below
//! `tcx_link_attach` in `kernel/bpf/tcx.c`): some 14 ms a hook, whatever the number of threads, 14 s
//! for 500 interfaces. An expedited grace period interrupts the CPUs instead of waiting for their
//! next tick, and takes 0.1 ms.

use std::{fs, path::Path};

use tracing::debug;

/// Setting of the whole host for expedited grace periods (`Documentation/RCU`).
const SETTING: &str = "/sys/kernel/rcu_expedited";

/// Value that we write there: any number but 0 expedites (`rcu_gp_is_expedited` of
/// `kernel/rcu/update.c`), and nothing else writes this one. So the value that a killed agent has left
/// behind differs from one that an administrator wants.
const OURS: &str = "21320";

/// As long as it lives, grace periods are expedited, if the host lets us.
#[derive(Debug)]
pub(crate) struct Expedited {
    setting: Option<&'static Path>,
}

impl Expedited {
    /// Begins, unless another process has; `/sys` may be read-only, which only makes things slower.
    pub(crate) fn begin() -> Self {
        Self::with(Path::new(SETTING))
    }

    /// Ends what an agent that was killed has begun.
    pub(crate) fn end_left_over() {
        end_left_over(Path::new(SETTING));
    }

    fn with(path: &'static Path) -> Self {
        let is_free = fs::read_to_string(path).is_ok_and(|text| matches!(text.trim(), "0" | OURS));
        let setting = is_free.then_some(path).filter(|path| write(path, OURS));
        Self { setting }
    }
}

impl Drop for Expedited {
    fn drop(&mut self) {
        if let Some(path) = self.setting {
            end_left_over(path);
        }
    }
}

/// Ends expedited grace periods, unless an administrator has written another value meanwhile.
fn end_left_over(path: &Path) {
    if fs::read_to_string(path).is_ok_and(|text| text.trim() == OURS) {
        write(path, "0");
    }
}

fn write(path: &Path, value: &str) -> bool {
    match fs::write(path, value) {
        Ok(()) => true,
        Err(error) => {
            debug!(path = %path.display(), %error, "grace periods take their usual time");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{env, process};

    use super::*;

    #[test]
    fn the_setting_is_as_it_was_afterwards() {
        let path = env::temp_dir().join(format!("shunt-expedited-{}", process::id()));
        let leaked: &'static Path = Box::leak(path.clone().into_boxed_path());
        for (before, during) in [("0\n", OURS), ("1\n", "1\n"), ("2\n", "2\n")] {
            fs::write(&path, before).unwrap();
            let expedited = Expedited::with(leaked);
            assert_eq!(fs::read_to_string(&path).unwrap(), during);
            drop(expedited);
            assert_eq!(fs::read_to_string(&path).unwrap().trim(), before.trim());
        }
        let expedited = Expedited::with(leaked);
        fs::write(&path, "1\n").unwrap();
        drop(expedited);
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "1\n",
            "an administrator's"
        );
        fs::remove_file(&path).unwrap();
        // Where there is none, nothing is made.
        drop(Expedited::with(leaked));
        assert!(!path.exists());
    }

    #[test]
    fn a_start_ends_what_a_killed_agent_began() {
        let path = env::temp_dir().join(format!("shunt-left-over-{}", process::id()));
        let leaked: &'static Path = Box::leak(path.clone().into_boxed_path());
        for (before, after) in [("0\n", "0\n"), ("1\n", "1\n"), (OURS, "0")] {
            fs::write(&path, before).unwrap();
            end_left_over(&path);
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
        }
        // Nor does it stay if another one begins meanwhile.
        fs::write(&path, OURS).unwrap();
        drop(Expedited::with(leaked));
        assert_eq!(fs::read_to_string(&path).unwrap(), "0");
        fs::remove_file(&path).unwrap();
    }
}
