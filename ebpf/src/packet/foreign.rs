//! Packets that no frontend is ever asked with: of other protocols, and ICMP's own questions.

use crate::packet::{
    extensions::WalkExtensions,
    family::Family,
    inner::IcmpHeader,
    link::Link,
    network::Part,
    offset::Offset,
    parsed::{Form, Packet},
};

/// Number of bytes behind its network header that an error about such a packet quotes (RFC 792).
const TOLD: usize = 8;

/// Reads the known parts of any packet into `packet`: addresses, and the protocol. Returns whether it is
/// a request: no ICMP error, and no message between the stations of a link. Another message that no
/// error is sent about has the form of one.
#[inline(always)]
pub(crate) fn read<F: Family, C: WalkExtensions>(
    context: &C,
    link: Link,
    packet: &mut Packet<F>,
) -> bool {
    let begin = link.header_length();
    context.pull((begin + F::HEADER_LENGTH + TOLD) as u32);
    let Ok(network) = F::read(context, begin) else {
        return false;
    };
    if network.end > context.length() as usize || network.transport > network.end {
        return false;
    }
    packet.link = link;
    packet.interface = context.interface();
    packet.network = Offset::new(begin);
    packet.transport = Offset::new(network.transport);
    packet.end = network.end as u32;
    packet.fragment = network.fragment;
    packet.options = F::options(context, begin, network.transport);
    packet.is_intact = F::is_intact(context, begin, network.transport);
    packet.form = match network.part {
        Part::Whole => Form::Whole,
        Part::First => Form::FirstFragment,
        Part::Later => Form::LaterFragment,
    };
    packet.tuple.source = *network.source;
    packet.tuple.destination = *network.destination;
    packet.tuple.source_port = 0;
    packet.tuple.destination_port = 0;
    packet.protocol = network.protocol;
    packet.least_length = (network.end - network.transport).min(TOLD) as u16;
    packet.payload = Offset::new(network.transport);
    if packet.protocol != F::ICMP || packet.form == Form::LaterFragment {
        return true;
    }
    let Ok(icmp) = context.at::<IcmpHeader>(network.transport) else {
        return false;
    };
    if F::is_report(icmp.kind) {
        packet.form = Form::Error;
    }
    !F::is_error(icmp.kind) && !F::is_of_link(icmp.kind)
}
