//! Layouts of `shunt-common` on their way through aya.

use bytemuck::Pod;

/// A layout as aya takes keys, values and globals.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Raw<T>(pub T);

// SAFETY: `bytemuck::Pod` promises all that `aya::Pod` asks for, and `Raw` is transparent.
unsafe impl<T: Pod> aya::Pod for Raw<T> {}
