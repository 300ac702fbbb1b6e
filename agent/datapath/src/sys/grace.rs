//! Waiting for the packets that are on their way through a program.

use std::{
    fmt, io,
    os::fd::{AsRawFd as _, OwnedFd},
    sync::OnceLock,
};

use bytemuck::{NoUninit, Pod, Zeroable};
use thiserror::Error;
use tracing::info;

use crate::sys::new_map::NewMap;

/// `MEMBARRIER_CMD_GLOBAL` of `linux/membarrier.h`.
const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;

/// `BPF_MAP_UPDATE_ELEM`, `BPF_MAP_TYPE_ARRAY` and `BPF_MAP_TYPE_ARRAY_OF_MAPS` of `linux/bpf.h`.
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
        let create = |kind, inner| {
            let map = NewMap {
                kind,
                key_size: 4,
                value_size: 4,
                count: 1,
                flags: 0,
                inner,
            };
            map.create()
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
        put_first(&self.outer, &self.inner)
    }
}

/// Has the first entry of a table of descriptors be this one.
fn put_first(map: &OwnedFd, entry: &OwnedFd) -> io::Result<()> {
    let key = 0u32;
    let value = entry.as_raw_fd().cast_unsigned();
    let attributes = UpdateAttributes {
        map_fd: map.as_raw_fd().cast_unsigned(),
        padding: 0,
        key: &raw const key as u64,
        value: &raw const value as u64,
        flags: 0,
    };
    bpf(BPF_MAP_UPDATE_ELEM, &attributes)
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
fn bpf(command: libc::c_long, attributes: &impl NoUninit) -> io::Result<()> {
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
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use shunt_skip::skip;

    use super::*;
    use crate::sys::{
        handwritten::{Handwritten, Kind, instruction},
        shared_words::SharedWords,
    };

    /// Of `linux/bpf.h`.
    const BPF_MAP_TYPE_PROG_ARRAY: u32 = 3;
    const BPF_F_MMAPABLE: u32 = 1 << 10;
    /// Sources of an address that is loaded: a table, or the value of an array's first entry.
    const BPF_PSEUDO_MAP_FD: u8 = 1;
    const BPF_PSEUDO_MAP_VALUE: u8 = 2;
    /// Numbers of the helpers.
    const KTIME_GET_NS: u32 = 5;
    const TAIL_CALL: u32 = 12;

    /// Rounds of a program's loop, and calls in each: the verifier follows every one.
    const ROUNDS: u32 = 10_000;
    const CALLS: usize = 16;

    /// A program that takes some hundred milliseconds. It has a word for its begin, and one for its end, which are 0
    /// until then.
    struct LongProgram {
        program: Handwritten,
        words: SharedWords,
        /// The program itself, which it calls 33 times before the kernel lets it go on
        /// (`MAX_TAIL_CALL_CNT` of `linux/bpf.h`).
        _itself: OwnedFd,
    }

    impl LongProgram {
        fn load() -> io::Result<Self> {
            let map = NewMap {
                kind: BPF_MAP_TYPE_ARRAY,
                key_size: 4,
                value_size: 16,
                count: 1,
                flags: BPF_F_MMAPABLE,
                inner: 0,
            };
            let words = map.create()?;
            let programs = NewMap {
                kind: BPF_MAP_TYPE_PROG_ARRAY,
                value_size: 4,
                flags: 0,
                ..map
            };
            let itself = programs.create()?;
            let descriptor = |map: &OwnedFd| map.as_raw_fd().cast_unsigned();
            let at = |instruction: u64, offset: i16| {
                instruction | u64::from(offset.cast_unsigned()) << 16
            };
            let begin = [
                // r6 = the context; r7 = the words; the first of them = 1; r8 = 0
                instruction(0xbf, 6, 1, 0),
                instruction(0x18, 7, BPF_PSEUDO_MAP_VALUE, descriptor(&words)),
                0,
                at(instruction(0x7a, 7, 0, 1), 0),
                instruction(0xb7, 8, 0, 0),
            ];
            let calls = [instruction(0x85, 0, 0, KTIME_GET_NS); CALLS];
            let end = [
                // r8 += 1; if r8 < ROUNDS, back to the calls
                instruction(0x07, 8, 0, 1),
                at(instruction(0xa5, 8, 0, ROUNDS), -(CALLS as i16 + 2)),
                // tail_call(r6, the programs, 0)
                instruction(0xbf, 1, 6, 0),
                instruction(0x18, 2, BPF_PSEUDO_MAP_FD, descriptor(&itself)),
                0,
                instruction(0xb7, 3, 0, 0),
                instruction(0x85, 0, 0, TAIL_CALL),
                // the second word = 1; return 0
                at(instruction(0x7a, 7, 0, 1), 8),
                instruction(0xb7, 0, 0, 0),
                instruction(0x95, 0, 0, 0),
            ];
            let code = [&begin[..], &calls, &end].concat();
            let program = Handwritten::load(Kind::Packet, &code)?;
            put_first(&itself, program.descriptor())?;
            Ok(Self {
                program,
                words: SharedWords::writable(&words, 2)?,
                _itself: itself,
            })
        }

        /// Waits while the program runs, and checks that it has ended then.
        fn check(&self, name: &str, wait: &dyn Fn() -> io::Result<()>) {
            (0..2).for_each(|word| self.words.store(word, 0));
            thread::scope(|scope| {
                let running = scope.spawn(|| self.program.run(&mut [0; 64]).unwrap());
                while self.words.load(0) == 0 && !running.is_finished() {
                    thread::yield_now();
                }
                wait().unwrap();
                assert_eq!(self.words.load(1), 1, "the program has ended: {name}");
            });
        }
    }

    #[test]
    fn a_program_that_was_running_has_ended_when_the_wait_is_over() {
        let program = match LongProgram::load() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                skip("needs root");
                return;
            }
            loaded => loaded.unwrap(),
        };
        probe().unwrap();
        program.check("as the agent waits", &wait_for_readers);
        let maps = MapInMap::new().unwrap();
        program.check("by a map in a map", &|| maps.wait());
    }

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
