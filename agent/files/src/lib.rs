//! The agent's own files: locks, and contents that are replaced whole.
//!
//! Everything here is made for the agent's own user alone: files have mode 0600, directories 0700, and no
//! symbolic link is followed in the last part of a path.

#![forbid(unsafe_code)]

mod folder;
mod holder;
mod lock;
mod replace;

pub use self::{
    folder::make_folder,
    holder::Holder,
    lock::{LockError, LockFile, PATIENCE, PAUSE},
    replace::{ReplaceError, replace},
};
