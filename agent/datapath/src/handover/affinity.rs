//! Session affinity of versions that remembered a client for each frontend by itself: it goes on as
//! that of the service port.

use aya::{
    Ebpf,
    maps::{HashMap, IterableMap as _, MapData, MapError},
};
use shunt_common::{Address as _, AffinityEntry, AffinityKey, Backend};

use crate::{
    error::DatapathError,
    maps::{family::FromIp, kernel_tables},
    sys::raw::Raw,
};

type Table<'a, F> = HashMap<&'a mut MapData, Raw<AffinityKey<F>>, Raw<AffinityEntry>>;

/// What becomes of the entries that others replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaced {
    /// Programs of an earlier version still use them.
    Stay,
    /// Nobody does.
    Go,
}

/// Remembers clients of frontends as clients of their service ports; of what is known of a client the
/// youngest counts. Gives how many entries of frontends there were.
///
/// # Errors
///
/// If the kernel does not read or write an entry.
pub(crate) fn carry_over<F: FromIp>(
    ebpf: &mut Ebpf,
    replaced: Replaced,
) -> Result<usize, DatapathError> {
    let name = F::MAPS.affinity.name;
    let failed = |source| DatapathError::Map { name, source };
    let backends = kernel_tables::shared::<Backend<F>>(ebpf, F::MAPS.backends)?;
    let backend = |index| (index < backends.len()).then(|| backends.read(index));
    let map = ebpf.map_mut(name).ok_or(DatapathError::Missing(name))?;
    let mut table = Table::<F>::try_from(map).map_err(failed)?;
    let earlier = of_frontends(&table).map_err(failed)?;
    for (key, entry) in &earlier {
        if let Some(new) = of_service_port(key, entry, backend) {
            let there = table.get(&Raw(new), 0).ok();
            if there.is_none_or(|Raw(there)| is_younger(entry, &there)) {
                table.insert(Raw(new), Raw(*entry), 0).map_err(failed)?;
            }
        }
        if replaced == Replaced::Go {
            // It may have made room for another one.
            kernel_tables::removed(table.remove(&Raw(*key))).map_err(failed)?;
        }
    }
    Ok(earlier.len())
}

/// The entries of frontends, which no frontend with the unspecified address has.
fn of_frontends<F: FromIp>(
    table: &Table<'_, F>,
) -> Result<Vec<(AffinityKey<F>, AffinityEntry)>, MapError> {
    let capacity = table.map().info()?.max_entries();
    // While programs write, the walk may begin again: it ends all the same.
    let entries = table.iter().take(2 * capacity as usize);
    entries
        .map(|entry| entry.map(|(Raw(key), Raw(entry))| (key, entry)))
        .filter(|entry| !matches!(entry, Ok((key, _)) if key.nobody.is_unspecified()))
        .collect()
}

/// The key by which the client is known at the service port of its backend; `None` if the backend is
/// gone.
fn of_service_port<F: FromIp>(
    key: &AffinityKey<F>,
    entry: &AffinityEntry,
    backend: impl Fn(u32) -> Option<Backend<F>>,
) -> Option<AffinityKey<F>> {
    backend(entry.backend)
        .filter(|backend| backend.generation == entry.generation)
        .map(|backend| AffinityKey::new(key.client, &backend))
}

/// Whether the entry was used later than the other one; the clock wraps around.
const fn is_younger(entry: &AffinityEntry, other: &AffinityEntry) -> bool {
    entry.last_used.wrapping_sub(other.last_used).cast_signed() > 0
}

#[cfg(test)]
mod tests {
    use shunt_common::V4;

    use super::*;

    const fn used(last_used: u32, backend: u32, generation: u16) -> AffinityEntry {
        AffinityEntry {
            backend,
            last_used,
            generation,
            padding: [0; 2],
        }
    }

    #[test]
    fn a_client_of_a_frontend_becomes_one_of_its_backends_service_port() {
        let backend = Backend::<V4> {
            address: 7,
            weight: 1,
            port: 80,
            generation: 3,
            flags: 0x1234_5607,
        };
        let at = |index| (index == 5).then_some(backend);
        let key = AffinityKey::<V4> {
            client: 9,
            nobody: 0x0100_600a,
            service_port: 0x0006_5000,
        };
        let new = AffinityKey {
            client: 9,
            nobody: 0,
            service_port: 0x1234_5600,
        };
        assert_eq!(of_service_port(&key, &used(1, 5, 3), at), Some(new));
        assert_eq!(of_service_port(&key, &used(1, 5, 2), at), None, "it left");
        assert_eq!(of_service_port(&key, &used(1, 6, 3), at), None, "none");
    }

    #[test]
    fn the_last_use_counts() {
        assert!(is_younger(&used(2, 0, 0), &used(1, 0, 0)));
        assert!(!is_younger(&used(1, 0, 0), &used(1, 0, 0)));
        assert!(is_younger(&used(1, 0, 0), &used(u32::MAX, 0, 0)));
    }
}
