//! Constants that the loader of the programs sets.

use core::cell::UnsafeCell;

/// A value that is set before a program runs, and that no program changes.
#[repr(transparent)]
#[derive(Debug)]
pub struct Global<T>(UnsafeCell<T>);

// SAFETY: the thread that has the turn sets it, and programs read it, which run in that turn alone.
unsafe impl<T: Send> Sync for Global<T> {}

impl<T> Global<T> {
    /// With the value that stands in the source.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Returns its address.
    pub const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }
}

impl<T: Copy> Global<T> {
    /// The value.
    #[inline]
    pub fn load(&self) -> T {
        // SAFETY: the cell holds a value; who writes it has the turn, in which no program runs.
        unsafe { self.0.get().read_volatile() }
    }
}
