//! Entering a connection: the reply half first, so that no packet goes out whose reply would not be
//! understood, and which of two connections has a tuple is decided before either is used.

use crate::{Sum, TCP, Tuple};

use super::{
    Claim, Facts, Hints, Key, Link, Memory, Meta, Role, Slot, Table, Times, Wide,
    pair::{Half, TRIES},
    slot::place,
};

/// The keys and translation of a new connection.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Connection<F: Wide> {
    /// Key of the client's packets.
    pub forward: Key<F>,
    /// Key of the backend's packets: the tuple that the client's go on with, reversed.
    pub reply: Key<F>,
    /// The backend's index.
    pub backend: u32,
    /// The service's index.
    pub service: u32,
    /// TCP: the sequence number of the SYN.
    pub sequence: u32,
    /// The backend's generation.
    pub generation: u16,
    /// [`Meta::OPENED`], if it is so.
    pub seen: u16,
}

/// The reason for which there is no new half; 0 as a number is none.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// All slots in reach have assured connections.
    Full = 1,
    /// There is one with this key, or another processor is entering one.
    Exists,
    /// Others, or this connection's own other half, have changed the home meanwhile: another try may
    /// succeed.
    Contended,
}

/// The half is the only one with its key.
const WON: u32 = 1;
/// There is another.
const EXISTS: u32 = 2;
/// Others were faster, [`TRIES`] times.
const CONTENDED: u32 = 3;

impl<F: Wide> Connection<F> {
    /// A connection whose client's packets come with the tuple `client` and go on with `translated`.
    pub fn new(client: &Tuple<F>, translated: &Tuple<F>, protocol: u8) -> Self {
        Self {
            forward: Key::new(client, protocol, Role::Forward),
            reply: Key::new(&translated.reversed(), protocol, Role::Reply),
            backend: 0,
            service: 0,
            sequence: 0,
            generation: 0,
            seen: 0,
        }
    }

    /// The client's packets as they come in.
    #[inline(always)]
    pub fn client(&self) -> Tuple<F> {
        self.forward.tuple()
    }

    /// The client's packets as they go on.
    #[inline(always)]
    pub fn translated(&self) -> Tuple<F> {
        self.reply.tuple().reversed()
    }

    /// The port that the client's packets go on from, network order.
    #[inline(always)]
    pub const fn source_port(&self) -> u16 {
        (self.reply.ports >> 16) as u16
    }

    /// Makes the client's packets go on from this port, network order.
    #[inline(always)]
    pub const fn set_source_port(&mut self, port: u16) {
        self.reply.ports = self.reply.ports & 0xffff | (port as u32) << 16;
    }

    /// Returns the initial mark of the reply half's facts.
    #[inline(always)]
    const fn mark(&self, now: u32) -> u32 {
        match self.reply.protocol() {
            TCP => self.sequence,
            _ => now,
        }
    }

    /// Returns whether the client's packets go on from its own address and port.
    #[inline(always)]
    pub fn keeps_client(&self) -> bool {
        F::is_source_of(&self.forward.addresses, &self.reply.addresses)
            && self.forward.ports as u16 == self.source_port()
    }
}

impl<F: Wide, M: Memory<Family = F>> Table<'_, M> {
    /// Enters a connection.
    ///
    /// # Errors
    ///
    /// If one of its tuples is taken, or there is no room.
    #[inline(always)]
    pub fn open(&self, new: &Connection<F>, now: u32) -> Result<(), Refused> {
        let forward = self.claim(&new.forward, now).ok_or(Refused::Full)?;
        match self.enter_reply(new, &forward, now) {
            Ok(reply) => self.enter_forward(new, &forward, &reply, now),
            Err(refused) => {
                self.give_back(&forward);
                Err(refused)
            }
        }
    }

    /// Enters the reply half of the connection whose forward half will be in the slot that is
    /// claimed: from now on the tuple is this connection's.
    ///
    /// # Errors
    ///
    /// [`Refused::Exists`] if another one has it: then another source port may be tried.
    #[inline(always)]
    pub fn enter_reply(
        &self,
        new: &Connection<F>,
        forward: &Claim<M::Slot>,
        now: u32,
    ) -> Result<Half<M::Slot>, Refused> {
        let claim = self.claim(&new.reply, now).ok_or(Refused::Full)?;
        write::<F, M::Slot>(
            claim.slot,
            &new.reply,
            &new.forward,
            Link::new(forward.index, forward.meta.version(), new.generation),
            Facts::of_reply(new.mark(now), new.service),
            now,
        );
        let pending = claim.meta.pending(
            new.forward.protocol(),
            Role::Reply,
            new.keeps_client(),
            new.seen,
        );
        self.enter(&claim, pending)
    }

    /// Enters the forward half: from now on the connection is open. If that fails, nothing of the
    /// connection is left.
    ///
    /// # Errors
    ///
    /// [`Refused::Exists`] if another CPU has opened the same flow meanwhile.
    #[inline(always)]
    pub fn enter_forward(
        &self,
        new: &Connection<F>,
        claim: &Claim<M::Slot>,
        reply: &Half<M::Slot>,
        now: u32,
    ) -> Result<(), Refused> {
        write::<F, M::Slot>(
            claim.slot,
            &new.forward,
            &new.reply,
            Link::new(reply.index, reply.meta.version(), new.generation),
            Facts::of_forward(new.backend, new.service),
            now,
        );
        let pending = claim.meta.pending(
            new.forward.protocol(),
            Role::Forward,
            new.keeps_client(),
            new.seen,
        );
        match self.enter(claim, pending) {
            Ok(_) => Ok(()),
            Err(refused) => {
                M::leave(self, reply.index, reply.meta.0);
                Err(refused)
            }
        }
    }

    /// Makes the half that has been written into a slot that is ours known, unless there is another with
    /// its key. If that fails, the slot is free.
    #[inline(always)]
    pub(super) fn enter(
        &self,
        claim: &Claim<M::Slot>,
        pending: Meta,
    ) -> Result<Half<M::Slot>, Refused> {
        let &Claim { index, slot, .. } = claim;
        slot.store(place::META, pending.0);
        let refused = match self.win(claim) {
            WON => {
                let live = pending.live();
                slot.store(place::META, live.0);
                return Ok(Half {
                    index,
                    slot,
                    meta: live,
                });
            }
            EXISTS => Refused::Exists,
            _ => Refused::Contended,
        };
        self.give_back(claim);
        Err(refused)
    }

    /// [`Self::win_here`]. In a home without hints, as nearly all are, there is no rival to look for.
    #[inline(always)]
    fn win(&self, claim: &Claim<M::Slot>) -> u32 {
        let &Claim {
            index,
            slot,
            meta,
            spilled,
        } = claim;
        if meta.distance() == 0 && !spilled {
            let before = Hints(slot.load(place::HINTS));
            if !before.is_any() && slot.exchange(place::HINTS, before.0, before.counted().0) {
                return WON;
            }
        }
        M::win(self, index, spilled)
    }

    /// Enters the pending half in this slot in its home's hints as the only one with its key. Returns
    /// one of [`WON`], [`EXISTS`], [`CONTENDED`].
    #[inline(always)]
    pub fn win_here(&self, index: u32, spilled: bool) -> u32 {
        let Some(own) = self.memory.slot(index) else {
            return CONTENDED;
        };
        let distance = Meta(own.load(place::META)).distance();
        let home = index.wrapping_sub(distance).wrapping_sub(spilled.into());
        let Some(judge) = self.memory.slot(home) else {
            return CONTENDED;
        };
        if spilled && !self.add_hint(home + 1, distance) {
            return CONTENDED;
        }
        for _ in 0..TRIES {
            let before = Hints(judge.load(place::HINTS));
            if self.has_rival(own, home, index) {
                return EXISTS;
            }
            let after = if spilled {
                before.spilled()
            } else if distance == 0 {
                before
            } else {
                match before.with(distance) {
                    Some(after) => after,
                    None => return CONTENDED,
                }
            };
            if judge.exchange(place::HINTS, before.0, after.counted().0) {
                return WON;
            }
        }
        CONTENDED
    }

    #[inline(always)]
    fn add_hint(&self, home: u32, distance: u32) -> bool {
        if distance == 0 {
            return true;
        }
        let Some(slot) = self.memory.slot(home) else {
            return false;
        };
        for _ in 0..TRIES {
            let hints = Hints(slot.load(place::HINTS));
            let Some(with) = hints.with(distance) else {
                return false;
            };
            if slot.exchange(place::HINTS, hints.0, with.0) {
                return true;
            }
        }
        false
    }
}

/// Writes a half into a slot that is ours: packets with `key` leave as those with `other` come,
/// reversed.
#[inline(always)]
pub(super) fn write<F: Wide, S: Slot>(
    slot: S,
    key: &Key<F>,
    other: &Key<F>,
    link: Link,
    facts: Facts,
    now: u32,
) {
    slot.store(place::LINK, link.0);
    slot.store(place::FACTS, facts.0);
    let leaves = other.ports.rotate_left(16);
    let ports = u64::from(key.ports) | u64::from(leaves) << 32;
    slot.store(place::PORTS, ports);
    let mut addresses = Sum::default();
    for (place, &word) in F::words(&key.addresses).iter().enumerate() {
        let translated = F::reversed(&other.addresses, place);
        slot.store(place::ADDRESSES + place, word);
        slot.store(place::ADDRESSES + F::ADDRESS_WORDS + place, translated);
        addresses = addresses
            .replace(word as u32, translated as u32)
            .replace((word >> 32) as u32, (translated >> 32) as u32);
    }
    let ports = Sum::default().replace(key.ports, leaves);
    let times = Times::new(
        now,
        bytemuck::cast(addresses.fold()),
        bytemuck::cast(ports.fold()),
    );
    slot.store(place::TIMES, times.0);
}
