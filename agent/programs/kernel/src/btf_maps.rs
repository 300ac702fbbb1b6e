//! Tables, by the names and with the methods that programs use.

pub mod lpm_trie;

use core::{borrow::Borrow, ffi::c_void, marker::PhantomData};

use crate::{
    bindings::{BPF_EXIST, BPF_NOEXIST},
    table::{Entry, Misfit, Row, Shelf, Table, words_of},
    world::note_lookup,
};

pub use lpm_trie::LpmTrie;

/// `EEXIST` and `ENOENT` of `asm-generic/errno-base.h`, as the kernel returns them.
const EXISTS: i32 = -17;
const NO_ENTRY: i32 = -2;

/// The bytes of a value without padding.
pub(crate) fn bytes<T>(value: &T) -> &[u8] {
    // SAFETY: what programs use as keys and values has no padding: the kernel would see it, too.
    unsafe { core::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) }
}

fn index(key: &[u8]) -> Option<usize> {
    let key = key.try_into().ok()?;
    Some(u32::from_ne_bytes(key) as usize)
}

/// Defines a table whose keys are numbers.
macro_rules! array {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Debug)]
        pub struct $name<T, const MAX_ENTRIES: usize, const FLAGS: usize = 0> {
            row: Row,
            of: PhantomData<*mut T>,
        }

        // SAFETY: one thread at a time has the turn.
        unsafe impl<T, const N: usize, const F: usize> Sync for $name<T, N, F> {}

        impl<T, const N: usize, const F: usize> $name<T, N, F> {
            /// With nothing but zeros.
            #[expect(clippy::new_without_default, reason = "programs have statics of it")]
            pub const fn new() -> Self {
                Self {
                    row: Row::new(N, size_of::<T>()),
                    of: PhantomData,
                }
            }

            /// The value at `index`.
            #[inline]
            pub fn get(&self, index: u32) -> Option<&T> {
                // SAFETY: a value of zeros, or one that a program or its loader has put there.
                self.get_ptr(index).map(|value| unsafe { &*value })
            }

            /// Returns its address.
            #[inline]
            pub fn get_ptr(&self, index: u32) -> Option<*const T> {
                self.get_ptr_mut(index).map(<*mut T>::cast_const)
            }

            /// The same, for writing.
            #[inline]
            pub fn get_ptr_mut(&self, index: u32) -> Option<*mut T> {
                let found = self.row.at(index as usize);
                note_lookup((&raw const *self).cast(), &index.to_ne_bytes(), found.is_some());
                found.map(<*mut u64>::cast)
            }
        }

        impl<T, const N: usize, const F: usize> Table for $name<T, N, F> {
            fn key_size(&self) -> usize {
                size_of::<u32>()
            }

            fn value_size(&self) -> usize {
                self.row.size()
            }

            fn clear(&self) {
                self.row.clear();
            }

            fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Misfit> {
                let misfit = Misfit {
                    wanted: size_of::<u32>(),
                    given: key.len(),
                };
                self.row.put(index(key).ok_or(misfit)?, value)
            }

            fn put_all(&self, values: &[u8]) -> Result<(), Misfit> {
                self.row.put_all(values)
            }

            fn resize(&self, count: usize) -> Result<(), Misfit> {
                self.row.resize(count);
                Ok(())
            }

            fn value(&self, key: &[u8]) -> Option<Box<[u8]>> {
                self.row.value(index(key)?)
            }

            fn entries(&self) -> Vec<Entry> {
                self.row.entries()
            }
        }
    };
}

array!(
    /// A table whose keys are numbers.
    Array
);
array!(
    /// A table whose keys are numbers, of which each processor has its own. There is one here.
    PerCpuArray
);

/// Defines a table with keys of any kind.
macro_rules! hash {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Debug)]
        pub struct $name<K, V, const MAX_ENTRIES: usize, const FLAGS: usize = 0> {
            shelf: Shelf,
            of: PhantomData<*mut (K, V)>,
        }

        // SAFETY: one thread at a time has the turn.
        unsafe impl<K, V, const N: usize, const F: usize> Sync for $name<K, V, N, F> {}

        impl<K, V, const N: usize, const F: usize> $name<K, V, N, F> {
            /// With nothing in it.
            #[expect(clippy::new_without_default, reason = "programs have statics of it")]
            pub const fn new() -> Self {
                Self {
                    shelf: Shelf::new(size_of::<K>(), size_of::<V>()),
                    of: PhantomData,
                }
            }

            /// The value at a key.
            ///
            /// # Safety
            ///
            /// It is not taken out while the reference lives.
            #[inline]
            pub unsafe fn get(&self, key: impl Borrow<K>) -> Option<&V> {
                // SAFETY: as the caller guarantees.
                self.get_ptr_mut(key).map(|value| unsafe { &*value })
            }

            /// Returns its address, for writing.
            #[inline]
            pub fn get_ptr_mut(&self, key: impl Borrow<K>) -> Option<*mut V> {
                let key = bytes(key.borrow());
                let found = self.shelf.at(key);
                note_lookup((&raw const *self).cast(), key, found.is_some());
                found.map(<*mut u64>::cast)
            }

            /// Puts a value at a key.
            ///
            /// # Errors
            ///
            /// As `bpf_map_update_elem` returns them: the flags want one there that is not, or none.
            pub fn insert(
                &self,
                key: impl Borrow<K>,
                value: impl Borrow<V>,
                flags: u64,
            ) -> Result<(), i32> {
                let (key, value) = (bytes(key.borrow()), bytes(value.borrow()));
                let is_there = self.shelf.at(key).is_some();
                if is_there && flags == u64::from(BPF_NOEXIST) {
                    return Err(EXISTS);
                }
                if !is_there && flags == u64::from(BPF_EXIST) {
                    return Err(NO_ENTRY);
                }
                self.shelf.put(key, value).map_err(|_| NO_ENTRY)
            }

            /// Takes the value at a key out.
            ///
            /// # Errors
            ///
            /// As `bpf_map_delete_elem` returns them: there is none.
            pub fn remove(&self, key: impl Borrow<K>) -> Result<(), i32> {
                let gone = self.shelf.values().remove(bytes(key.borrow()));
                gone.map(drop).ok_or(NO_ENTRY)
            }
        }

        impl<K, V, const N: usize, const F: usize> Table for $name<K, V, N, F> {
            fn key_size(&self) -> usize {
                self.shelf.key()
            }

            fn value_size(&self) -> usize {
                self.shelf.size()
            }

            fn clear(&self) {
                self.shelf.values().clear();
            }

            fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Misfit> {
                self.shelf.put(key, value)
            }

            fn put_all(&self, values: &[u8]) -> Result<(), Misfit> {
                Err(Misfit {
                    wanted: 0,
                    given: values.len(),
                })
            }

            fn resize(&self, count: usize) -> Result<(), Misfit> {
                Err(Misfit {
                    wanted: 0,
                    given: count,
                })
            }

            fn value(&self, key: &[u8]) -> Option<Box<[u8]>> {
                self.shelf.value(key)
            }

            fn entries(&self) -> Vec<Entry> {
                self.shelf.entries()
            }
        }
    };
}

hash!(
    /// A hash.
    HashMap
);
hash!(
    /// A hash whose entries make room for others; here there always is some.
    LruHashMap
);

/// The storage of sockets: a table whose keys are sockets.
#[repr(C)]
#[derive(Debug)]
pub struct SkStorage<T> {
    shelf: Shelf,
    of: PhantomData<*mut T>,
}

// SAFETY: one thread at a time has the turn.
unsafe impl<T> Sync for SkStorage<T> {}

impl<T> SkStorage<T> {
    /// With nothing in it.
    #[expect(clippy::new_without_default, reason = "programs have statics of it")]
    pub const fn new() -> Self {
        Self {
            shelf: Shelf::new(size_of::<usize>(), size_of::<T>()),
            of: PhantomData,
        }
    }

    /// Takes everything out.
    pub fn clear(&self) {
        self.shelf.values().clear();
    }

    /// Returns the value of the socket at this address.
    pub fn value(&self, socket: usize) -> Option<Box<[u8]>> {
        self.shelf.value(&socket.to_ne_bytes())
    }

    /// Has the socket at this address have these bytes.
    ///
    /// # Errors
    ///
    /// A value has another size.
    pub fn put(&self, socket: usize, value: &[u8]) -> Result<(), Misfit> {
        self.shelf.put(&socket.to_ne_bytes(), value)
    }
}

/// Returns the value of a socket in the table at `table`; with `creates`, zeros if there was none.
///
/// # Safety
///
/// A [`SkStorage`] is there.
pub(crate) unsafe fn storage(
    table: *const c_void,
    socket: *const c_void,
    creates: bool,
) -> *mut c_void {
    // SAFETY: as the caller guarantees; the shelf is the structure's first field.
    let shelf = unsafe { &*table.cast::<Shelf>() };
    let key = (socket as usize).to_ne_bytes();
    if creates {
        let blank = || vec![0; words_of(shelf.size())].into_boxed_slice();
        shelf.values().entry(key.into()).or_insert_with(blank);
    }
    shelf
        .at(&key)
        .map_or(core::ptr::null_mut(), <*mut u64>::cast)
}

/// A ring without room for any record: it has no reader here.
#[derive(Debug)]
pub struct RingBuf<T, const MAX_ENTRIES: usize, const FLAGS: usize = 0>(PhantomData<fn() -> T>);

impl<T, const N: usize, const F: usize> RingBuf<T, N, F> {
    /// The ring.
    #[expect(clippy::new_without_default, reason = "programs have statics of it")]
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// Room for a record: none.
    pub const fn reserve_untyped<U: 'static>(&self, _flags: u64) -> Option<RingBufEntry<U>> {
        None
    }
}

/// Room for a record, of which there is none.
#[derive(Debug)]
pub struct RingBufEntry<T>(core::convert::Infallible, PhantomData<T>);

impl<T> RingBufEntry<T> {
    /// Returns its address.
    pub const fn as_mut_ptr(&mut self) -> *mut T {
        match self.0 {}
    }

    /// The record is there.
    pub fn submit(self, _flags: u64) {
        match self.0 {}
    }
}
