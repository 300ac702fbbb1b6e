//! The choice by a Maglev table: it follows from the packet, and is the same on every node.

use shunt_common::{
    Cell, Tuple, V4, V6,
    connections::Key,
    maglev::{Header, client_number, number},
};

use crate::{lb::key, maps::tables::Tables};

/// A family with the subprogram that looks a connection up in a table.
pub(crate) trait Maglev: Tables {
    /// The slot of the backend that the client's packets with this key get, through a frontend with
    /// this cell.
    fn slot_of(key: &Key<Self>, cell: Cell) -> Option<u32>;
}

/// The slot of the backend that packets with this tuple get, in their original direction, through a frontend
/// with this cell.
#[inline(always)]
pub(crate) fn slot_for<F: Maglev>(tuple: &Tuple<F>, protocol: u8, cell: Cell) -> Option<u32> {
    F::slot_of(key::make(tuple, protocol)?, cell)
}

/// The slot of the backend that the number stands for in the table of the cell's slice. The number
/// depends on whether clients stay with their backends.
#[inline(always)]
pub(crate) fn slot_by<F: Tables>(cell: Cell, number: impl FnOnce(bool) -> u32) -> Option<u32> {
    let header = Header::of(F::slots().get(cell.offset() + cell.count())?);
    let (slot, byte) = header.locate(number(header.affinity > 0));
    let position = header.position(F::slots().get(slot)?, byte);
    // Whatever is in the table, the choice stays with the frontend's own backends.
    (position < cell.count()).then(|| cell.offset() + position)
}

#[inline(always)]
fn slot_of<F: Tables>(key: &Key<F>, cell: Cell) -> Option<u32> {
    slot_by::<F>(cell, |stays| {
        if stays {
            let (client, _) = F::unpack(&key.addresses);
            client_number::<F>(client)
        } else {
            number(key)
        }
    })
}

/// Value that the subprogram returns if there is no slot.
const NONE: u64 = u64::MAX;

/// Makes a family's subprogram, which the verifier looks at by itself.
macro_rules! maglev {
    ($family:ty: $slot_of:ident) => {
        impl Maglev for $family {
            #[inline(always)]
            fn slot_of(key: &Key<Self>, cell: Cell) -> Option<u32> {
                match $slot_of(key, cell.word()) {
                    NONE => None,
                    slot => Some(slot as u32),
                }
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $slot_of(key: *const Key<$family>, cell: u64) -> u64 {
            // SAFETY: null, or the reference that the only caller has.
            let slot = match unsafe { key.as_ref() } {
                Some(key) => slot_of(key, Cell::from_word(cell)),
                None => None,
            };
            slot.map_or(NONE, u64::from)
        }
    };
}

maglev!(V4: maglev_v4);
maglev!(V6: maglev_v6);
