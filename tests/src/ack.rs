//! The agent's answer to an event, read from its log.
//!
//! `line 3: AddService default/web: 3 added, 0 changed, 0 removed, 412 us, 7 writes` when it was applied;
//! `line 3: …` with the reason, on a line of level `ERROR`, when it was not.

use std::time::Duration;

/// The agent's answer to one line of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ack {
    /// It took effect.
    Applied {
        /// The event and what it is about, such as `AddService default/web`.
        event: String,
        /// Frontends added.
        added: u64,
        /// Frontends changed.
        changed: u64,
        /// Frontends removed.
        removed: u64,
        /// The time it took.
        took: Duration,
        /// Writes to the kernel's tables.
        writes: u64,
    },
    /// It had no effect, for this reason.
    Refused(String),
}

impl Ack {
    /// Returns the answer in the agent's log to the event on `line`, if there is one.
    pub(crate) fn find(log: &str, line: u64) -> Option<Self> {
        let (before, text) = log.split_once(&format!("line {line}: "))?;
        if let Some(applied) = Self::applied(text) {
            return Some(applied);
        }
        before
            .contains("ERROR")
            .then(|| Self::Refused(text.trim().to_owned()))
    }

    fn applied(text: &str) -> Option<Self> {
        let (event, counts) = text.rsplit_once(": ")?;
        let mut counts = counts.trim().split(", ");
        let mut count = |unit: &str| counts.next()?.strip_suffix(unit)?.trim_end().parse().ok();
        Some(Self::Applied {
            event: event.to_owned(),
            added: count("added")?,
            changed: count("changed")?,
            removed: count("removed")?,
            took: Duration::from_micros(count("us")?),
            writes: count("writes")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_in_the_log() {
        let applied = Ack::Applied {
            event: "AddService default/web".to_owned(),
            added: 3,
            changed: 0,
            removed: 1,
            took: Duration::from_micros(412),
            writes: 7,
        };
        let log = "2026-01-01T00:00:00Z  INFO shunt: line 3: AddService default/web: 3 added, 0 changed, 1 removed, 412 us, 7 writes";
        assert_eq!(Ack::find(log, 3), Some(applied));
        assert_eq!(Ack::find(log, 4), None, "it is about another line");

        let log = "2026-01-01T00:00:00Z ERROR shunt: line 13: default/web: ports.http.port: is 0";
        assert_eq!(
            Ack::find(log, 13),
            Some(Ack::Refused(
                "default/web: ports.http.port: is 0".to_owned()
            ))
        );
        assert_eq!(Ack::find(log, 3), None, "line 13 is not line 3");

        let log = "2026-01-01T00:00:00Z  WARN shunt: line 3: interface pod-e does not exist yet";
        assert_eq!(Ack::find(log, 3), None, "a remark is not an answer");
    }
}
