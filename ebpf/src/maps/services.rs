//! Counting, by service port: connections and refusals always, packets and bytes if the agent has that set.
//!
//! All but the questions are functions of their own, which the verifier looks at by themselves and which
//! take no stack of their callers.

use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    btf_maps::{Array, PerCpuArray},
    macros::btf_map,
};
use shunt_common::{Counter, Family, FlowKind, ServiceEntry, ServiceNumber, ServiceTraffic};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    maps::{
        atomic::add_one, constants::COUNT_TRAFFIC, counters::count, flows::tell_packet,
        tables::Tables,
    },
    packet::{log::Logged, parsed::Packet},
};

const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// A default that the agent overrides.
const SIZE: usize = 16_384;

/// Service ports by index.
#[btf_map]
pub(crate) static SERVICES: Array<ServiceEntry, SIZE, MMAPABLE> = Array::new();

/// Number of connections of a service port.
#[btf_map]
pub(crate) static SERVICE_CONNECTIONS: PerCpuArray<u64, SIZE> = PerCpuArray::new();

/// Packets and bytes to a service port and back.
#[btf_map]
pub(crate) static SERVICE_TRAFFIC: PerCpuArray<ServiceTraffic, SIZE> = PerCpuArray::new();

/// Returns whether packets and bytes are counted.
#[inline(always)]
pub(crate) fn counts_traffic() -> bool {
    COUNT_TRAFFIC.load() != 0
}

/// The number of the service port whose frontend has this index; 0 if it is not known.
#[inline(always)]
pub(crate) fn service_of<F: Tables>(frontend: u32) -> u32 {
    F::frontend_services()
        .get(frontend)
        .copied()
        .unwrap_or_default()
}

/// Adds one to `counter`, and to that of the packet's service port.
#[inline(always)]
pub(crate) fn count_refused<F: Family>(packet: &Packet<F>, counter: Counter) {
    count(counter);
    count_refusal(packet.service.get(), counter as u32);
}

/// Drops the packet, counted by its reason, for its service port too.
#[inline(always)]
pub(crate) fn drop_refused<F: Logged>(
    context: &impl Access,
    packet: &Packet<F>,
    reason: Counter,
) -> Verdict {
    let service = packet.service.get();
    count_refusal(service, reason as u32);
    count(reason);
    tell_packet(context, FlowKind::DROPPED, service, reason);
    F::log_dropped(&packet.tuple, packet.direction, reason);
    Verdict::DROP
}

/// Counts a packet that goes on translated as `counter`, and for its service port as what it is to that.
#[inline(always)]
pub(crate) fn count_translated<F: Family>(packet: &Packet<F>, counter: Counter) {
    count(counter);
    match counter {
        Counter::Request | Counter::Reply if counts_traffic() => {
            let length = packet.end.wrapping_sub(packet.network.get() as u32);
            let is_reply = counter == Counter::Reply;
            count_packet(packet.service.get(), is_reply.into(), length);
        }
        Counter::DropNoRoute => {
            count_refusal(packet.service.get(), counter as u32);
        }
        _ => {}
    }
}

/// Counts a connection of the service port that has this number now. Of packets: no other program runs
/// here until they are through.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn count_opened(service: u32) -> u32 {
    if let Some(count) = SERVICE_CONNECTIONS.get_ptr_mut(ServiceNumber(service).index()) {
        // SAFETY: the value is this CPU's own.
        unsafe { *count += 1 };
    }
    0
}

/// As [`count_opened`], of a system call, which packets may interrupt.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn count_connected(service: u32) -> u32 {
    if let Some(count) = SERVICE_CONNECTIONS.get_ptr_mut(ServiceNumber(service).index()) {
        // SAFETY: the lookup gave a word of the table.
        unsafe { add_one(count) };
    }
    0
}

/// Counts what was rejected or dropped, `counter` being the index of a [`Counter`], unless another
/// service port has the index by now.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn count_refusal(service: u32, counter: u32) -> u32 {
    let number = ServiceNumber(service);
    let Some(place) = ServiceEntry::place(counter) else {
        return 0;
    };
    // Once more, of a value that the compiler does not know: the verifier has lost the bounds on the way.
    let place = unknown(place);
    if place >= ServiceEntry::REFUSALS.len() {
        return 0;
    }
    let Some(entry) = SERVICES.get_ptr_mut(number.index()) else {
        return 0;
    };
    // SAFETY: the lookup gave an entry, and the place is in it.
    unsafe {
        if (*entry).number == number {
            let refused = (&raw mut (*entry).refused).cast::<u64>().add(place);
            add_one(refused);
        }
    }
    0
}

/// Counts a packet of so many bytes, unless another service port has the index by now.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn count_packet(service: u32, is_reply: u32, bytes: u32) -> u32 {
    let Some(traffic) = SERVICE_TRAFFIC.get_ptr_mut(ServiceNumber(service).index()) else {
        return 0;
    };
    // SAFETY: the value is this CPU's own, and no other packet is in its programs before this one is
    // through.
    let traffic = unsafe { &mut *traffic };
    if traffic.number != u64::from(service) {
        return 0;
    }
    if is_reply == 0 {
        traffic.request_packets += 1;
        traffic.request_bytes += u64::from(bytes);
    } else {
        traffic.reply_packets += 1;
        traffic.reply_bytes += u64::from(bytes);
    }
    0
}

/// The same number, of which the compiler knows nothing.
#[cfg(target_arch = "bpf")]
#[inline(always)]
fn unknown(mut number: usize) -> usize {
    // SAFETY: adds nothing. Without any instruction, the line would have none, which the kernel refuses.
    unsafe { core::arch::asm!("{0} += 0", inout(reg) number, options(pure, nomem, nostack)) };
    number
}

#[cfg(not(target_arch = "bpf"))]
const fn unknown(number: usize) -> usize {
    number
}
