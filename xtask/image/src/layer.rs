//! The image's only layer: a packed archive of its files.

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use oci_spec::image::MediaType;
use tar::{Builder, EntryType, Header};

use crate::{
    blob::{Blob, digest},
    contents::{Contents, File},
};

/// Folders that files of the host are mounted at: a root that is read-only gets none later.
const MOUNTED: [&str; 8] = ["dev", "etc", "proc", "run", "sys", "tmp", "var", "var/run"];

/// The layer, packed, and what it is without that.
#[derive(Debug)]
pub(crate) struct Layer {
    packed: Blob,
    /// SHA-256 of the archive that is not packed.
    digest: String,
    unpacked_bytes: usize,
}

impl Layer {
    /// The layer of these files.
    ///
    /// # Errors
    ///
    /// If a name is too long for an archive.
    pub(crate) fn of(contents: &Contents) -> Result<Self> {
        let archive = archive(contents)?;
        let mut packed = GzBuilder::new()
            .mtime(0)
            .write(Vec::new(), Compression::best());
        packed.write_all(&archive)?;
        let packed = packed.finish()?;
        Ok(Self {
            packed: Blob::new(MediaType::ImageLayerGzip, packed),
            digest: digest(&archive),
            unpacked_bytes: archive.len(),
        })
    }

    pub(crate) const fn packed(&self) -> &Blob {
        &self.packed
    }

    /// By which the image's configuration names it: SHA-256 of what is unpacked, in hexadecimal.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    pub(crate) const fn unpacked_bytes(&self) -> usize {
        self.unpacked_bytes
    }
}

/// The archive of these files and of the folders above them, each before what is in it.
fn archive(contents: &Contents) -> Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    let mut folders: BTreeSet<PathBuf> = MOUNTED.iter().map(PathBuf::from).collect();
    for (name, _) in contents.files() {
        let above = name.ancestors().skip(1);
        folders.extend(
            above
                .map(Path::to_owned)
                .filter(|name| !name.as_os_str().is_empty()),
        );
    }
    for folder in folders {
        let mut header = header(EntryType::Directory, 0o755, 0);
        archive.append_data(&mut header, folder, [].as_slice())?;
    }
    for (name, file) in contents.files() {
        let File {
            is_executable,
            bytes,
        } = file;
        let mode = if *is_executable { 0o755 } else { 0o644 };
        let mut header = header(EntryType::Regular, mode, bytes.len() as u64);
        archive.append_data(&mut header, name, bytes.as_slice())?;
    }
    Ok(archive.into_inner()?)
}

/// Of root, and of no time.
pub(crate) fn header(kind: EntryType, mode: u32, length: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(length);
    header
}
