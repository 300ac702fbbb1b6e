//! Changing hooks over from TCX links to filters of clsact, and back.
//!
//! For a moment a hook has both: first it gets the other one beside its own, then it loses its own. Both run programs of
//! which the first one handles a packet ([`once`](crate::object::once)), so no packet passes untranslated and none is
//! translated twice. The kernel is waited for where a packet on its way may have met the programs of before.
//!
//! The pin and the note of a hook have one name. The new one is made as a draft and exchanged for the old one, so at each
//! instant the name stands for something attached, and the next agent removes what stands beside it.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use tracing::{info, warn};

use crate::{
    attach::{
        attachment::{Attachment, attach_at},
        clsact,
        hook::Hook,
        link_layer::LinkLayer,
    },
    error::DatapathError,
    object::{attach_mode::AttachWay, loaded::Loaded, stand_in::StandIn},
    pins::held::{draft, exchange},
    sys::{crash::died_after, grace::wait_for_readers},
};

/// Attachments of an earlier agent, by index and hook.
pub(super) type Adopted = BTreeMap<(u32, Hook), Attachment>;

/// Returns the hooks that an earlier agent attached in another way.
pub(super) fn others(adopted: &Adopted, way: AttachWay) -> BTreeSet<(u32, Hook)> {
    let others = adopted
        .iter()
        .filter(|(_, attachment)| attachment.way() != way);
    others.map(|(place, _)| *place).collect()
}

/// Changes these hooks over to `way`. They run the programs of `once` meanwhile. A hook that cannot be changed over stays
/// as it is.
///
/// # Errors
///
/// If packets on their way cannot be waited for, or a pin cannot be removed.
pub(super) fn change_over(
    adopted: &mut Adopted,
    object: &mut Loaded,
    hooks: &BTreeSet<(u32, Hook)>,
    way: AttachWay,
    once: StandIn,
) -> Result<(), DatapathError> {
    drop(object.replace(Some(once)));
    let ready = run(adopted, object, hooks);
    died_after("once");
    let changed = change_ready(adopted, object, &ready, way);
    let once = object.replace(None);
    let done = run(adopted, object, &ready);
    // A program that is still at its hook hands packets over by its table.
    let unpinned = if done == ready {
        object.unpin_unused()
    } else {
        Ok(())
    };
    drop(once);
    info!(hooks = changed?, ?way, "changed over");
    Ok(unpinned?)
}

/// Changes hooks over that run such programs. Returns their number.
fn change_ready(
    adopted: &mut Adopted,
    object: &mut Loaded,
    hooks: &BTreeSet<(u32, Hook)>,
    way: AttachWay,
) -> Result<usize, DatapathError> {
    let wait = || wait_for_readers().map_err(|source| DatapathError::Wait { source });
    // Until then, a packet may have met a program that leaves no mark.
    wait()?;
    let mut count = 0;
    for (index, hook) in hooks {
        let Some(attachment) = adopted.get_mut(&(*index, *hook)) else {
            continue;
        };
        match change_one(attachment, object, (*index, *hook), way) {
            Ok(()) => count += 1,
            Err(error) => {
                warn!(index, hook = hook.name(), %error, "a hook stays attached as it was");
            }
        }
    }
    // Until then, a packet may be between the two programs, of which the second one has to know its mark.
    wait()?;
    Ok(count)
}

/// Has these hooks run the programs that `object` has for them now. Returns those that do.
fn run(
    adopted: &mut Adopted,
    object: &mut Loaded,
    hooks: &BTreeSet<(u32, Hook)>,
) -> BTreeSet<(u32, Hook)> {
    let mut done = BTreeSet::new();
    for (index, hook) in hooks {
        let Some(attachment) = adopted.get_mut(&(*index, *hook)) else {
            continue;
        };
        match run_one(attachment, object, (*index, *hook)) {
            Ok(()) => {
                done.insert((*index, *hook));
            }
            Err(error) => warn!(index, hook = hook.name(), %error, "a program is not replaced"),
        }
    }
    done
}

fn run_one(
    attachment: &mut Attachment,
    object: &mut Loaded,
    (index, hook): (u32, Hook),
) -> Result<(), DatapathError> {
    let program = hook.program(LinkLayer::of_interface(&name_of(index)?)?);
    attachment.replace(object, (index, hook), program)
}

fn name_of(index: u32) -> Result<String, DatapathError> {
    clsact::name(index).map_err(|source| DatapathError::Interface { index, source })
}

/// Attaches the program of the hook in the other way, too, and then ends the way before.
fn change_one(
    attachment: &mut Attachment,
    object: &mut Loaded,
    (index, hook): (u32, Hook),
    way: AttachWay,
) -> Result<(), DatapathError> {
    let Some(path) = attachment.path().map(ToOwned::to_owned) else {
        return Ok(());
    };
    let beside = draft(&path);
    let new = attach_at(
        object,
        &name_of(index)?,
        (index, hook),
        way,
        Some(beside.clone()),
    )?;
    died_after("beside");
    if let Err(error) = exchange(&beside, &path) {
        new.detach();
        return Err(error.into());
    }
    died_after("exchange");
    mem::replace(attachment, new.at(&path)).at(&beside).detach();
    Ok(())
}
