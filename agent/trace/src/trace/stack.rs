//! The kernel's stack: the routes of packets, and whether packets reach their destinations.

use std::net::IpAddr;

use crate::{
    dump::{
        content::{Interface, LinkAddress, RouteKind},
        record::Dump,
    },
    trace::{
        fib::Fib,
        frame::take_hop,
        journey::Journey,
        read::Read,
        step::{End, Step},
    },
};

impl<'a> Journey<'a> {
    /// Follows a packet through the kernel's stack.
    pub(super) fn route(
        &mut self,
        from: Option<&Interface>,
        frame: &mut [u8],
        is_ethernet: bool,
    ) -> Result<&'a Interface, End> {
        let Some(read) = Read::of_frame(frame, is_ethernet) else {
            return Err(End::Dropped);
        };
        let to = read.destination;
        // Of a process, what it sends is routed as if it came by the loopback interface.
        let index = from.map_or(1, |from| from.index);
        let fib = self.fib();
        let found = match fib.look_up(index, read.source, to) {
            Ok(found) => found,
            Err(kind) => {
                let fate = match kind {
                    RouteKind::Blackhole => "its route is a blackhole",
                    RouteKind::Prohibit => "its route says prohibited",
                    RouteKind::Unreachable => "its route says unreachable",
                    _ => "there is no route to its destination",
                };
                return Err(self.fate(fate.to_owned(), End::Dropped));
            }
        };
        if matches!(found.route.kind, RouteKind::Local | RouteKind::Anycast) {
            let text = format!("it is for this node: {read}");
            return Err(self.fate(text, End::Delivered));
        }
        let Some((hop, out)) = found
            .hop
            .and_then(|hop| Some((hop, fib.interface(hop.interface)?)))
        else {
            return Err(self.fate(
                format!("nothing is done with packets to {to}"),
                End::Dropped,
            ));
        };
        let mtu = fib.mtu(found.route, hop);
        let next = hop.gateway.unwrap_or(to);
        let mut remark = None;
        if found.others > 0 {
            remark = Some(format!(
                "the kernel takes one of {} ways by a hash of the packet",
                found.others + 1
            ));
        } else if fib.neighbour(hop.interface, next).is_none() && out.name != "lo" {
            remark = Some(
                "the next hop's link address is not known yet: the kernel finds it out".to_owned(),
            );
        }
        self.steps.push(Step::Route {
            to,
            interface: Some(out.name.clone()),
            gateway: hop.gateway,
            mtu: Some(mtu),
            remark,
        });
        let Some(from) = from else {
            return Ok(out);
        };
        if !fib.forwards(from.index, to.is_ipv6()) {
            let text = format!("forwarding is off on {}: the packet is dropped", from.name);
            return Err(self.fate(text, End::Dropped));
        }
        if read.hop_limit <= 1 {
            let text = "the packet has come too far: its sender is told".to_owned();
            return Err(self.fate(text, End::Rejected));
        }
        if read.length as u64 > u64::from(mtu) && read.is_whole {
            let text = format!(
                "the packet of {} bytes is too long: its sender is told",
                read.length
            );
            return Err(self.fate(text, End::Rejected));
        }
        take_hop(frame, is_ethernet);
        self.steps.push(Step::Stack {
            fate: format!("forwarded to {}, if its rules (netfilter) let it", out.name),
        });
        Ok(out)
    }

    fn fate(&mut self, fate: String, end: End) -> End {
        self.steps.push(Step::Stack { fate });
        end
    }
}

/// A neighbour's link address for a packet from this address.
pub(crate) fn neighbour_of(
    dump: &Dump,
    interface: &Interface,
    from: IpAddr,
) -> Option<LinkAddress> {
    let fib = Fib(dump);
    let next = fib
        .look_up(1, from, from)
        .ok()?
        .hop?
        .gateway
        .unwrap_or(from);
    fib.neighbour(interface.index, next)
}
