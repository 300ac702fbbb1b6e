//! SNAT ports: a source port at which the backend's replies are one connection's alone.

use aya_ebpf::{
    cty::{c_long, c_void},
    helpers::bpf_loop,
};
use shunt_common::Counter;

use crate::{
    maps::{backends::Choice, constants::SNAT_PORTS, scratch::PortSearch, tables::Tables},
    nat::entries::{EXISTS, Holder, is_before},
    packet::parsed::Packet,
};

/// How many ports are tried for a connection. Where 95 % of them are in use, all of these are with
/// a probability of 0.95^192, 0.005 %.
const PROBES: u32 = 192;

/// The outcome of a search that has claimed no port yet; 0 or an error else.
const SEARCHING: i32 = 1;

/// Finds a source port at which the backend's replies are this connection's alone, and claims it
/// with the reply's entry. `search` has the connection then; `Err` is why there is none.
///
/// Where a live connection from `source` to the backend has a port, another one is tried. A client
/// that keeps its address keeps its port too, unless it has a connection from that port to another
/// frontend with this backend.
///
/// A connection that is over holds its port, because the backend may do so too (TIME-WAIT, RFC
/// 9293 section 3.3.2). Another one from the same port of the same client may have it at once: its
/// timestamps and sequence numbers go on from there, and so the backend takes it (RFC 6191; Linux
/// gives each pair of addresses and ports offsets of its own). Of all others, the one that has
/// been over for the longest is taken if none is free.
#[inline(always)]
pub(crate) fn claim<F: Tables>(
    search: &mut PortSearch<F>,
    packet: &Packet<F>,
    choice: &Choice<F>,
    source: &F::Address,
) -> Result<(), Counter> {
    let client = packet.tuple;
    search.ports = SNAT_PORTS.load().probes(&client.source, client.source_port);
    let port = if *source == client.source || *source == F::hairpin_ip() {
        client.source_port
    } else {
        search.ports.next_port()
    };
    search.connection.set(packet, choice, source, port);
    search.outcome = SEARCHING;
    search.oldest_port = 0;
    let mut at = &raw mut *search;
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
        search.connection.set_port(search.oldest_port);
        search.connection.dismiss_holder();
        search.outcome = search.connection.claim();
    }
    match search.outcome {
        0 => Ok(()),
        SEARCHING | EXISTS => Err(Counter::DropNoPort),
        _ => Err(Counter::DropConntrackFull),
    }
}

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
extern "C" fn try_port<F: Tables>(_: u32, search: *mut c_void) -> c_long {
    // SAFETY: `claim` gave the place of the search's address, and waits.
    let search = unsafe { &mut **search.cast::<*mut PortSearch<F>>() };
    let connection = &mut search.connection;
    let vacant = match connection.holder() {
        Holder::Nobody => true,
        Holder::SameClient => {
            connection.dismiss_holder();
            true
        }
        Holder::Over { last_seen } => {
            if search.oldest_port == 0 || is_before(last_seen, search.oldest_over) {
                search.oldest_over = last_seen;
                search.oldest_port = connection.translated.source_port;
            }
            false
        }
        Holder::Live => false,
    };
    if vacant {
        let outcome = connection.claim();
        // If it exists now, another CPU was faster.
        if outcome != EXISTS {
            search.outcome = outcome;
            return 1;
        }
    }
    connection.set_port(search.ports.next_port());
    0
}
