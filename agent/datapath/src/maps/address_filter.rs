//! The filter of addresses, see [`FilterPlace`]: what is in is found, and of the rest nearly all is not.

use std::marker::PhantomData;

use aya::Ebpf;
use shunt_common::FilterPlace;

use crate::{
    error::DatapathError,
    maps::{family::FromIp, object_maps},
    sys::shared_array::SharedArray,
};

/// The bits of a word that are of guarded addresses.
const GUARDED: u64 = !0 << 32 & !FilterPlace::SOURCE;

/// One family's filter.
///
/// An address that has no frontends any more stays in until the next agent: a lookup more for its
/// packets.
#[derive(Debug)]
pub(crate) struct AddressFilter<F: FromIp> {
    words: SharedArray<u64>,
    family: PhantomData<F>,
}

impl<F: FromIp> AddressFilter<F> {
    /// Over the object's table.
    ///
    /// # Errors
    ///
    /// If it cannot be mapped.
    pub(crate) fn open(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        Ok(Self {
            words: object_maps::shared(ebpf, F::MAPS.addresses)?,
            family: PhantomData,
        })
    }

    /// Enters an address that is going to have a frontend.
    pub(crate) fn add_frontend(&mut self, address: &F::Address) {
        let place = FilterPlace::of(address);
        self.set(place, place.with_frontends(self.words.read(place.word)));
    }

    /// Enters an address that SNAT is going to give.
    pub(crate) fn add_source(&mut self, address: &F::Address) {
        let place = FilterPlace::of(address);
        self.set(place, place.with_source(self.words.read(place.word)));
    }

    /// Enters an address that is guarded.
    pub(crate) fn add_guarded(&mut self, address: &F::Address) {
        let place = FilterPlace::of(address);
        self.set(place, place.with_guarded(self.words.read(place.word)));
    }

    /// Makes these all that are guarded.
    pub(crate) fn set_guarded<'a>(&mut self, addresses: impl Iterator<Item = &'a F::Address>) {
        let mut after: Vec<u64> = (0..self.words.len())
            .map(|word| self.words.read(word) & !GUARDED)
            .collect();
        for address in addresses {
            let place = FilterPlace::of(address);
            if let Some(word) = after.get_mut(place.word as usize) {
                *word = place.with_guarded(*word);
            }
        }
        for (index, word) in (0..).zip(after) {
            if self.words.read(index) != word {
                self.words.store(index, word);
            }
        }
    }

    fn set(&mut self, place: FilterPlace, word: u64) {
        if self.words.read(place.word) != word {
            self.words.store(place.word, word);
        }
    }
}
