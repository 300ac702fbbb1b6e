//! Removing what an agent left attached.

use std::path::Path;

use tracing::warn;

use crate::{
    attach::{clsact, hook::Hook},
    pins::{
        directory::{Place, place, remove},
        error::PinError,
        namespace::within,
    },
};

/// Removes a pinned link, or the filter that is noted there and its note.
pub(crate) fn release(path: &Path) -> Result<(), PinError> {
    if clsact::is_note(path) {
        detach(path)?;
    }
    remove(path)
}

/// Detaches the filter that is noted at `note`, in whatever network namespace it is.
fn detach(note: &Path) -> Result<(), PinError> {
    let Some(Place::Interface {
        namespace,
        index,
        hook,
    }) = place(note)
    else {
        return Ok(());
    };
    let Some(hook) = Hook::named(&hook) else {
        return Ok(());
    };
    let detached = within(namespace, || clsact::detach(index, hook))
        .map_err(PinError::io("entering the network namespace of", note))?;
    match detached {
        Some(detached) => detached.map_err(PinError::object("detaching the program of", note)),
        None => {
            warn!(
                note = %note.display(),
                "its network namespace is not found: if it is still there, so is the program"
            );
            Ok(())
        }
    }
}
