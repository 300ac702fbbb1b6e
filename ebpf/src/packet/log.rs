//! Messages of the packet log, if the agent has one, in the words of services.
//!
//! Functions of their own: their variables are many, and would be in the way of a program's.

use aya_log_ebpf::debug;
use shunt_common::{Address, Backend, Counter, Tuple, V4, V6};

/// Direction of a packet in its connection.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Not found out.
    Unknown,
    /// From a client to a frontend.
    Original,
    /// From a backend.
    Reply,
}

/// A family whose packets are logged.
pub(crate) trait Logged: shunt_common::Family {
    /// Logs that the connection of a client's packet goes to the backend.
    fn log_opened(packet: &Tuple<Self>, backend: &Backend<Self>);

    /// Logs that a packet is dropped for this reason.
    fn log_dropped(packet: &Tuple<Self>, direction: Direction, reason: Counter);
}

macro_rules! logged {
    ($family:ty: $octets:ty,
     $opened:ident, $goes:tt, $dropped:ident, $request:tt, $reply:tt) => {
        impl Logged for $family {
            #[inline(always)]
            fn log_opened(packet: &Tuple<Self>, backend: &Backend<Self>) {
                $opened(packet, backend);
            }

            #[inline(always)]
            fn log_dropped(packet: &Tuple<Self>, direction: Direction, reason: Counter) {
                $dropped(packet, direction, reason as u32);
            }
        }

        #[inline(never)]
        fn $opened(packet: &Tuple<$family>, backend: &Backend<$family>) {
            debug!(
                packet,
                $goes,
                octets::<_, $octets>(packet.source),
                u16::from_be(packet.source_port),
                octets::<_, $octets>(packet.destination),
                u16::from_be(packet.destination_port),
                octets::<_, $octets>(backend.address),
                u16::from_be(backend.port),
            );
        }

        #[inline(never)]
        fn $dropped(packet: &Tuple<$family>, direction: Direction, reason: u32) {
            match direction {
                Direction::Unknown => debug!(packet, "packet dropped, reason {}", reason),
                Direction::Original => debug!(
                    packet,
                    $request,
                    octets::<_, $octets>(packet.source),
                    u16::from_be(packet.source_port),
                    octets::<_, $octets>(packet.destination),
                    u16::from_be(packet.destination_port),
                    reason,
                ),
                Direction::Reply => debug!(
                    packet,
                    $reply,
                    octets::<_, $octets>(packet.source),
                    u16::from_be(packet.source_port),
                    reason,
                ),
            }
        }
    };
}

logged!(
    V4: [u8; 4],
    log_opened_v4,
    "connection of client {:i}:{} to frontend {:i}:{} goes to backend {:i}:{}",
    log_dropped_v4,
    "packet of client {:i}:{} to frontend {:i}:{} dropped, reason {}",
    "reply of backend {:i}:{} dropped, reason {}"
);
logged!(
    V6: [u8; 16],
    log_opened_v6,
    "connection of client [{:i}]:{} to frontend [{:i}]:{} goes to backend [{:i}]:{}",
    log_dropped_v6,
    "packet of client [{:i}]:{} to frontend [{:i}]:{} dropped, reason {}",
    "reply of backend [{:i}]:{} dropped, reason {}"
);

/// The address as the log takes it.
#[inline(always)]
fn octets<A: Address, O: bytemuck::Pod>(address: A) -> O {
    bytemuck::cast(address)
}
