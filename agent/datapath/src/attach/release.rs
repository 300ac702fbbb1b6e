//! Removing what an agent left attached.

use std::{fs, path::Path};

use tracing::warn;

use crate::{
    attach::{clsact, hook::Hook},
    pins::{
        directory::{Pins, Place, place, remove},
        error::PinError,
        held::{of_draft, take_name},
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

/// Ends what an agent that was killed has left beside the attachment of a hook, or gives it the hook's name if nothing
/// else has that.
///
/// # Errors
///
/// If the pins cannot be listed or changed.
pub(crate) fn settle(pins: &Pins) -> Result<(), PinError> {
    for link in pins.links()? {
        let beside = link.path;
        let Some(path) = of_draft(&beside) else {
            continue;
        };
        let is_of_hook = matches!(place(&path), Some(Place::Interface { hook, .. }) if Hook::named(&hook).is_some());
        if !is_of_hook {
            continue;
        }
        let is_named = fs::symlink_metadata(&path).is_ok();
        match (is_named, clsact::is_note(&beside) && clsact::is_note(&path)) {
            (false, _) => take_name(&beside, &path)?,
            // Of the same filter.
            (true, true) => remove(&beside)?,
            (true, false) => release(&beside)?,
        }
    }
    Ok(())
}

/// Detaches the filter that is noted at `note`, in whatever network namespace it is.
fn detach(note: &Path) -> Result<(), PinError> {
    let Some(Place::Interface {
        namespace,
        index,
        hook,
    }) = place(&of_draft(note).unwrap_or_else(|| note.to_owned()))
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
