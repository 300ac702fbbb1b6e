//! The image as an OCI layout: its index, manifest, configuration and layer.
//!
//! <https://github.com/opencontainers/image-spec/blob/main/image-layout.md>

use std::{collections::HashMap, env, fs, path::Path};

use anyhow::{Context as _, Result};
use oci_spec::image::{
    Arch, ConfigBuilder, ImageConfigurationBuilder, ImageIndexBuilder, ImageManifestBuilder,
    MediaType, Os, RootFsBuilder, SCHEMA_VERSION,
};
use tar::{Builder, EntryType};

use crate::{
    blob::Blob,
    contents::BINARY,
    layer::{Layer, header},
};

/// The file that distinguishes a layout from any other folder, and what is in it.
const MARK: (&str, &str) = ("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);

/// The names under which registries, podman and containerd look for the name of an image.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
const CONTAINERD_NAME: &str = "io.containerd.image.name";

/// An image.
#[derive(Debug)]
pub(crate) struct Layout {
    index: Vec<u8>,
    manifest: Blob,
    configuration: Blob,
    layer: (String, Vec<u8>),
}

impl Layout {
    /// The image of this layer, by its name and tag.
    ///
    /// # Errors
    ///
    /// If something that it needs is missing.
    pub(crate) fn new(name: &str, revision: Option<&str>, layer: &Layer) -> Result<Self> {
        let mut labels = vec![
            ("org.opencontainers.image.title", "shunt"),
            ("org.opencontainers.image.licenses", "Apache-2.0"),
            (
                "org.opencontainers.image.version",
                env!("CARGO_PKG_VERSION"),
            ),
        ];
        labels.extend(revision.map(|revision| ("org.opencontainers.image.revision", revision)));
        let labels: HashMap<_, _> = labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let config = ConfigBuilder::default()
            .entrypoint(vec![format!("/{BINARY}")])
            .cmd(vec!["agent".to_owned(), "--kubernetes".to_owned()])
            .user("0:0")
            .working_dir("/")
            .build()?;
        let root = RootFsBuilder::default()
            .typ("layers")
            .diff_ids(vec![format!("sha256:{}", layer.digest())])
            .build()?;
        let configuration = ImageConfigurationBuilder::default()
            .architecture(Arch::from(architecture()))
            .os(Os::Linux)
            .config(config)
            .rootfs(root)
            .history(Vec::new())
            .build()?;
        let configuration = Blob::new(MediaType::ImageConfig, sorted(&configuration.to_string()?)?);
        let manifest = ImageManifestBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageManifest)
            .config(configuration.descriptor()?)
            .layers(vec![layer.packed().descriptor()?])
            .annotations(labels)
            .build()?;
        let manifest = Blob::new(MediaType::ImageManifest, sorted(&manifest.to_string()?)?);
        let (_, tag) = name
            .rsplit_once(':')
            .with_context(|| format!("{name} has no tag: it is to be NAME:TAG"))?;
        let mut descriptor = manifest.descriptor()?;
        descriptor.set_annotations(Some(HashMap::from([
            (REF_NAME.to_owned(), tag.to_owned()),
            (CONTAINERD_NAME.to_owned(), name.to_owned()),
        ])));
        let index = ImageIndexBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageIndex)
            .manifests(vec![descriptor])
            .build()?;
        Ok(Self {
            index: sorted(&index.to_string()?)?,
            manifest,
            configuration,
            layer: (
                layer.packed().digest().to_owned(),
                layer.packed().bytes().to_owned(),
            ),
        })
    }

    /// The manifest's digest, by which a registry knows the image.
    pub(crate) fn digest(&self) -> String {
        format!("sha256:{}", self.manifest.digest())
    }

    /// Each file of the layout with its name, sorted.
    fn files(&self) -> Vec<(String, &[u8])> {
        let Self {
            index,
            manifest,
            configuration,
            layer: (layer, packed),
        } = self;
        let (mark, version) = MARK;
        let mut files = vec![
            ("index.json".to_owned(), index.as_slice()),
            (mark.to_owned(), version.as_bytes()),
            (format!("blobs/sha256/{layer}"), packed.as_slice()),
        ];
        for blob in [manifest, configuration] {
            files.push((format!("blobs/sha256/{}", blob.digest()), blob.bytes()));
        }
        files.sort();
        files
    }

    /// Writes the layout to a folder, in place of what is there.
    ///
    /// # Errors
    ///
    /// If that folder is something else, or cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let failed = || format!("cannot write {}", folder.display());
        if folder.exists() {
            let (mark, _) = MARK;
            anyhow::ensure!(
                folder.join(mark).exists(),
                "{} is there and is no image: it stays",
                folder.display()
            );
            fs::remove_dir_all(folder).with_context(failed)?;
        }
        fs::create_dir_all(folder.join("blobs/sha256")).with_context(failed)?;
        for (name, bytes) in self.files() {
            fs::write(folder.join(name), bytes).with_context(failed)?;
        }
        Ok(())
    }

    /// Writes the layout as one file.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(crate) fn write_archive(&self, path: &Path) -> Result<()> {
        let mut archive = Builder::new(Vec::new());
        for (name, bytes) in self.files() {
            let mut header = header(EntryType::Regular, 0o644, bytes.len() as u64);
            archive.append_data(&mut header, name, bytes)?;
        }
        fs::write(path, archive.into_inner()?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// JSON whose members are in order: maps of the specification have none.
fn sorted(json: &str) -> Result<Vec<u8>> {
    let value: serde_json::Value = serde_json::from_str(json)?;
    Ok(serde_json::to_vec(&value)?)
}

/// Returns the specification's name of the processor that this program is for.
fn architecture() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::Contents;

    /// A small one, which every machine has.
    const PROGRAM: &str = "/bin/sh";

    #[test]
    fn the_same_files_give_the_same_image() {
        let program = Path::new(PROGRAM);
        let [first, second] = [0, 1].map(|_| {
            let contents = Contents::of(program, program).unwrap();
            let layer = Layer::of(&contents).unwrap();
            Layout::new("shunt:test", Some("abc"), &layer).unwrap()
        });
        assert_eq!(first.files(), second.files());
    }

    #[test]
    fn what_is_no_image_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let program = Path::new(PROGRAM);
        let contents = Contents::of(program, program).unwrap();
        let layout = Layout::new("shunt:test", None, &Layer::of(&contents).unwrap()).unwrap();
        layout.write(folder.path()).unwrap_err();
        let image = folder.path().join("image");
        layout.write(&image).unwrap();
        layout.write(&image).unwrap();
    }
}
