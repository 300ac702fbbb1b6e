//! The keys of frontends and source ranges, listed beside the event loop.

use std::io;

use bytemuck::AnyBitPattern;
use shunt_common::{FrontendKey, SourceRange, V4, V6};

use crate::{
    maps::family::FromIp,
    object::copies::TableCopies,
    publish::read_back::{
        key::LiveKey,
        sources::{SourceRanges, Sources, source_ranges},
    },
};

impl TableCopies {
    /// Lists the frontends of both families from any writer, in no order. What changes meanwhile may be there or not.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn frontends(&self) -> io::Result<Vec<LiveKey>> {
        let mut all = frontends::<V4>(self)?;
        all.extend(frontends::<V6>(self)?);
        Ok(all)
    }

    /// Lists the source ranges of both families. What changes meanwhile may be there as it was, or as it is.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn source_ranges(&self) -> io::Result<SourceRanges> {
        Ok(SourceRanges {
            v4: ranges(self)?,
            v6: ranges(self)?,
        })
    }
}

fn frontends<F: FromIp>(copies: &TableCopies) -> io::Result<Vec<LiveKey>> {
    let bytes = copies.keys(F::MAPS.frontends.name)?;
    let keys = entries::<FrontendKey<F>>(&bytes);
    let own = keys.filter(|key| key.scope == FrontendKey::<F>::EVERYONE);
    Ok(own.map(|key| LiveKey::of(&key)).collect())
}

fn ranges<F: FromIp>(copies: &TableCopies) -> io::Result<Sources<F>> {
    let bytes = copies.keys(F::MAPS.source_ranges.name)?;
    // As `struct bpf_lpm_trie_key` of `linux/bpf.h`: the prefix length, then the data.
    let size = size_of::<u32>() + size_of::<SourceRange<F>>();
    let split = bytes
        .chunks_exact(size)
        .map(|entry| entry.split_at(size_of::<u32>()));
    let read = split.map(|(bits, range)| {
        let bits: u32 = bytemuck::pod_read_unaligned(bits);
        (bits, bytemuck::pod_read_unaligned(range))
    });
    Ok(source_ranges(read))
}

/// The entries that stand one right after the other.
fn entries<T: AnyBitPattern>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes
        .chunks_exact(size_of::<T>())
        .map(bytemuck::pod_read_unaligned)
}
