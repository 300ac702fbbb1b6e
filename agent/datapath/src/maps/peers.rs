//! The interfaces to whose other ends the programs may hand packets (`--redirect`).
//!
//! `bpf_redirect_peer` gives a packet to the other end of a veth or netkit pair, and loses it if there is
//! no such end or if it is in this network namespace.

use std::{collections::BTreeSet, io};

use aya::{
    Ebpf,
    maps::{HashMap, MapData, MapError},
};
use rtnetlink::{
    packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload},
    packet_route::{
        RouteNetlinkMessage,
        link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage},
    },
    sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE},
};
use shunt_common::registry;
use tracing::warn;

use crate::{error::DatapathError, maps::kernel_tables};

/// The table of these interfaces, by index.
#[derive(Debug)]
pub(crate) struct Peers(HashMap<MapData, u32, u32>);

impl Peers {
    /// The object's table.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        kernel_tables::take(ebpf, registry::PEERS).map(Self)
    }

    /// Makes those of `interfaces` whose other ends are elsewhere all that the table has.
    pub(crate) fn set(&mut self, interfaces: &BTreeSet<u32>) {
        if let Err(error) = self.try_set(interfaces) {
            // What is not in the table goes through the stack.
            warn!(%error, "some packets to pods go through the stack in spite of --redirect");
        }
    }

    fn try_set(&mut self, interfaces: &BTreeSet<u32>) -> Result<(), MapError> {
        let before: BTreeSet<u32> = self.0.keys().collect::<Result<_, _>>()?;
        for gone in before.difference(interfaces) {
            self.0.remove(gone)?;
        }
        // Those that led nowhere are asked for again: a pair may be made before its other end moves.
        for new in interfaces.difference(&before) {
            match leads_elsewhere(*new) {
                Ok(true) => self.0.insert(new, 0, 0)?,
                Ok(false) => {}
                Err(error) => warn!(
                    index = new,
                    %error,
                    "asking for an interface failed: its packets go through the stack"
                ),
            }
        }
        Ok(())
    }
}

/// Whether the interface is one end of a pair, and the other in another network namespace.
fn leads_elsewhere(index: u32) -> io::Result<bool> {
    let mut request = LinkMessage::default();
    request.header.index = index;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let payload = NetlinkPayload::from(RouteNetlinkMessage::GetLink(request));
    let mut message = NetlinkMessage::new(header, payload);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    match answer.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
            Ok(is_pair(&link.attributes))
        }
        // Gone meanwhile.
        NetlinkPayload::Error(error) if error.raw_code() == -libc::ENODEV => Ok(false),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn is_pair(attributes: &[LinkAttribute]) -> bool {
    let is_of_kind = attributes.iter().any(|attribute| {
        matches!(attribute, LinkAttribute::LinkInfo(infos) if infos.iter().any(|info| {
            matches!(info, LinkInfo::Kind(InfoKind::Veth | InfoKind::Netkit))
        }))
    });
    // Only of another end in another namespace there is the namespace's number.
    let is_elsewhere = attributes
        .iter()
        .any(|attribute| matches!(attribute, LinkAttribute::LinkNetNsId(_)));
    is_of_kind && is_elsewhere
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_that_is_no_pair_or_that_stays_here_leads_nowhere() {
        let veth = || LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth)]);
        let bridge = || LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]);
        let elsewhere = || LinkAttribute::LinkNetNsId(0);
        assert!(is_pair(&[veth(), elsewhere()]));
        assert!(!is_pair(&[veth()]), "the other end is in this namespace");
        assert!(!is_pair(&[bridge(), elsewhere()]));
        assert!(!is_pair(&[elsewhere()]));
    }

    #[test]
    fn the_loopback_interface_leads_nowhere() {
        assert!(!leads_elsewhere(1).unwrap());
        assert!(!leads_elsewhere(i32::MAX.unsigned_abs()).unwrap());
    }
}
