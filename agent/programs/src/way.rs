//! A program's query of a kernel's routes (`struct bpf_fib_lookup` of `linux/bpf.h`), without its unions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::FibLookup;

/// `AF_INET` and `AF_INET6` of `linux/socket.h`.
const INET: u8 = 2;
const INET6: u8 = 10;

/// A packet whose way is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WayQuestion {
    /// The interface that it came in by.
    pub interface: u32,
    /// Its source.
    pub source: IpAddr,
    /// Its destination.
    pub destination: IpAddr,
    /// Its length in bytes, from the network header on; 0: of no importance.
    pub length: u16,
}

/// The way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// The interface that it leads out of.
    pub interface: u32,
    /// The next router, if the destination is not on the link.
    pub gateway: Option<IpAddr>,
    /// Maximum length of a packet there, in bytes.
    pub mtu: u16,
    /// The link address there, and that of the next hop.
    pub link: Option<([u8; 6], [u8; 6])>,
}

/// The IPv6 address with these words in network order.
pub(crate) fn v6(words: [u32; 4]) -> Ipv6Addr {
    let mut bytes = [0; 16];
    for (bytes, word) in bytes.chunks_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    bytes.into()
}

/// Its words.
pub(crate) fn words(address: Ipv6Addr) -> [u32; 4] {
    let bytes = address.octets();
    let (words, _) = bytes.as_chunks::<4>();
    [0, 1, 2, 3].map(|place| u32::from_ne_bytes(words[place]))
}

impl WayQuestion {
    /// The question, as the kernel is asked.
    pub fn lookup(&self) -> FibLookup {
        let Self {
            interface,
            source,
            destination,
            length,
        } = *self;
        // SAFETY: words, bytes and unions of them.
        let mut lookup: FibLookup = unsafe { core::mem::zeroed() };
        lookup.ifindex = interface;
        lookup.__bindgen_anon_1.tot_len = length;
        match source {
            IpAddr::V4(address) => {
                lookup.__bindgen_anon_3.ipv4_src = u32::from_ne_bytes(address.octets());
            }
            IpAddr::V6(address) => lookup.__bindgen_anon_3.ipv6_src = words(address),
        }
        match destination {
            IpAddr::V4(address) => {
                lookup.family = INET;
                lookup.__bindgen_anon_4.ipv4_dst = u32::from_ne_bytes(address.octets());
            }
            IpAddr::V6(address) => {
                lookup.family = INET6;
                lookup.__bindgen_anon_4.ipv6_dst = words(address);
            }
        }
        lookup
    }

    /// Returns the question in a lookup.
    pub fn of(lookup: &FibLookup) -> Self {
        // SAFETY: words, of which an IPv4 address is the first; all of the union were written, or are zeros.
        let (from, to) = unsafe {
            (
                lookup.__bindgen_anon_3.ipv6_src,
                lookup.__bindgen_anon_4.ipv6_dst,
            )
        };
        let address = |words: [u32; 4]| -> IpAddr {
            if lookup.family == INET {
                Ipv4Addr::from(words[0].to_ne_bytes()).into()
            } else {
                v6(words).into()
            }
        };
        Self {
            interface: lookup.ifindex,
            source: address(from),
            destination: address(to),
            // SAFETY: two bytes, of whatever field.
            length: unsafe { lookup.__bindgen_anon_1.tot_len },
        }
    }
}

/// `BPF_FIB_LKUP_RET_SUCCESS`, `BPF_FIB_LKUP_RET_NO_NEIGH` and `BPF_FIB_LKUP_RET_FRAG_NEEDED` of `linux/bpf.h`.
const SUCCESS: i64 = 0;
const NO_NEIGHBOUR: i64 = 7;
const TOO_LONG: i64 = 8;

impl Way {
    /// The way that the kernel has left in the question, with this result; `None` if there is none.
    pub fn of(result: i64, question: &WayQuestion, lookup: &FibLookup) -> Option<Self> {
        // SAFETY: two bytes, of whatever field.
        let mtu = unsafe { lookup.__bindgen_anon_1.mtu_result };
        let next = WayQuestion::of(lookup).destination;
        match result {
            SUCCESS | NO_NEIGHBOUR => Some(Self {
                interface: lookup.ifindex,
                gateway: (next != question.destination).then_some(next),
                mtu,
                link: (result == SUCCESS).then_some((lookup.smac, lookup.dmac)),
            }),
            TOO_LONG => Some(Self {
                interface: question.interface,
                gateway: None,
                mtu,
                link: None,
            }),
            _ => None,
        }
    }

    /// Leaves the way in the question.
    pub fn answer(&self, lookup: &mut FibLookup) {
        let Self {
            interface,
            gateway,
            mtu,
            link,
        } = *self;
        lookup.ifindex = interface;
        match gateway {
            Some(IpAddr::V4(address)) => {
                lookup.__bindgen_anon_4.ipv4_dst = u32::from_ne_bytes(address.octets());
            }
            Some(IpAddr::V6(address)) => {
                lookup.family = INET6;
                lookup.__bindgen_anon_4.ipv6_dst = words(address);
            }
            None => {}
        }
        lookup.__bindgen_anon_1.mtu_result = mtu;
        if let Some((own, next)) = link {
            lookup.smac = own;
            lookup.dmac = next;
        }
    }
}
