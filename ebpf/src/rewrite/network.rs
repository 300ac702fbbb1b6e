//! Writing network headers.

use shunt_common::{Folded, Sum, Tuple, V4, V6, connections::Wide};

use crate::{
    ctx::access::{Access, AccessError},
    packet::{
        family::{Family, Header},
        ipv4::{DONT_FRAGMENT, Ipv4Header},
        ipv6::Ipv6Header,
    },
    rewrite::checksum::adjust_frame_sum,
};

/// The hop limit of packets that begin here.
pub(crate) const HOPS: u8 = 64;

/// Differences of the families' headers when they are written.
pub(crate) trait Rewrite: Wide + Family<Header: HeaderMut<Self>> {
    /// One hop in the 16-bit word that holds the hop limit.
    const ONE_HOP: u16;
}

impl Rewrite for V4 {
    // The field is the first of its word.
    const ONE_HOP: u16 = u16::from_ne_bytes([1, 0]);
}

impl Rewrite for V6 {
    // The field is the second of its word.
    const ONE_HOP: u16 = u16::from_ne_bytes([0, 1]);
}

/// A network header that can be written.
pub(crate) trait HeaderMut<F: Family>: Header<F> {
    /// Writes the address that the packet comes from.
    fn set_source(&mut self, address: F::Address);

    /// Writes the address that it goes to.
    fn set_destination(&mut self, address: F::Address);

    /// Writes how many more hops the packet may make.
    fn set_hop_limit(&mut self, hops: u8);

    /// Has the header's own checksum follow a change of the header, if it has one.
    fn adjust_checksum(&mut self, change: Folded);

    /// Makes this the header of an ICMP message of `length` bytes, from the destination of a
    /// packet with this tuple to its source. Returns the sum over what ICMP's checksum covers of it.
    fn set_icmp(&mut self, length: usize, tuple: &Tuple<F>) -> Sum;

    /// Returns its class of treatment by routers, for [`Self::set_envelope`].
    fn class(&self) -> u32;

    /// Makes this the header of an envelope around a packet of `length` bytes and of this class, with
    /// the addresses of `outer` and this hop limit. Both headers have the same congestion mark (RFC 6040 section 4.1).
    fn set_envelope(&mut self, class: u32, length: u32, hops: u8, outer: &Tuple<F>);

    /// Writes the packet's mark of congestion. Returns what that changes in a sum over the header.
    fn set_congestion(&mut self, mark: u32) -> Folded;

    /// Writes the addresses of `new`, which differ by `change` from what there is.
    #[inline(always)]
    fn set_addresses(&mut self, new: &Tuple<F>, change: Folded) {
        self.set_source(new.source);
        self.set_destination(new.destination);
        self.adjust_checksum(change);
    }
}

impl HeaderMut<V4> for Ipv4Header {
    #[inline(always)]
    fn set_source(&mut self, address: u32) {
        self.source = address;
    }

    #[inline(always)]
    fn set_destination(&mut self, address: u32) {
        self.destination = address;
    }

    #[inline(always)]
    fn set_hop_limit(&mut self, hops: u8) {
        self.time_to_live = hops;
    }

    #[inline(always)]
    fn adjust_checksum(&mut self, change: Folded) {
        self.checksum = change.apply(self.checksum);
    }

    #[inline(always)]
    fn set_icmp(&mut self, length: usize, tuple: &Tuple<V4>) -> Sum {
        let total = (size_of::<Self>() + length) as u16;
        self.begin(0, total, HOPS, V4::ICMP, &tuple.reversed());
        Sum::default()
    }

    #[inline(always)]
    fn class(&self) -> u32 {
        self.service.into()
    }

    #[inline(always)]
    fn set_envelope(&mut self, class: u32, length: u32, hops: u8, outer: &Tuple<V4>) {
        // Of what the kernel is still to cut, 0 means that it is longer than the field holds.
        let total = u16::try_from(size_of::<Self>() as u32 + length).unwrap_or(0);
        self.begin(class as u8, total, hops, V4::ENVELOPE, outer);
    }

    #[inline(always)]
    fn set_congestion(&mut self, mark: u32) -> Folded {
        let was = self.service;
        self.service = was & !3 | mark as u8;
        // The field is the second of its word.
        let [was, is] = [was, self.service].map(|service| u16::from_ne_bytes([0, service]));
        let change = Sum::default().replace(was.into(), is.into()).fold();
        self.adjust_checksum(change);
        change
    }
}

impl Ipv4Header {
    /// Makes this the header of a packet of `total` bytes between these addresses, with this hop limit and protocol
    /// and its checksum. That is made of what is written, not of what stands there then: a load over several stores
    /// waits for all of them.
    #[inline(always)]
    fn begin(&mut self, service: u8, total: u16, hops: u8, protocol: u8, between: &Tuple<V4>) {
        let first = u32::from_ne_bytes([0x45, service, 0, 0]) | u32::from(total.to_be()) << 16;
        let unfragmented = u32::from(DONT_FRAGMENT.to_be()) << 16;
        let third = u32::from_ne_bytes([hops, protocol, 0, 0]);
        let mut words = [
            first,
            unfragmented,
            third,
            between.source,
            between.destination,
        ];
        let sum = words.into_iter().fold(Sum::default(), Sum::with);
        words[2] |= u32::from(sum.apply(!0)) << 16;
        let header = (&raw mut *self).cast::<[u32; 5]>();
        // SAFETY: the header is five words; on their alignment see `Access::at`.
        unsafe { *header = words };
    }
}

impl HeaderMut<V6> for Ipv6Header {
    #[inline(always)]
    fn set_source(&mut self, address: [u32; 4]) {
        self.source = address;
    }

    #[inline(always)]
    fn set_destination(&mut self, address: [u32; 4]) {
        self.destination = address;
    }

    #[inline(always)]
    fn set_hop_limit(&mut self, hops: u8) {
        self.hop_limit = hops;
    }

    #[inline(always)]
    fn adjust_checksum(&mut self, _: Folded) {}

    #[inline(always)]
    fn set_icmp(&mut self, length: usize, tuple: &Tuple<V6>) -> Sum {
        *self = Self {
            version_class_flow: 0x6000_0000_u32.to_be(),
            payload_length: (length as u16).to_be(),
            next_header: V6::ICMP,
            hop_limit: HOPS,
            source: tuple.destination,
            destination: tuple.source,
        };
        // The pseudo header, RFC 8200 section 8.1.
        let mut sum = Sum::default()
            .with((length as u32).to_be())
            .with(u32::from(V6::ICMP).to_be());
        for address in [&tuple.source, &tuple.destination] {
            for word in address {
                sum = sum.with(*word);
            }
        }
        sum
    }

    #[inline(always)]
    fn class(&self) -> u32 {
        self.version_class_flow
    }

    /// With the flow label of the packet inside, by which routers distinguish flows (RFC 6438).
    #[inline(always)]
    fn set_envelope(&mut self, class: u32, length: u32, hops: u8, outer: &Tuple<V6>) {
        *self = Self {
            version_class_flow: class,
            payload_length: u16::try_from(length).unwrap_or(0).to_be(),
            next_header: V6::ENVELOPE,
            hop_limit: hops,
            source: outer.source,
            destination: outer.destination,
        };
    }

    #[inline(always)]
    fn set_congestion(&mut self, mark: u32) -> Folded {
        let was = self.version_class_flow;
        self.version_class_flow = was & !Self::CONGESTION | (mark << 20).to_be();
        let is = self.version_class_flow;
        Sum::default().replace(was, is).fold()
    }
}

/// Writes the addresses of `new` into the network header at `network` in place of those of `old`.
/// `checksum`: where a checksum is that covers them, if one does.
#[inline(always)]
pub(crate) fn write_addresses<F: Rewrite>(
    context: &impl Access,
    network: usize,
    old: &Tuple<F>,
    new: &Tuple<F>,
    checksum: Option<usize>,
) -> Result<(), AccessError> {
    let change = old.address_difference(new).fold();
    context
        .at_mut::<F::Header>(network)?
        .set_addresses(new, change);
    if let Some(checksum) = checksum {
        context.adjust_checksum(checksum, change, true)?;
    }
    adjust_frame_sum::<F>(context, change);
    Ok(())
}

/// Takes one hop off the limit, which is not 0, of the packet with its network header at
/// `network`.
#[inline(always)]
pub(crate) fn decrement_hop_limit<F: Rewrite>(
    context: &impl Access,
    network: usize,
) -> Result<(), AccessError> {
    let header = context.at_mut::<F::Header>(network)?;
    decrement_hop_limit_of::<F>(context, header);
    Ok(())
}

/// As [`decrement_hop_limit`], of the packet with this header.
#[inline(always)]
pub(crate) fn decrement_hop_limit_of<F: Rewrite>(context: &impl Access, header: &mut F::Header) {
    header.set_hop_limit(header.hop_limit() - 1);
    let change = Sum::default().replace(F::ONE_HOP.into(), 0).fold();
    header.adjust_checksum(change);
    adjust_frame_sum::<F>(context, change);
}
