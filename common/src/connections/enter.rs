//! Entering a connection: the reply half first, so that no packet goes out whose reply would not be
//! understood, and which of two connections has a tuple is decided before either is used.

use crate::Tuple;

use super::{
    Claim, Facts, Hints, Key, Link, Memory, Meta, Role, Slot, Table, Times, Wide,
    pair::{Half, TRIES},
    slot::place,
};

/// What a new connection has.
#[derive(Debug, Clone, Copy)]
pub struct Connection<F: Wide> {
    /// The client's packets as they come in.
    pub client: Tuple<F>,
    /// The client's packets as they go on.
    pub translated: Tuple<F>,
    /// IANA number.
    pub protocol: u8,
    /// [`Meta::OPENED`], if it is so.
    pub seen: u16,
    /// The backend's generation.
    pub generation: u16,
    /// The backend's index.
    pub backend: u32,
    /// The service's index.
    pub service: u32,
}

/// Why there is no new half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// All slots in reach have assured connections.
    Full,
    /// There is one with this key, or somebody is entering one.
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
    /// What the client's packets are found by.
    #[inline(always)]
    pub fn forward_key(&self) -> Key<F> {
        Key::new(&self.client, self.protocol, Role::Forward)
    }

    /// What the backend's packets are found by.
    #[inline(always)]
    pub fn reply_key(&self) -> Key<F> {
        Key::new(&self.translated.reversed(), self.protocol, Role::Reply)
    }

    #[inline(always)]
    pub(super) fn keeps_client(&self) -> bool {
        self.translated.source == self.client.source
            && self.translated.source_port == self.client.source_port
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
        let forward = self.claim(&new.forward_key(), now).ok_or(Refused::Full)?;
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
        let key = new.reply_key();
        let claim = self.claim(&key, now).ok_or(Refused::Full)?;
        let leaves = new.client.reversed();
        write::<F, M::Slot>(
            claim.slot,
            &key,
            &leaves,
            Link::new(forward.index, forward.meta.version(), new.generation),
            Facts::of_reply(now, new.service),
            now,
        );
        let pending = claim
            .meta
            .pending(new.protocol, Role::Reply, new.keeps_client(), new.seen);
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
        let key = new.forward_key();
        write::<F, M::Slot>(
            claim.slot,
            &key,
            &new.translated,
            Link::new(reply.index, reply.meta.version(), new.generation),
            Facts::of_forward(new.backend, new.service),
            now,
        );
        let pending = claim
            .meta
            .pending(new.protocol, Role::Forward, new.keeps_client(), new.seen);
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
    fn enter(&self, claim: &Claim<M::Slot>, pending: Meta) -> Result<Half<M::Slot>, Refused> {
        let &Claim {
            index,
            slot,
            meta: _,
            home,
            spilled,
        } = claim;
        slot.store(place::META, pending.0);
        let refused = match M::win(self, index, home, spilled) {
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

    /// Enters the pending half in this slot in its home's hints as the only one with its key. Gives
    /// one of [`WON`], [`EXISTS`], [`CONTENDED`].
    #[inline(always)]
    pub fn win_here(&self, index: u32, home: u32, spilled: bool) -> u32 {
        let (Some(judge), Some(own)) = (self.memory.slot(home), self.memory.slot(index)) else {
            return CONTENDED;
        };
        let distance = Meta(own.load(place::META)).distance();
        if spilled && !self.add_hint(home + 1, distance) {
            return CONTENDED;
        }
        let key = Key::<F>::of_slot(own);
        for _ in 0..TRIES {
            let before = Hints(judge.load(place::HINTS));
            if self.has_rival(&key, home, index) {
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

/// Writes a half into a slot that is ours: packets with `key` leave as `leaves`.
#[inline(always)]
fn write<F: Wide, S: Slot>(
    slot: S,
    key: &Key<F>,
    leaves: &Tuple<F>,
    link: Link,
    facts: Facts,
    now: u32,
) {
    let comes: Tuple<F> = super::key::tuple(&key.addresses, key.ports);
    let address_change = comes.address_difference(leaves).fold();
    let port_change = comes.port_difference(leaves).fold();
    let times = Times::new(
        now,
        bytemuck::cast(address_change),
        bytemuck::cast(port_change),
    );
    slot.store(place::LINK, link.0);
    slot.store(place::FACTS, facts.0);
    slot.store(place::TIMES, times.0);
    let ports = u64::from(key.ports) | u64::from(leaves.port_word()) << 32;
    slot.store(place::PORTS, ports);
    let translated = F::pack(leaves.source, leaves.destination);
    for (place, word) in F::words(&key.addresses).iter().enumerate() {
        slot.store(place::ADDRESSES + place, *word);
    }
    for (place, word) in F::words(&translated).iter().enumerate() {
        slot.store(place::ADDRESSES + F::ADDRESS_WORDS + place, *word);
    }
}
