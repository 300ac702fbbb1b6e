//! The share of the table that one client holds, by a sample: the slots from a random home on.

use super::{Memory, Meta, Role, Slot, Table, Wide, slot::place};

/// The number of slots in a sample. About half of them have a forward half, whose key begins with the client.
const SAMPLE: u32 = 32;

/// The number of slots of a sample above which the table is short. Reply halves come on top, whose slots are not judged,
/// and from two thirds of all slots on a new connection may find no place.
const SHORT: u32 = SAMPLE / 2;

/// The counts of a sample: 16 bits each for the slots whose connection stays, for those of them that are forward
/// halves, and for those of these that are the client's.
#[derive(Debug, Clone, Copy)]
struct Held(u64);

impl Held {
    const SLOT: u64 = 1;
    const FORWARD: u64 = 1 << 16;
    const CLIENTS: u64 = 1 << 32;

    #[inline(always)]
    const fn slots(self) -> u32 {
        self.0 as u32 & 0xffff
    }

    #[inline(always)]
    const fn forward(self) -> u32 {
        self.0 as u32 >> 16
    }

    #[inline(always)]
    const fn clients(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl<F: Wide, M: Memory<Family = F>> Table<'_, M> {
    /// Returns true if the table is short of room, and `client`, a [`Wide::client`], holds more than `share` percent of
    /// the connections. Judged by those in the slots from `home` on that never give way. `nothing` is 0, unknown to the
    /// verifier: see [`super::Survey::new`].
    #[inline(always)]
    pub fn is_over_share(&self, client: u64, home: u32, share: u32, nothing: u64) -> bool {
        let mut held = Held(nothing);
        for distance in 0..SAMPLE {
            let Some(slot) = self.memory.slot(home.wrapping_add(distance)) else {
                break;
            };
            let meta = Meta(slot.load(place::META));
            if !meta.is_live() || !meta.has(Meta::ASSURED) || meta.seems_over() {
                continue;
            }
            held.0 += Held::SLOT;
            if meta.role() == Role::Forward {
                held.0 += Held::FORWARD;
                if F::client(slot.load(place::ADDRESSES)) == client {
                    held.0 += Held::CLIENTS;
                }
            }
        }
        held.slots() > SHORT && held.clients() * 100 > share * held.forward()
    }
}
