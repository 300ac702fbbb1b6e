//! Opening a connection: its two entries, and a source port at which the backend's replies are
//! this connection's alone.

use aya_ebpf::{
    bindings::{BPF_ANY, BPF_NOEXIST},
    cty::{c_long, c_void},
    helpers::bpf_loop,
};
use shunt_common::{ConntrackEntry, ConntrackKey, Counter, Direction, Probes, Tuple};

use crate::{config, conntrack::clock, family::Family, packet::Packet, service::Choice};

/// How many ports are tried for a connection. Where 95 % of them are in use, all of these are with
/// a probability of 0.95^192, 0.005 %.
const PROBES: u32 = 192;

/// `-EEXIST` of `asm-generic/errno-base.h`.
const EXISTS: i32 = -17;

/// Opens the connection of `packet` from `source` to the chosen backend: both entries, the reply's
/// first, so that no packet goes out whose answer would not be understood. Gives the tuple that
/// the packet is to leave with, or why there is none.
///
/// The reply's entry is the claim to the source port: where a live connection from `source` to
/// the backend has it, another port is tried. A client that keeps its address keeps its port too,
/// unless it has a connection from that port to another frontend with this backend.
///
/// A connection that is over holds its port, because the backend may do so too (TIME-WAIT, RFC
/// 9293 section 3.3.2). Another one from the same port of the same client may have it at once: its
/// timestamps and sequence numbers go on from there, and so the backend takes it (RFC 6191; Linux
/// gives each pair of addresses and ports offsets of its own). Of all others, the one that has
/// been over for the longest is taken if none is free.
#[inline(always)]
pub fn open<F: Family>(
    packet: &Packet<F>,
    choice: &Choice<F>,
    source: F::Address,
    translated: &mut Tuple<F>,
) -> Result<(), Counter> {
    // Always there: the table has an entry for each CPU.
    let Some(search) = F::searches().get_ptr_mut(0) else {
        return Err(Counter::DropConntrackFull);
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let search = unsafe { &mut *search };
    let client = packet.tuple;
    search.ports = config::SNAT_PORTS
        .load()
        .probes(&client.source, client.source_port);
    let port = if source == client.source || source == F::hairpin_ip() {
        client.source_port
    } else {
        search.ports.next_port()
    };
    search.opening.set(packet, choice, &source, port);
    search.outcome = SEARCHING;
    search.oldest_port = 0;
    let mut at = search as *mut Search<F>;
    // SAFETY: the kernel calls `try_port` with the search's address, while this function runs.
    unsafe {
        bpf_loop(
            PROBES,
            try_port::<F> as *mut c_void,
            (&raw mut at).cast(),
            0,
        );
    }
    if search.outcome == SEARCHING && search.oldest_port != 0 {
        search.opening.set_port(search.oldest_port);
        search.opening.dismiss_holder();
        search.outcome = search.opening.claim();
    }
    match search.outcome {
        0 => {
            *translated = search.opening.translated;
            search.opening.finish()
        }
        SEARCHING | EXISTS => Err(Counter::DropNoPort),
        _ => Err(Counter::DropConntrackFull),
    }
}

/// A search for a port: what the kernel's loop keeps from one try to the next. In a table, since
/// the stack of a program, 512 bytes, has no room for it.
#[repr(C)]
pub struct Search<F: shunt_common::Family> {
    opening: Opening<F>,
    ports: Probes,
    /// [`SEARCHING`], or what became of the claim: 0 or an error.
    outcome: i32,
    /// Of the ports whose connection is over the one that has been so for the longest, and the
    /// tick of its last packet. Port 0 is none.
    oldest_over: u32,
    oldest_port: u16,
}

/// No port was claimed yet.
const SEARCHING: i32 = 1;

/// Tries the port that the search is at, and goes on to the next if somebody has it. Gives 1 at
/// the end of the search.
///
/// A function of its own, called back by `bpf_loop` (Linux 5.17), so that the verifier looks at
/// it once and not as often as it can run.
///
/// Before Linux 6.7 it looks at the first call alone, takes what is a constant there for one in
/// all calls, and cuts out what the constant excludes (mended by commit ab5cfac139ab, "verify
/// callbacks as if they are called unknown number of times"). So what changes from call to call
/// is in a map's value, of which it knows nothing, and not on the stack.
extern "C" fn try_port<F: Family>(_: u32, search: *mut c_void) -> c_long {
    // SAFETY: `open` gave the place of the search's address, and waits.
    let search = unsafe { &mut **search.cast::<*mut Search<F>>() };
    let opening = &mut search.opening;
    let vacant = match opening.holder() {
        Holder::Nobody => true,
        Holder::SameClient => {
            opening.dismiss_holder();
            true
        }
        Holder::Over { last_seen } => {
            if search.oldest_port == 0 || is_before(last_seen, search.oldest_over) {
                search.oldest_over = last_seen;
                search.oldest_port = opening.translated.source_port;
            }
            false
        }
        Holder::Live => false,
    };
    if vacant {
        let outcome = opening.claim();
        // If it exists now, another CPU was faster.
        if outcome != EXISTS {
            search.outcome = outcome;
            return 1;
        }
    }
    opening.set_port(search.ports.next_port());
    0
}

/// Who has a source port towards a backend.
enum Holder {
    Nobody,
    /// A connection from the same client port that is over or has moved on, or this one itself.
    SameClient,
    /// A connection from elsewhere that is over or has moved on.
    Over {
        last_seen: u32,
    },
    Live,
}

/// A connection that is to be opened from a certain port.
///
/// Addresses are copied from table to table, field by field: a tuple in the program's own
/// variables would be words in registers, which are too few, and so on the stack.
#[repr(C)]
struct Opening<F: shunt_common::Family> {
    client: Tuple<F>,
    translated: Tuple<F>,
    backend: u32,
    generation: u16,
    says: u16,
    /// The key of `translated`'s answers.
    reply: ConntrackKey<F>,
    /// The key of a client's packets: of whoever holds the port, or of this one's.
    forward: ConntrackKey<F>,
    entry: ConntrackEntry<F>,
}

#[expect(
    clippy::needless_borrows_for_generic_args,
    reason = "a key passed by value would be copied to the stack"
)]
impl<F: Family> Opening<F> {
    #[inline(always)]
    fn set(&mut self, packet: &Packet<F>, choice: &Choice<F>, source: &F::Address, port: u16) {
        self.client = packet.tuple;
        self.translated.source = *source;
        self.translated.destination = choice.backend.address;
        self.translated.destination_port = choice.backend.port;
        self.backend = choice.index;
        self.generation = choice.backend.generation;
        self.says = packet.says;
        self.reply.tuple.set_reversed(&self.translated);
        self.reply.protocol = packet.protocol;
        self.reply.direction = Direction::Reply as u8;
        self.forward.protocol = packet.protocol;
        self.forward.direction = Direction::Forward as u8;
        self.set_port(port);
    }

    /// Has the connection go on from `port`, network order.
    #[inline(always)]
    const fn set_port(&mut self, port: u16) {
        self.translated.source_port = port;
        self.reply.tuple.destination_port = port;
    }

    #[inline(always)]
    fn holder(&mut self) -> Holder {
        // SAFETY: as in `conntrack::find`.
        let Some(reply) = (unsafe { F::conntrack().get(&self.reply) }) else {
            return Holder::Nobody;
        };
        self.forward.tuple.set_reversed(&reply.translated);
        let client = &self.forward.tuple;
        if *client == self.client {
            return Holder::SameClient;
        }
        let is_same =
            client.source == self.client.source && client.source_port == self.client.source_port;
        // SAFETY: as in `conntrack::find`.
        let forward = unsafe { F::conntrack().get(&self.forward) }
            .filter(|forward| forward.translated == self.translated);
        let mut last_seen = reply.last_seen;
        if let Some(forward) = forward {
            if !ConntrackEntry::<F>::is_over(forward.seen, reply.seen) {
                return Holder::Live;
            }
            if is_before(last_seen, forward.last_seen) {
                last_seen = forward.last_seen;
            }
        }
        if is_same {
            Holder::SameClient
        } else {
            Holder::Over { last_seen }
        }
    }

    /// Removes the entries of the connection that holds the port and is over. A client that has
    /// moved on, to another backend or by this very packet, keeps its forward entry.
    #[inline(always)]
    fn dismiss_holder(&mut self) {
        let conntrack = F::conntrack();
        // SAFETY: as in `conntrack::find`.
        let Some(held) = (unsafe { conntrack.get(&self.reply) }) else {
            return;
        };
        self.forward.tuple.set_reversed(&held.translated);
        // SAFETY: as in `conntrack::find`.
        let there = unsafe { conntrack.get(&self.forward) };
        if there.is_some_and(|there| there.translated == self.translated) {
            let _ = conntrack.remove(&self.forward);
        }
        let _ = conntrack.remove(&self.reply);
    }

    /// Enters the reply's entry unless there is one: of two CPUs, one succeeds. Gives 0 or an
    /// error.
    #[inline(always)]
    fn claim(&mut self) -> i32 {
        self.entry.translated.set_reversed(&self.client);
        self.entry.address_change = self.client.address_difference(&self.translated).fold();
        self.entry.port_change = self.client.port_difference(&self.translated).fold();
        self.undo_changes();
        self.complete_entry(0);
        match F::conntrack().insert(&self.reply, &self.entry, BPF_NOEXIST.into()) {
            Ok(()) => 0,
            Err(error) => error,
        }
    }

    /// Enters the forward entry. If it finds no room, the claim is given back.
    #[inline(always)]
    fn finish(&mut self) -> Result<(), Counter> {
        self.forward.tuple = self.client;
        self.entry.translated = self.translated;
        self.undo_changes();
        self.complete_entry(self.says);
        let entered = F::conntrack().insert(&self.forward, &self.entry, BPF_ANY.into());
        if entered.is_err() {
            let _ = F::conntrack().remove(&self.reply);
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
        self.entry.last_seen = clock();
    }
}

/// Whether tick `a` was before tick `b`, on a clock that begins anew at its end.
#[inline(always)]
const fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) > u32::MAX / 2
}
