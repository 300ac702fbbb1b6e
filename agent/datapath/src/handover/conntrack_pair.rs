//! The conntrack tables of one family: that of the version before, and ours.

use std::{collections::VecDeque, io, os::fd::AsFd as _};

use aya::{
    Ebpf,
    maps::{HashMap, IterableMap as _, Map, MapData, MapError},
};
use bytemuck::Zeroable as _;
use shunt_common::{ConntrackEntry, ConntrackKey, Family, previous, registry::handover};

use crate::{
    error::DatapathError,
    handover::reconcile::{Entry, Source, Target},
    maps::{family::FromIp, kernel_tables},
    pins::{directory::Pins, error::PinError},
    sys::{batch::BatchReader, raw::Raw},
};

/// Of `linux/bpf.h`: only if there is none.
const BPF_NOEXIST: u64 = 1;

/// The table of the version before.
#[derive(Debug)]
pub(crate) struct Before<F: Family>(
    HashMap<MapData, Raw<ConntrackKey<F>>, Raw<previous::ConntrackEntry<F>>>,
);

/// Our table.
#[derive(Debug)]
pub(crate) struct Ours<F: Family>(HashMap<MapData, Raw<ConntrackKey<F>>, Raw<ConntrackEntry<F>>>);

/// Opens both tables, beside those who use ours.
pub(crate) fn open<F: FromIp>(
    ebpf: &mut Ebpf,
    pins: &Pins,
    maps: handover::FamilyMaps,
) -> Result<(Before<F>, Ours<F>), DatapathError> {
    let before = kernel_tables::take(ebpf, maps.previous)?;
    let path = pins.map(F::MAPS.conntrack.pin);
    let ours = MapData::from_pin(&path).map_err(PinError::object("opening the table", &path))?;
    let name = F::MAPS.conntrack.name;
    let ours = HashMap::try_from(Map::HashMap(ours))
        .map_err(|source| DatapathError::Map { name, source })?;
    Ok((Before(before), Ours(ours)))
}

impl<F: Family> Entry for ConntrackEntry<F> {
    fn is_of(&self, other: &Self) -> bool {
        Self::is_of(self, other)
    }

    fn absorb(&mut self, other: &Self) -> bool {
        Self::absorb(self, other)
    }
}

/// What an entry of the version before becomes.
fn converted<F: Family>(before: &previous::ConntrackEntry<F>) -> ConntrackEntry<F> {
    let mut entry = ConntrackEntry::zeroed();
    entry.set_from(before);
    entry
}

impl<F: Family> Source for Before<F> {
    type Key = ConntrackKey<F>;
    type Entry = ConntrackEntry<F>;

    fn entries(&self) -> impl Iterator<Item = io::Result<(Self::Key, Self::Entry)>> {
        let mut reader = BatchReader::<ConntrackKey<F>, previous::ConntrackEntry<F>>::new();
        let mut piece = VecDeque::new();
        let mut is_last = false;
        std::iter::from_fn(move || {
            while piece.is_empty() && !is_last {
                match reader.next_piece(self.0.map().fd().as_fd()) {
                    Ok((keys, entries, last)) => {
                        piece.extend(keys.iter().copied().zip(entries.iter().map(converted)));
                        is_last = last;
                    }
                    Err(error) => {
                        is_last = true;
                        return Some(Err(error));
                    }
                }
            }
            piece.pop_front().map(Ok)
        })
    }

    fn get(&self, key: &Self::Key) -> io::Result<Option<Self::Entry>> {
        match self.0.get(&Raw(*key), 0) {
            Ok(Raw(entry)) => Ok(Some(converted(&entry))),
            Err(error) => absent(error).map(|()| None),
        }
    }
}

impl<F: Family> Target<ConntrackKey<F>, ConntrackEntry<F>> for Ours<F> {
    fn keys(&self) -> io::Result<Vec<ConntrackKey<F>>> {
        let mut reader = BatchReader::<ConntrackKey<F>, ConntrackEntry<F>>::new();
        let mut all = Vec::new();
        loop {
            let (keys, _, last) = reader.next_piece(self.0.map().fd().as_fd())?;
            all.extend_from_slice(keys);
            if last {
                return Ok(all);
            }
        }
    }

    fn get(&self, key: &ConntrackKey<F>) -> io::Result<Option<ConntrackEntry<F>>> {
        match self.0.get(&Raw(*key), 0) {
            Ok(Raw(entry)) => Ok(Some(entry)),
            Err(error) => absent(error).map(|()| None),
        }
    }

    fn insert(&mut self, key: &ConntrackKey<F>, entry: &ConntrackEntry<F>) -> io::Result<bool> {
        match self.0.insert(Raw(*key), Raw(*entry), BPF_NOEXIST) {
            Ok(()) => Ok(true),
            Err(MapError::SyscallError(error))
                if error.io_error.kind() == io::ErrorKind::AlreadyExists =>
            {
                Ok(false)
            }
            Err(error) => Err(failure(error)),
        }
    }

    fn replace(&mut self, key: &ConntrackKey<F>, entry: &ConntrackEntry<F>) -> io::Result<()> {
        self.0.insert(Raw(*key), Raw(*entry), 0).map_err(failure)
    }

    fn remove(&mut self, key: &ConntrackKey<F>) -> io::Result<()> {
        match self.0.remove(&Raw(*key)) {
            Ok(()) => Ok(()),
            Err(error) => absent(error),
        }
    }
}

/// An entry that is not there is no error.
fn absent(error: MapError) -> io::Result<()> {
    match error {
        MapError::KeyNotFound => Ok(()),
        MapError::SyscallError(error) if error.io_error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => Err(failure(other)),
    }
}

fn failure(error: MapError) -> io::Error {
    match error {
        MapError::SyscallError(error) => error.io_error,
        other => io::Error::other(other),
    }
}
