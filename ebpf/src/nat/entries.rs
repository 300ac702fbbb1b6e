//! The two entries of a new connection, and whoever else has its source port.

use shunt_common::{ConntrackEntry, Counter, Direction};

use crate::{
    maps::{
        backends::Choice,
        scratch::NewConnection,
        tables::{Tables, now},
    },
    nat::{conntrack, table},
    packet::parsed::Packet,
};

/// `-EEXIST` of `asm-generic/errno-base.h`.
pub(crate) const EXISTS: i32 = -17;

/// Who has a source port towards a backend.
pub(crate) enum Holder {
    Nobody,
    /// A connection of the same client, from the same port, that is over or has moved on; or this
    /// one itself.
    SameClient,
    /// A connection of somebody else that is over or has moved on.
    Over {
        last_seen: u32,
    },
    Live,
}

impl<F: Tables> NewConnection<F> {
    /// Makes this the connection of `packet` to the chosen backend, from `source` and `port`.
    #[inline(always)]
    pub(crate) fn set(
        &mut self,
        packet: &Packet<F>,
        choice: &Choice<F>,
        source: &F::Address,
        port: u16,
    ) {
        self.client = packet.tuple;
        self.translated.source = *source;
        self.translated.destination = choice.backend.address;
        self.translated.destination_port = choice.backend.port;
        self.backend = choice.index;
        self.generation = choice.backend.generation;
        self.flags = packet.flags;
        self.reply.tuple.set_reversed(&self.translated);
        self.reply.protocol = packet.protocol;
        self.reply.direction = Direction::Reply as u8;
        self.original.protocol = packet.protocol;
        self.original.direction = Direction::Original as u8;
        self.set_port(port);
    }

    /// Makes the connection go on from `port`, network order.
    #[inline(always)]
    pub(crate) const fn set_port(&mut self, port: u16) {
        self.translated.source_port = port;
        self.reply.tuple.destination_port = port;
    }

    /// Who has the source port.
    #[inline(always)]
    pub(crate) fn holder(&mut self) -> Holder {
        let Some(reply) = conntrack::entry(&self.reply) else {
            return Holder::Nobody;
        };
        self.original.tuple.set_reversed(&reply.translated);
        let client = &self.original.tuple;
        if *client == self.client {
            return Holder::SameClient;
        }
        let is_same =
            client.source == self.client.source && client.source_port == self.client.source_port;
        let original = conntrack::entry(&self.original)
            .filter(|original| original.translated == self.translated);
        let mut last_seen = reply.last_seen;
        if let Some(original) = original {
            if !ConntrackEntry::<F>::is_over(original.seen, reply.seen) {
                return Holder::Live;
            }
            if is_before(last_seen, original.last_seen) {
                last_seen = original.last_seen;
            }
        }
        if is_same {
            Holder::SameClient
        } else {
            Holder::Over { last_seen }
        }
    }

    /// Removes the entries of the connection that holds the port and is over. A client that has
    /// moved on, to another backend or by this very packet, keeps the entry of its original
    /// direction.
    #[inline(always)]
    pub(crate) fn dismiss_holder(&mut self) {
        let Some(held) = conntrack::entry(&self.reply) else {
            return;
        };
        self.original.tuple.set_reversed(&held.translated);
        let there = conntrack::entry(&self.original);
        if there.is_some_and(|there| there.translated == self.translated) {
            table::remove(&self.original);
        }
        table::remove(&self.reply);
    }

    /// Enters the reply's entry unless there is one: of two CPUs, one succeeds. Gives 0 or an
    /// error.
    #[inline(always)]
    pub(crate) fn claim(&mut self) -> i32 {
        self.entry.translated.set_reversed(&self.client);
        self.entry.address_change = self.client.address_difference(&self.translated).fold();
        self.entry.port_change = self.client.port_difference(&self.translated).fold();
        self.undo_changes();
        self.complete_entry(0);
        match table::claim(&self.reply, &self.entry) {
            Ok(()) => 0,
            Err(error) => error,
        }
    }

    /// Enters the original direction's entry. If it finds no room, the claim is given back.
    #[inline(always)]
    pub(crate) fn finish(&mut self) -> Result<(), Counter> {
        self.original.tuple = self.client;
        self.entry.translated = self.translated;
        self.undo_changes();
        self.complete_entry(self.flags);
        if table::enter(&self.original, &self.entry).is_err() {
            table::remove(&self.reply);
            return Err(Counter::DropConntrackFull);
        }
        Ok(())
    }

    /// Makes the changes of the checksums those of the other direction.
    #[inline(always)]
    const fn undo_changes(&mut self) {
        self.entry.address_change = self.entry.address_change.undone();
        self.entry.port_change = self.entry.port_change.undone();
    }

    /// Writes what both entries have in common, and what this direction has seen.
    #[inline(always)]
    fn complete_entry(&mut self, seen: u16) {
        self.entry.backend = self.backend;
        self.entry.generation = self.generation;
        self.entry.seen = seen;
        if self.translated.source == self.client.source
            && self.translated.source_port == self.client.source_port
        {
            self.entry.seen |= ConntrackEntry::<F>::KEEPS_CLIENT;
        }
        self.entry.last_seen = now();
    }
}

/// Whether tick `a` was before tick `b`, on a clock that begins anew at its end.
#[inline(always)]
pub(crate) const fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) > u32::MAX / 2
}
