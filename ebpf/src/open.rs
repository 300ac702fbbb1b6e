//! Opening a connection: its two entries, and a source port at which the backend's replies are
//! this connection's alone.

use aya_ebpf::{
    bindings::{BPF_ANY, BPF_NOEXIST},
    cty::{c_long, c_void},
    helpers::bpf_loop,
};
use shunt_common::{Backend, ConntrackEntry, ConntrackKey, Counter, Direction, Probes, Tuple};

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
) -> Result<Tuple<F>, Counter> {
    let client = packet.tuple;
    let mut ports = config::SNAT_PORTS
        .load()
        .probes(&client.source, client.source_port);
    let port = if source == client.source || source == F::hairpin_ip() {
        client.source_port
    } else {
        ports.next_port()
    };
    let mut search = Search {
        opening: Opening::new(packet, choice, source, port),
        ports,
        outcome: SEARCHING,
        oldest_over: clock().wrapping_add(1),
        oldest_port: 0,
    };
    // SAFETY: the kernel calls `try_port` with the search, while this function runs.
    unsafe {
        bpf_loop(
            PROBES,
            try_port::<F> as *mut c_void,
            (&raw mut search).cast(),
            0,
        );
    }
    if search.outcome == SEARCHING && search.oldest_port != 0 {
        search.opening.translated.source_port = search.oldest_port;
        search.opening.dismiss_holder();
        search.outcome = search.opening.claim();
    }
    match search.outcome {
        0 => search.opening.finish(),
        SEARCHING | EXISTS => Err(Counter::DropNoPort),
        _ => Err(Counter::DropConntrackFull),
    }
}

/// A search for a port: what the kernel's loop keeps from one try to the next.
struct Search<F: Family> {
    opening: Opening<F>,
    ports: Probes,
    /// [`SEARCHING`], or what became of the claim: 0 or an error.
    outcome: i32,
    /// Of the ports whose connection is over the one that has been so for the longest, and the
    /// tick of its last packet. Port 0 is none, and then the tick is the next one.
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
/// callbacks as if they are called unknown number of times"). So no condition here may be about a
/// field that begins as a constant; that is why the port 0 is not asked for.
extern "C" fn try_port<F: Family>(_: u32, search: *mut c_void) -> c_long {
    // SAFETY: `open` gave the search, and waits.
    let search = unsafe { &mut *search.cast::<Search<F>>() };
    let opening = &mut search.opening;
    let vacant = match opening.holder() {
        Holder::Nobody => true,
        Holder::SameClient => {
            opening.dismiss_holder();
            true
        }
        Holder::Over { last_seen } => {
            if is_before(last_seen, search.oldest_over) {
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
    opening.translated.source_port = search.ports.next_port();
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
struct Opening<F: Family> {
    client: Tuple<F>,
    translated: Tuple<F>,
    backend: u32,
    generation: u16,
    says: u16,
    protocol: u8,
}

impl<F: Family> Opening<F> {
    #[inline(always)]
    fn new(packet: &Packet<F>, choice: &Choice<F>, source: F::Address, port: u16) -> Self {
        let Backend {
            address,
            port: destination_port,
            generation,
            ..
        } = choice.backend;
        Self {
            client: packet.tuple,
            translated: Tuple {
                source,
                destination: address,
                source_port: port,
                destination_port,
            },
            backend: choice.index,
            generation,
            says: packet.says(),
            protocol: packet.protocol,
        }
    }

    #[inline(always)]
    fn reply_key(&self) -> ConntrackKey<F> {
        let tuple = self.translated.reversed();
        ConntrackKey::new(tuple, self.protocol, Direction::Reply)
    }

    #[inline(always)]
    fn forward_key(&self, client: Tuple<F>) -> ConntrackKey<F> {
        ConntrackKey::new(client, self.protocol, Direction::Forward)
    }

    #[inline(always)]
    fn holder(&self) -> Holder {
        // SAFETY: as in `conntrack::find`.
        let Some(reply) = (unsafe { F::conntrack().get(self.reply_key()) }) else {
            return Holder::Nobody;
        };
        let client = reply.translated.reversed();
        if client == self.client {
            return Holder::SameClient;
        }
        // SAFETY: as in `conntrack::find`.
        let forward = unsafe { F::conntrack().get(self.forward_key(client)) }
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
        if client.source == self.client.source && client.source_port == self.client.source_port {
            Holder::SameClient
        } else {
            Holder::Over { last_seen }
        }
    }

    /// Removes the entries of the connection that holds the port and is over. A client that has
    /// moved on, to another backend or by this very packet, keeps its forward entry.
    #[inline(always)]
    fn dismiss_holder(&self) {
        let conntrack = F::conntrack();
        let reply = self.reply_key();
        // SAFETY: as in `conntrack::find`.
        let Some(held) = (unsafe { conntrack.get(reply) }) else {
            return;
        };
        let forward = self.forward_key(held.translated.reversed());
        // SAFETY: as in `conntrack::find`.
        let there = unsafe { conntrack.get(forward) };
        if there.is_some_and(|there| there.translated == self.translated) {
            let _ = conntrack.remove(forward);
        }
        let _ = conntrack.remove(reply);
    }

    /// Enters the reply's entry unless there is one: of two CPUs, one succeeds. Gives 0 or an
    /// error.
    #[inline(always)]
    fn claim(&self) -> i32 {
        let entry = self.entry(self.client.reversed(), 0);
        match F::conntrack().insert(self.reply_key(), entry, BPF_NOEXIST.into()) {
            Ok(()) => 0,
            Err(error) => error,
        }
    }

    /// Enters the forward entry. If it finds no room, the claim is given back.
    #[inline(always)]
    fn finish(&self) -> Result<Tuple<F>, Counter> {
        let key = self.forward_key(self.client);
        let entry = self.entry(self.translated, self.says);
        if F::conntrack().insert(key, entry, BPF_ANY.into()).is_err() {
            let _ = F::conntrack().remove(self.reply_key());
            return Err(Counter::DropConntrackFull);
        }
        Ok(self.translated)
    }

    #[inline(always)]
    fn entry(&self, translated: Tuple<F>, seen: u16) -> ConntrackEntry<F> {
        ConntrackEntry {
            translated,
            backend: self.backend,
            generation: self.generation,
            seen,
            last_seen: clock(),
        }
    }
}

/// Whether tick `a` was before tick `b`, on a clock that begins anew at its end.
#[inline(always)]
const fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) > u32::MAX / 2
}
