//! Opening a connection: both halves of it, with a source port at which the backend's replies are
//! its alone.

use shunt_common::{
    Counter, Tuple, V4, V6,
    connections::{Connection, Key, Memory as _, Meta, Role, Survey},
};

use crate::{
    maps::{
        backends::count_connection,
        clock::now,
        conntrack::Tracked,
        constants::{CLIENT_SHARE, SNAT_PORTS},
        flows,
        handover::is_going_on,
        scratch::Opening,
        tables::Tables,
        variables::has_rules,
    },
    nat::{
        conntrack::{self, Find},
        handover,
        ports::{self, Vacancy},
        wanted::Wanted,
    },
    packet::{parsed::Packet, segment::Ports},
};

/// Number of times that a connection is tried to be opened when other CPUs get in the way.
const TRIES: u32 = 3;

/// Outcome of an opening.
const OPENED: u32 = 0;
/// All slots in reach have connections that may not be given up.
const FULL: u32 = 1;
/// Another CPU was faster with this flow.
const TAKEN: u32 = 2;
/// There is no source port.
const NO_PORT: u32 = 3;
/// The same, or another connection has a tuple of this one in the table that hands over.
const HELD: u32 = 4;
/// The table is short, and the client holds more than its share.
const SHARE: u32 = 5;

/// The CPU that opened a packet's connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opener {
    This,
    /// Another one, with another packet of the flow: the connection is known.
    Other,
}

/// Destination of a connection.
pub(crate) struct Destination<'a, F: Tables> {
    pub address: &'a F::Address,
    /// Network order.
    pub port: u16,
    /// The backend's index and generation.
    pub backend: u32,
    pub generation: u16,
    /// The number of the service port; 0: none.
    pub service: u32,
}

/// Source with which a connection goes on.
pub(crate) struct Source<'a, F: Tables> {
    pub address: &'a F::Address,
    /// True if the client's own port is tried first.
    pub keeps_port: bool,
    /// A port that is not taken, network order; [`Self::NO_PORT`]: any may be.
    pub avoided: u32,
}

impl<F: Tables> Source<'_, F> {
    /// No port at all.
    pub(crate) const NO_PORT: u32 = u32::MAX;
}

/// A family with the subprogram that opens its connections.
pub(crate) trait Open: Find {
    /// [`flows::tell_opened`].
    fn tell_opened(connection: &Connection<Self>);

    /// [`enter`].
    fn enter(opening: &mut Opening<Self>) -> u32;

    /// [`Table::is_over_share`](shunt_common::connections::Table::is_over_share) of this node's connections.
    fn is_over_share(client: u64, home: u32, share: u32) -> bool;
}

/// Opens the packet's connection from `source`, or follows the one that another CPU has opened meanwhile, maybe to
/// another backend. Puts the tuple that the packet is to leave with into `translated`.
#[inline(always)]
pub(crate) fn open<F: Open>(
    packet: &Packet<F>,
    destination: &Destination<'_, F>,
    source: &Source<'_, F>,
    translated: &mut Tuple<F>,
) -> Result<Opener, Counter> {
    // Always there: the table has an entry for each CPU.
    let Some(opening) = F::openings().get_ptr_mut(0) else {
        return Err(Counter::DropConntrackFull);
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let opening = unsafe { &mut *opening };
    let new = &mut opening.connection;
    let client = &packet.tuple;
    new.forward = Key::new(client, packet.protocol, Role::Forward);
    new.reply = Key::of_words(
        F::pack(*destination.address, *source.address),
        Ports {
            source: destination.port,
            destination: client.source_port,
        }
        .word(),
        packet.protocol,
        Role::Reply,
    );
    new.seen = if packet.signal.opens() {
        Meta::OPENED
    } else {
        0
    };
    if has_rules::<F>() {
        new.seen |= Meta::RULED;
    }
    new.backend = destination.backend;
    new.generation = destination.generation;
    new.service = destination.service;
    new.sequence = packet.signal.number();
    opening.ports = SNAT_PORTS.load().probes(&client.source, client.source_port);
    opening.keeps_port = source.keeps_port.into();
    opening.avoided = source.avoided;
    let mut became = F::enter(opening);
    if became == HELD && handover::clear_before(&opening.connection) {
        // With the port that it has by now.
        opening.keeps_port = 1;
        became = F::enter(opening);
    }
    match became {
        OPENED => {}
        NO_PORT => return Err(Counter::DropNoPort),
        SHARE => return Err(Counter::DropClientShare),
        TAKEN => {
            let there = conntrack::find(packet, Wanted::Forward);
            return match there {
                Some(half) if conntrack::follow(packet, half, translated) => Ok(Opener::Other),
                _ => Err(Counter::DropConntrackFull),
            };
        }
        _ => return Err(Counter::DropConntrackFull),
    }
    *translated = opening.connection.translated();
    Ok(Opener::This)
}

/// Returns true if the table is short and the connection's client holds more of it than its share.
#[inline(always)]
fn is_over_share<F: Open>(forward: &Key<F>) -> bool {
    let share = CLIENT_SHARE.load();
    if share == 0 {
        return false;
    }
    let client = F::client(F::words(&forward.addresses)[0]);
    F::is_over_share(client, F::connections().home(forward), share)
}

/// Enters the connection with a source port. Returns the outcome.
#[inline(always)]
fn enter<F: Vacancy + Open>(opening: &mut Opening<F>) -> u32 {
    if is_over_share(&opening.connection.forward) {
        return SHARE;
    }
    if opening.keeps_port == 0 {
        opening
            .connection
            .set_source_port(opening.ports.next_port());
    }
    for _ in 0..TRIES {
        if !ports::find(opening) {
            return NO_PORT;
        }
        if opening.is_known != 0 {
            return TAKEN;
        }
        // That one alone: another CPU may have chosen the port, too, and been faster.
        if opening.gives_way != 0 {
            F::evict(&opening.oldest, opening.oldest_idle);
        }
        if !handover::enter_before(&opening.connection) {
            continue;
        }
        // Not kept over the loop: the stack has no room for it before Linux 6.8.
        let table = F::connections();
        match F::Memory::open(&table, &opening.connection, now()) {
            OPENED => {
                count_connection::<F>(opening.connection.backend);
                F::tell_opened(&opening.connection);
                return OPENED;
            }
            FULL => return FULL,
            _ => {}
        }
        if table.find_half(&opening.connection.forward).is_some() {
            return TAKEN;
        }
    }
    if is_going_on() { HELD } else { FULL }
}

/// Makes a family's subprogram, which the verifier looks at by itself.
macro_rules! opening {
    ($family:ty: $open:ident, $tell:ident, $share:ident) => {
        impl Open for $family {
            #[inline(always)]
            fn tell_opened(connection: &Connection<Self>) {
                if flows::is_on() {
                    $tell(connection);
                }
            }

            #[inline(always)]
            fn enter(opening: &mut Opening<Self>) -> u32 {
                $open(opening)
            }

            #[inline(always)]
            fn is_over_share(client: u64, home: u32, share: u32) -> bool {
                $share(client, home, share, Survey::NOTHING) != 0
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $open(opening: *mut Opening<$family>) -> u32 {
            // SAFETY: null, or the reference that the only caller has.
            match unsafe { opening.as_mut() } {
                Some(opening) => enter(opening),
                None => FULL,
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $share(client: u64, home: u32, share: u32, nothing: u64) -> u64 {
            <$family>::connections()
                .is_over_share(client, home, share, nothing)
                .into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $tell(connection: *const Connection<$family>) -> u32 {
            // SAFETY: null, or the reference that the only caller has.
            if let Some(connection) = unsafe { connection.as_ref() } {
                flows::tell_opened(connection);
            }
            0
        }
    };
}

opening!(V4: open_v4, opened_v4, over_share_v4);
opening!(V6: open_v6, opened_v6, over_share_v6);
