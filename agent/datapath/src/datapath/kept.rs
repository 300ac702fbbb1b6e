//! The attached programs and the pins between events: others may remove the cgroup, the pins, or hide these by a mount.

use std::path::{Path, PathBuf};

use tracing::info;

use super::Datapath;
use crate::pins::{
    error::PinError,
    held::{PinState, Repair},
};

impl Datapath {
    /// Attaches the programs for sockets to another cgroup if theirs was removed, and pins again what is not pinned any
    /// more. To be called from time to time. Takes some microseconds for each hook and table.
    pub fn check_kept(&mut self) {
        if self.sockets.follow_cgroup(&mut self.object) {
            self.cover_sockets();
        }
        self.check_pins();
    }

    /// Returns sentences about what [`Self::check_kept`] has found.
    pub fn kept_complaints(&self) -> Vec<String> {
        let PinState {
            was_restored,
            problem,
        } = &self.pin_state;
        let dir = self.object.pins().map(|pins| pins.path().display());
        let pins = dir.and_then(|dir| match problem {
            Some(problem) => Some(format!(
                "what is to outlive the agent is not pinned at {dir}, so the agent's death would end translation: {problem}"
            )),
            None => was_restored.then(|| {
                format!(
                    "another program has removed pins at {dir}, or hidden them by a mount: everything is pinned again"
                )
            }),
        });
        pins.into_iter().chain(self.sockets.replacement()).collect()
    }

    /// Pins again what is not pinned any more: removed by others, or hidden by a mount.
    pub(super) fn check_pins(&mut self) {
        let Repair { again, error } = match self.pin_again() {
            Ok(repair) => repair,
            Err(error) => Repair {
                error: Some(error),
                ..Repair::default()
            },
        };
        if !again.is_empty() {
            let dir = self.object.pins().map(|pins| pins.path().to_owned());
            let names = names(&again, &dir.unwrap_or_default());
            info!(count = again.len(), names, "pinned again");
        }
        self.pin_state.was_restored |= !again.is_empty();
        self.pin_state.problem = error.map(|error| error.to_string());
    }

    /// Compares all pins with what is held, in the order in which the next agent needs them: links are the last.
    fn pin_again(&mut self) -> Result<Repair, PinError> {
        let Self {
            object,
            tables,
            attachments,
            uplinks,
            sockets,
            layout,
            has_taken_over,
            ..
        } = self;
        let mut repair = Repair::default();
        let (Some(pins), Some(layout)) = (object.pins_mut(), layout) else {
            return Ok(repair);
        };
        pins.restore()?;
        layout.keep_stamp(&mut repair);
        // Until then tables of an earlier agent have the names of ours.
        let maps = layout.maps().filter(|_| *has_taken_over);
        for map in maps {
            if let Some(table) = tables.table(map.name) {
                repair.object(&pins.map(map.pin), table);
            }
        }
        object.keep_pins(&mut repair);
        attachments.keep_pins(&mut repair);
        uplinks.keep_pins(&mut repair);
        sockets.keep_pins(&mut repair);
        Ok(repair)
    }
}

/// Returns the first of these paths below `dir`, in words.
fn names(paths: &[PathBuf], dir: &Path) -> String {
    const SHOWN: usize = 10;
    let shown = paths.iter().take(SHOWN);
    let shown = shown.map(|path| path.strip_prefix(dir).unwrap_or(path).display().to_string());
    let mut names = shown.collect::<Vec<_>>().join(", ");
    if paths.len() > SHOWN {
        names += &format!(" and {} more", paths.len() - SHOWN);
    }
    names
}
