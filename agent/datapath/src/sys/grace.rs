//! Waiting for the packets that are on their way through a program.

use std::{
    fmt, io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    sync::OnceLock,
};

use bytemuck::{NoUninit, Pod, Zeroable};
use thiserror::Error;
use tracing::info;

/// `MEMBARRIER_CMD_GLOBAL` of `linux/membarrier.h`.
const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;

/// `BPF_MAP_CREATE`, `BPF_MAP_UPDATE_ELEM`, `BPF_MAP_TYPE_ARRAY` and `BPF_MAP_TYPE_ARRAY_OF_MAPS`
/// of `linux/bpf.h`.
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_ARRAY_OF_MAPS: u32 = 12;

/// Way in which this kernel waits; found out once.
static WAY: OnceLock<Way> = OnceLock::new();

/// There is no way to wait.
#[derive(Debug, Error)]
#[error(
    "this kernel offers no way to wait for packets in flight, so nothing in the tables could ever \
     be replaced: membarrier(2) failed ({membarrier}), and so did the update of a map in a map \
     ({map_in_map})"
)]
pub struct GraceError {
    membarrier: io::Error,
    map_in_map: io::Error,
}

/// A system call that waits for an RCU grace period.
#[derive(Debug)]
enum Way {
    /// `membarrier(2)` with `MEMBARRIER_CMD_GLOBAL`: it waits and does nothing else. A kernel with
    /// CPUs that have no tick (`nohz_full=`) refuses it with `EINVAL`, since it would not reach
    /// what runs there in user space (`kernel/sched/membarrier.c`).
    Membarrier,
    /// Replacing a map in an array of maps. The call returns after every program has ended that
    /// could see the old one (`maybe_wait_bpf_programs` in `kernel/bpf/syscall.c`, Linux 4.20),
    /// and waits in no other way than the kernel itself does: also for CPUs without a tick.
    MapInMap(MapInMap),
}

impl Way {
    /// The first that works here, having waited once.
    fn find(membarrier: impl FnOnce() -> io::Result<()>) -> Result<Self, GraceError> {
        let Err(refused) = membarrier() else {
            return Ok(Self::Membarrier);
        };
        let map_in_map = MapInMap::new().and_then(|maps| maps.wait().map(|()| maps));
        match map_in_map {
            Ok(maps) => {
                info!(
                    error = %refused,
                    "membarrier(2) is not to be had: packets in flight are waited for by updates \
                     of a map in a map"
                );
                Ok(Self::MapInMap(maps))
            }
            Err(map_in_map) => Err(GraceError {
                membarrier: refused,
                map_in_map,
            }),
        }
    }

    fn wait(&self) -> io::Result<()> {
        match self {
            Self::Membarrier => membarrier(),
            Self::MapInMap(maps) => maps.wait(),
        }
    }
}

/// Finds out how this kernel waits.
///
/// # Errors
///
/// If it does not.
pub(crate) fn probe() -> Result<(), GraceError> {
    if WAY.get().is_none() {
        // Another thread may have been faster, with the same result.
        drop(WAY.set(Way::find(membarrier)?));
    }
    Ok(())
}

/// Returns after every program that was running has ended.
///
/// Programs run inside RCU read-side sections, and the call waits for an RCU grace period. It takes
/// milliseconds, so one call serves a whole batch.
pub(crate) fn wait_for_readers() -> io::Result<()> {
    if let Some(way) = WAY.get() {
        return way.wait();
    }
    // Finding out is waiting.
    probe().map_err(io::Error::other)
}

fn membarrier() -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// An array of one map, and that map.
struct MapInMap {
    outer: OwnedFd,
    inner: OwnedFd,
}

/// The part of `union bpf_attr` that `BPF_MAP_CREATE` needs.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CreateAttributes {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
}

/// The part of `union bpf_attr` that `BPF_MAP_UPDATE_ELEM` uses.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct UpdateAttributes {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl MapInMap {
    fn new() -> io::Result<Self> {
        let create = |map_type, inner_map_fd| {
            let created = bpf(
                BPF_MAP_CREATE,
                &CreateAttributes {
                    map_type,
                    key_size: 4,
                    value_size: 4,
                    max_entries: 1,
                    map_flags: 0,
                    inner_map_fd,
                },
            )?;
            // SAFETY: the call returns a file descriptor that has no other owner.
            Ok::<_, io::Error>(unsafe { OwnedFd::from_raw_fd(created) })
        };
        let inner = create(BPF_MAP_TYPE_ARRAY, 0)?;
        let outer = create(
            BPF_MAP_TYPE_ARRAY_OF_MAPS,
            inner.as_raw_fd().cast_unsigned(),
        )?;
        Ok(Self { outer, inner })
    }

    /// Replaces the inner map by itself, and so waits.
    fn wait(&self) -> io::Result<()> {
        let key = 0u32;
        let value = self.inner.as_raw_fd().cast_unsigned();
        let attributes = UpdateAttributes {
            map_fd: self.outer.as_raw_fd().cast_unsigned(),
            padding: 0,
            key: &raw const key as u64,
            value: &raw const value as u64,
            flags: 0,
        };
        bpf(BPF_MAP_UPDATE_ELEM, &attributes).map(drop)
    }
}

impl fmt::Debug for MapInMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outer, inner } = self;
        f.debug_struct("MapInMap")
            .field("outer", outer)
            .field("inner", inner)
            .finish()
    }
}

/// Calls `bpf(2)`. The addresses in `attributes` are those of live values of the map's sizes.
fn bpf(command: libc::c_long, attributes: &impl NoUninit) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads the attributes, and what they point to as described above.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            &raw const *attributes,
            size_of_val(attributes),
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        // A file descriptor, or 0.
        Ok(result as libc::c_int)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }

    #[test]
    fn this_kernel_can_wait_for_readers() {
        wait_for_readers().unwrap();
    }

    #[test]
    fn without_membarrier_a_map_in_a_map_is_updated() {
        match Way::find(refused) {
            Ok(way) => {
                assert!(matches!(way, Way::MapInMap(_)), "{way:?}");
                way.wait().unwrap();
            }
            // bpf(2) is for root.
            Err(error) => assert_eq!(
                error.map_in_map.kind(),
                io::ErrorKind::PermissionDenied,
                "{error}"
            ),
        }
    }

    #[test]
    fn a_kernel_that_cannot_wait_is_named_with_both_reasons() {
        let error = GraceError {
            membarrier: refused().unwrap_err(),
            map_in_map: io::ErrorKind::PermissionDenied.into(),
        };
        let text = error.to_string();
        assert!(
            text.contains("membarrier(2) failed (Invalid argument"),
            "{text}"
        );
        assert!(text.contains("map in a map (permission denied)"), "{text}");
    }
}
