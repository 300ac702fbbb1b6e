//! SNAT ports: a source port at which the backend's replies are one connection's alone.

use aya_ebpf::{
    cty::{c_long, c_void},
    helpers::bpf_loop,
};
use shunt_common::{
    FrontendKey, SCTP, TCP, Tuple, V4, V6,
    connections::{Connection, Key, Room},
};

use crate::{
    maps::{
        clock::now,
        scratch::{Holder, Opening},
        tables::{EXHAUSTED, EXHAUSTIONS, Tables},
    },
    nat::{
        conntrack,
        handover::{self, Handover},
        own_flow,
        wanted::Half,
    },
};

/// Number of ports that are tried for a connection, the last ones only if all before are of connections
/// that stay.
const PROBES: u32 = 1024;

/// After how many a connection that may give way does, and no better port is looked for.
const ENOUGH: u32 = 64;

/// Number of ports that are tried where none was found in this tick.
const FEW: u32 = 8;

/// For how many ticks a flow with replies is not disturbed after its last packet.
const PAUSE: u32 = 64;

/// Order in which connections give way: first one that has ended,
const OVER: u32 = 0;
/// one that has not begun, and has been silent for longer than a handshake is,
const UNASSURED: u32 = 1;
/// one that may be in a handshake,
const YOUNG: u32 = 2;
/// one that is doubtful, and may be open,
const DOUBTFUL: u32 = 3;
/// a flow that pauses, whose next packet gets another port.
const PAUSING: u32 = 4;

/// Finds a source port for the connection, beginning with the one that it has.
///
/// Where another connection from the same address to the backend has a port, or a frontend has it at that address, the
/// next one is tried. One that is over keeps its port for a while too, because the backend may: it may refuse any host
/// that comes from there (TIME-WAIT, RFC 9293 section 3.3.2; its timestamps do not go on, RFC 7323 section 5). A flow
/// that is found to be open by now, with the port that is tried, is [known](Opening::is_known).
///
/// Returns whether there is one. If none is free, one gives way that is over, or else half open, or doubtful, or a flow
/// that pauses: the one that has been silent for the longest of those that were tried. If there are more doubtful ones
/// than half open ones, those that may be in a handshake stay: see [`shunt_common::connections::Survey::verdict`].
#[inline(always)]
pub(crate) fn find<F: Vacancy>(opening: &mut Opening<F>) -> bool {
    opening.now = now();
    opening.tried = 0;
    opening.gives_way = 0;
    opening.is_known = 0;
    opening.rank = u32::MAX;
    opening.doubtful_idle = 0;
    opening.more_doubtful = 0;
    // Nearly always, and then nothing is set up for a search.
    if F::is_vacant(opening) {
        return true;
    }
    opening.vacant = 0;
    let tries = match exhaustion(opening) {
        Some((place, found)) if *place == found => FEW,
        _ => PROBES,
    };
    let mut at = &raw mut *opening;
    // SAFETY: the kernel calls `try_port` with the opening's address, while this function runs.
    unsafe {
        bpf_loop(tries, try_port::<F> as *mut c_void, (&raw mut at).cast(), 0);
    }
    if opening.vacant != 0 {
        return true;
    }
    if opening.rank != u32::MAX {
        if opening.rank == YOUNG && opening.more_doubtful > 0 {
            opening.oldest = opening.doubtful;
            opening.oldest_idle = opening.doubtful_idle;
        }
        opening
            .connection
            .set_source_port(opening.oldest.port as u16);
        opening.gives_way = 1;
        return true;
    }
    if let Some((place, found)) = exhaustion(opening) {
        *place = found;
    }
    false
}

/// Returns the place where a CPU remembers that this connection's source has no port left towards its backend,
/// and the value that stands there if that was found out in this tick.
#[inline(always)]
fn exhaustion<F: Tables>(opening: &Opening<F>) -> Option<(&'static mut u64, u64)> {
    let Key {
        addresses, ports, ..
    } = &opening.connection.reply;
    let protocol = opening.connection.reply.protocol();
    let mut hash = u64::from(*ports & 0xffff) << 8 | u64::from(protocol);
    for word in F::words(addresses) {
        hash = (hash ^ *word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    let hash = (hash >> 32) as u32;
    let place = EXHAUSTIONS.get_ptr_mut(hash % EXHAUSTED)?;
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let place = unsafe { &mut *place };
    Some((place, u64::from(hash) << 32 | u64::from(opening.now)))
}

/// Tries the port that the search is at, and goes on to the next if another connection has it. Returns 1 at
/// the end of the search.
///
/// A function of its own, called back by `bpf_loop` (Linux 5.17), so that the verifier looks at
/// it once and not as often as it can run.
///
/// Before Linux 6.7 it looks at the first call alone, takes what is a constant there for one in
/// all calls, and cuts out what the constant excludes (mended by commit ab5cfac139ab, "verify
/// callbacks as if they are called unknown number of times"). So what changes from call to call
/// is in a map's value, of which it knows nothing, and not on the stack.
extern "C" fn try_port<F: Vacancy>(_: u32, opening: *mut c_void) -> c_long {
    // SAFETY: `find` gave the place of the opening's address, and waits.
    let opening = unsafe { &mut **opening.cast::<*mut Opening<F>>() };
    if is_vacant(opening) {
        opening.vacant = 1;
        return 1;
    }
    opening.tried += 1;
    if opening.tried >= ENOUGH && opening.rank != u32::MAX {
        return 1;
    }
    opening
        .connection
        .set_source_port(opening.ports.next_port());
    0
}

/// Returns whether the port is free; if a connection has it that may give way, that is kept.
#[inline(always)]
fn is_vacant<F: Vacancy>(opening: &mut Opening<F>) -> bool {
    if u32::from(opening.connection.source_port()) == opening.avoided {
        return false;
    }
    let is_own = opening.keeps_port != 0 && opening.tried == 0;
    if !is_own && F::is_of_frontend(opening) {
        return false;
    }
    let table = F::connections();
    let Some(half) = table.find_half(&opening.connection.reply) else {
        return !handover::has_before(&opening.connection.reply);
    };
    let Some(pair) = table.pair(half) else {
        // Another CPU is just opening or ending it.
        return false;
    };
    let is_flow = !matches!(opening.connection.forward.protocol(), TCP | SCTP);
    let idle = table.idle(&pair, opening.now);
    let rank = match table.room(&pair, opening.now) {
        Room::Expired => return gives_way(opening, &half),
        Room::Over => OVER,
        Room::HalfOpen | Room::Unassured => {
            opening.more_doubtful -= 1;
            if idle < table.lasting() {
                YOUNG
            } else {
                UNASSURED
            }
        }
        Room::Doubtful => {
            opening.more_doubtful += 1;
            if idle >= opening.doubtful_idle {
                opening.doubtful_idle = idle;
                opening.doubtful = holder(&half, &opening.connection);
            }
            DOUBTFUL
        }
        Room::Never if is_flow && idle > PAUSE => PAUSING,
        Room::Never => return false,
    };
    // Another processor has just opened it.
    if opening.connection.forward.is_at(pair.forward.slot) {
        opening.is_known = 1;
        return true;
    }
    if rank < opening.rank || rank == opening.rank && idle > opening.oldest_idle {
        opening.rank = rank;
        opening.oldest_idle = idle;
        opening.oldest = holder(&half, &opening.connection);
    }
    false
}

/// Returns whether the connection would go on from a frontend's address and port: its replies would come for the
/// frontend.
#[inline(always)]
fn is_of_frontend<F: Tables>(opening: &Opening<F>) -> bool {
    let Tuple {
        source,
        source_port,
        ..
    } = opening.connection.translated();
    let protocol = opening.connection.forward.protocol();
    let key = FrontendKey::new(source, source_port, protocol);
    // SAFETY: the value is not read.
    own_flow::may_come_from_frontend::<F>(&source, source_port)
        && unsafe { F::frontends().get(key) }.is_some()
}

/// The port is to be had, and its holder forgotten: by the caller, whose stack has room for it.
#[inline(always)]
const fn gives_way<F: Tables>(opening: &mut Opening<F>, half: &Half) -> bool {
    opening.oldest = holder(half, &opening.connection);
    opening.oldest_idle = 0;
    opening.gives_way = 1;
    true
}

/// Returns the holder of the port that the connection was to have.
#[inline(always)]
const fn holder<F: Tables>(half: &Half, connection: &Connection<F>) -> Holder {
    Holder {
        index: half.index,
        version: half.meta.version(),
        port: connection.source_port() as u32,
    }
}

#[inline(always)]
fn evict<F: Handover>(index: u32, version: u32, idle: u32) {
    let table = F::connections();
    let Some(half) = table.at(index, version) else {
        return;
    };
    let pair = table.pair(half);
    if pair.is_none_or(|pair| table.idle(&pair, now()) >= idle) {
        conntrack::forget::<F>(&half);
    }
}

/// A family with the subprograms that look at a port, and take it.
pub(crate) trait Vacancy: Handover {
    /// [`is_vacant`].
    fn is_vacant(opening: &mut Opening<Self>) -> bool;

    /// [`is_of_frontend`].
    fn is_of_frontend(opening: &Opening<Self>) -> bool;

    /// Forgets the connection that has the port, unless another has it by now, or has been silent for less than `idle`
    /// ticks.
    fn evict(holder: &Holder, idle: u32);
}

/// Makes a family's subprogram, which the verifier looks at by itself.
macro_rules! vacancy {
    ($family:ty: $vacancy:ident, $frontend:ident, $evict:ident) => {
        impl Vacancy for $family {
            #[inline(always)]
            fn is_vacant(opening: &mut Opening<Self>) -> bool {
                $vacancy(opening) != 0
            }

            #[inline(always)]
            fn is_of_frontend(opening: &Opening<Self>) -> bool {
                $frontend(opening) != 0
            }

            #[inline(always)]
            fn evict(holder: &Holder, idle: u32) {
                $evict(holder.index, holder.version, idle);
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $vacancy(opening: *mut Opening<$family>) -> u32 {
            // SAFETY: null, or the reference that a caller has.
            match unsafe { opening.as_mut() } {
                Some(opening) => is_vacant(opening).into(),
                None => 0,
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $frontend(opening: *const Opening<$family>) -> u32 {
            // SAFETY: null, or the reference that a caller has.
            match unsafe { opening.as_ref() } {
                Some(opening) => is_of_frontend(opening).into(),
                None => 0,
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $evict(index: u32, version: u32, idle: u32) -> u64 {
            evict::<$family>(index, version, idle);
            0
        }
    };
}

vacancy!(V4: is_vacant_v4, is_of_frontend_v4, evict_v4);
vacancy!(V6: is_vacant_v6, is_of_frontend_v6, evict_v6);
