//! Copies of the contents of an object's tables, read while others write there.

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use aya::{
    Ebpf,
    maps::{Map, MapData, MapType},
};
use shunt_common::{InterfaceRole, registry};

use crate::{
    object::constants::Constants,
    sys::{
        batch::{self, EntrySize},
        shared_words::SharedWords,
    },
};

/// The tables of an object, to be copied while others write there.
#[derive(Debug)]
pub struct TableCopies {
    tables: Vec<Readable>,
    constants: Vec<(&'static str, Box<[u8]>)>,
}

/// A table that can be read.
#[derive(Debug)]
struct Readable {
    name: &'static str,
    form: Form,
    size: EntrySize,
    count: u32,
    descriptor: OwnedFd,
}

/// Way in which a table is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// An array that can be mapped.
    Memory,
    Array,
    Other,
}

/// A flag of a map (`linux/bpf.h`): its values can be mapped.
const BPF_F_MMAPABLE: u32 = aya_obj::generated::BPF_F_MMAPABLE;

/// A table as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableCopy {
    /// Its name.
    pub name: &'static str,
    /// Number of entries that it has room for.
    pub count: u32,
    /// Number of bytes of a key.
    pub key_size: usize,
    /// Number of bytes of a value.
    pub value_size: usize,
    /// Its contents.
    pub contents: Contents,
}

impl TableCopies {
    /// Of an object whose maps have not been taken out yet.
    ///
    /// # Errors
    ///
    /// If the kernel does not describe one of its maps, or we may have no more files.
    pub(crate) fn of(ebpf: &Ebpf, constants: &Constants) -> io::Result<Self> {
        let mut tables = Vec::new();
        for map in registry::maps() {
            let Some(data) = ebpf.map(map.name).and_then(data) else {
                continue;
            };
            let info = data.info().map_err(io::Error::other)?;
            tables.push(Readable {
                name: map.name,
                form: match info.map_type() {
                    Ok(MapType::Array) if info.map_flags() & BPF_F_MMAPABLE != 0 => Form::Memory,
                    Ok(MapType::Array) => Form::Array,
                    _ => Form::Other,
                },
                size: EntrySize {
                    key: info.key_size() as usize,
                    value: info.value_size() as usize,
                },
                count: info.max_entries(),
                descriptor: data.fd().as_fd().try_clone_to_owned()?,
            });
        }
        let constants = constants.values().into_iter();
        Ok(Self {
            tables,
            constants: constants
                .map(|(name, value)| (name, value.into()))
                .collect(),
        })
    }

    /// Returns the number of entries that the table of this name has room for; 0 if there is none.
    pub(crate) fn room(&self, name: &str) -> u32 {
        let mut tables = self.tables.iter();
        let found = tables.find(|table| table.name == name);
        found.map_or(0, |table| table.count)
    }

    /// Each constant by its name, as the programs hold it.
    pub fn constants(&self) -> &[(&'static str, Box<[u8]>)] {
        &self.constants
    }

    /// The names of the tables, each at its number.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.tables.iter().map(|table| table.name)
    }

    /// The name of the table with this number, of those from 0 on; `None` if there are no more.
    pub fn name(&self, number: usize) -> Option<&'static str> {
        self.tables.get(number).map(|table| table.name)
    }

    /// Returns the indexes of the interfaces that have the programs, as these know it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn attached(&self) -> io::Result<BTreeSet<u32>> {
        let keys = self.keys(registry::INTERFACES.name)?;
        let roles = keys.chunks_exact(size_of::<InterfaceRole>());
        let attached = roles.filter_map(|key| {
            let role: InterfaceRole = bytemuck::try_pod_read_unaligned(key).ok()?;
            (role == InterfaceRole::attached(role.interface)).then_some(role.interface)
        });
        Ok(attached.collect())
    }

    /// Returns the keys of the table of this name, one right after the other; nothing if there is no such table. An
    /// entry that comes or goes meanwhile may be there or not.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn keys(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut tables = self.tables.iter();
        let Some(table) = tables.find(|table| table.name == name) else {
            return Ok(Vec::new());
        };
        let (keys, _) = batch::read(table.descriptor.as_fd(), table.size, table.count as usize)?;
        Ok(keys)
    }

    /// Copies the table with this number; `None` if there is none. What changes meanwhile may be there as
    /// it was, or as it is.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn copy(&self, number: usize) -> Option<io::Result<TableCopy>> {
        let Readable {
            name,
            form,
            size,
            count,
            descriptor,
        } = self.tables.get(number)?;
        let contents = Contents::read(descriptor.as_fd(), *size, *count, *form);
        Some(contents.map(|contents| TableCopy {
            name,
            count: *count,
            key_size: size.key,
            value_size: size.value,
            contents,
        }))
    }
}

/// The map's, if it is of a kind that has the same entries for every processor and every socket.
const fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data) | Map::HashMap(data) | Map::LruHashMap(data) | Map::LpmTrie(data) => {
            Some(data)
        }
        _ => None,
    }
}

/// Contents of a table of the kernel's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// The values of an array, one right after the other.
    Values(Vec<u8>),
    /// The keys and the values of another table.
    Entries(Vec<(Vec<u8>, Vec<u8>)>),
}

impl Contents {
    /// Reads a table. What changes meanwhile may be there as it was, or as it is.
    fn read(map: BorrowedFd<'_>, size: EntrySize, count: u32, form: Form) -> io::Result<Self> {
        if form == Form::Memory {
            return Self::of_memory(map, size.value, count as usize);
        }
        let (keys, values) = batch::read(map, size, count as usize)?;
        if form == Form::Array {
            return Ok(Self::Values(values));
        }
        let keys = keys.chunks(size.key).map(<[u8]>::to_vec);
        let values = values.chunks(size.value).map(<[u8]>::to_vec);
        Ok(Self::Entries(keys.zip(values).collect()))
    }

    /// Reads an array that can be mapped: the kernel's own batches read an array entry by entry.
    fn of_memory(map: BorrowedFd<'_>, size: usize, count: usize) -> io::Result<Self> {
        // The kernel rounds every value up to words (`array_map_alloc` in `kernel/bpf/arraymap.c`).
        let words = size.div_ceil(size_of::<u64>());
        let memory = SharedWords::read_only(map, count * words)?;
        let mut values = Vec::with_capacity(count * size);
        let mut value = vec![0_u64; words];
        for entry in 0..count {
            for (number, word) in value.iter_mut().enumerate() {
                *word = memory.load(entry * words + number);
            }
            values.extend_from_slice(&bytemuck::cast_slice(&value)[..size]);
        }
        Ok(Self::Values(values))
    }
}
