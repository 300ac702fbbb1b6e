//! Builds the kernel programs (package `shunt-ebpf`) and puts the objects where the crate includes
//! them, compressed: `$OUT_DIR/shunt.o.gz`, and `$OUT_DIR/shunt-flows.o.gz` with those that report connections.
//! `$OUT_DIR/shunt-spare.o.gz` has programs that do nothing, which stand in the place of others.

use std::{
    env,
    fmt::Display,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use flate2::{Compression, write::GzEncoder};
use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
    build::elf::{Builder, SectionData},
    elf::SHT_STRTAB,
    write::{Object, Symbol, SymbolSection},
};
use shunt_toolchain::{FOLDER, RECORD, RecordError, Toolchain};

/// Inputs of the object, relative to the workspace.
const INPUTS: [&str; 5] = [
    "ebpf",
    "common",
    "Cargo.toml",
    "Cargo.lock",
    "xtask/toolchain",
];

/// The programs of the spare object: as many as are ever verified together.
const SPARES: [&str; 4] = ["spare0", "spare1", "spare2", "spare3"];

/// `r0 = 0; exit`, of `linux/bpf.h`.
const NOTHING: [u8; 16] = [0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // `cargo::error` is the one thing that cargo shows without the script's other output.
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let root = root()?;
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    println!(
        "cargo::rerun-if-changed={}",
        root.join(FOLDER).join(RECORD).display()
    );

    let toolchain = Toolchain::load(&root)
        .map_err(|error: RecordError| format!("{error}: run `cargo xtask setup`"))?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let target_dir = target_dir(&out).join("bpf");
    // One after the other in one folder: they share all that does not depend on the features. The second
    // replaces the first there, which has been copied by then; so does the build of another profile,
    // which waits for the lock.
    let _lock = lock(&target_dir)?;
    for (features, name) in [(&[][..], "shunt.o.gz"), (&["flows"], "shunt-flows.o.gz")] {
        let object = toolchain.build_object(&root, &target_dir, "shunt-ebpf", features)?;
        put(&object, &out.join(name))?;
    }
    let spare = out.join("shunt-spare.o.gz");
    let failed = |error: &dyn Display| format!("cannot write {}: {error}", spare.display());
    let object = spare_object().map_err(|error| failed(&error))?;
    compress(&object, &spare).map_err(|error| failed(&error))
}

/// Returns an object with programs that do nothing.
fn spare_object() -> Result<Vec<u8>, object::write::Error> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let section = object.add_section(Vec::new(), b"classifier".to_vec(), SectionKind::Text);
    for name in SPARES {
        let value = object.append_section_data(section, &NOTHING, 8);
        object.add_symbol(Symbol {
            name: name.into(),
            value,
            size: NOTHING.len() as u64,
            kind: SymbolKind::Text,
            scope: SymbolScope::Linkage,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        });
    }
    object.write()
}

/// Takes the lock of a folder, which is made if it is not there.
fn lock(folder: &Path) -> Result<File, String> {
    let path = folder.join("objects.lock");
    fs::create_dir_all(folder)
        .and_then(|()| File::create(&path))
        .and_then(|file| file.lock().map(|()| file))
        .map_err(|error| format!("cannot lock {}: {error}", path.display()))
}

/// Writes the object there, without debug information, and compressed to a sixth. Each node has two of them
/// in its image and uses one once.
fn put(object: &Path, there: &Path) -> Result<(), String> {
    let failed = |error: &dyn Display| format!("cannot copy {}: {error}", object.display());
    let whole = fs::read(object).map_err(|error| failed(&error))?;
    let lean = without_debug_information(&whole).map_err(|error| failed(&error))?;
    compress(&lean, there).map_err(|error| failed(&error))
}

fn compress(object: &[u8], there: &Path) -> io::Result<()> {
    let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
    compressed.write_all(object)?;
    fs::write(there, compressed.finish()?)
}

/// The object without its DWARF sections, which are three quarters of it. The linker has made BTF of
/// them, and that is what a kernel reads.
fn without_debug_information(object: &[u8]) -> Result<Vec<u8>, object::build::Error> {
    let mut object = Builder::read(object)?;
    for section in &mut object.sections {
        let name = &section.name;
        section.delete = name.starts_with(b".debug_") || name.starts_with(b".rel.debug_");
    }
    object.delete_orphans();
    // The linker has one table for all names, and the builder keeps those of sections apart.
    let names = object.sections.add();
    names.name = b".shstrtab"[..].into();
    names.sh_type = SHT_STRTAB;
    names.data = SectionData::SectionString;
    let mut lean = Vec::new();
    object.write(&mut lean)?;
    Ok(lean)
}

/// The workspace, two folders above this package.
fn root() -> Result<PathBuf, String> {
    let package = env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?;
    let root = Path::new(&package).ancestors().nth(2);
    Ok(root
        .ok_or("this package is not in the workspace")?
        .to_owned())
}

/// The outer cargo's target folder, which it marks with a tag: debug and release builds share one
/// build of the kernel programs there. The inner cargo locks only its own subfolder.
fn target_dir(out: &Path) -> PathBuf {
    out.ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").exists())
        .unwrap_or(out)
        .to_owned()
}
