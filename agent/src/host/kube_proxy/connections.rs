//! Connections whose destination netfilter translates, as its connection tracking has them.

use std::{io, net::SocketAddr};

use shunt_common::TCP;

use crate::host::nfnetlink::{CONNTRACK, Family, list, value_of};

/// `IPCTNL_MSG_CT_GET` of linux/netfilter/nfnetlink_conntrack.h.
const GET: u8 = 1;

/// `CTA_TUPLE_ORIG`, `CTA_STATUS` and `CTA_PROTOINFO`; `CTA_TUPLE_IP` and `CTA_TUPLE_PROTO`; `CTA_IP_V4_DST`
/// and `CTA_IP_V6_DST`; `CTA_PROTO_NUM` and `CTA_PROTO_DST_PORT`; `CTA_PROTOINFO_TCP` and
/// `CTA_PROTOINFO_TCP_STATE`.
const ORIGINAL: u16 = 1;
const STATUS: u16 = 3;
const PROTOCOL_INFO: u16 = 4;
const TUPLE_ADDRESSES: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;
const V4_DESTINATION: u16 = 2;
const V6_DESTINATION: u16 = 4;
const PROTOCOL: u16 = 1;
const DESTINATION_PORT: u16 = 3;
const TCP_INFO: u16 = 1;
const TCP_STATE: u16 = 1;

/// `IPS_DST_NAT` and `IPS_DYING` of linux/netfilter/nf_conntrack_common.h.
const TRANSLATED: u32 = 1 << 5;
const DYING: u32 = 1 << 9;

/// `TCP_CONNTRACK_TIME_WAIT` and `TCP_CONNTRACK_CLOSE` of linux/netfilter/nf_conntrack_tcp.h.
const TCP_ENDED: [u8; 2] = [7, 8];

/// A connection: its protocol, and whom its client asked.
pub(super) type Asked = (u8, SocketAddr);

/// Every connection of this family that has not ended, and whose destination is translated.
///
/// # Errors
///
/// If the kernel does not list them.
pub(super) fn translated(family: Family) -> io::Result<Vec<Asked>> {
    let mut connections = Vec::new();
    list(CONNTRACK, GET, family as u8, &[], |message| {
        connections.extend(asked(message));
    })?;
    Ok(connections)
}

/// Returns the destination that the client of a connection asked; `None` if that is not translated, or it has ended.
fn asked(message: &[u8]) -> Option<Asked> {
    let status = u32::from_be_bytes(value_of(message, STATUS)?.first_chunk().copied()?);
    if status & TRANSLATED == 0 || status & DYING != 0 {
        return None;
    }
    let original = value_of(message, ORIGINAL)?;
    let addresses = value_of(original, TUPLE_ADDRESSES)?;
    let v4 = value_of(addresses, V4_DESTINATION).and_then(<[u8]>::first_chunk::<4>);
    let v6 = value_of(addresses, V6_DESTINATION).and_then(<[u8]>::first_chunk::<16>);
    let address = v4
        .map(|octets| (*octets).into())
        .or_else(|| v6.map(|octets| (*octets).into()))?;
    let part = value_of(original, TUPLE_PROTOCOL)?;
    let protocol = *value_of(part, PROTOCOL)?.first()?;
    let port = u16::from_be_bytes(value_of(part, DESTINATION_PORT)?.first_chunk().copied()?);
    if protocol == TCP {
        let info = value_of(message, PROTOCOL_INFO).and_then(|info| value_of(info, TCP_INFO));
        let state = info.and_then(|info| value_of(info, TCP_STATE)?.first());
        if state.is_some_and(|state| TCP_ENDED.contains(state)) {
            return None;
        }
    }
    Some((protocol, SocketAddr::new(address, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::nfnetlink::attribute;

    /// A connection as the kernel lists it.
    fn listed(status: u32, protocol: u8, state: u8) -> Vec<u8> {
        let tuple = [
            attribute(TUPLE_ADDRESSES, &attribute(V4_DESTINATION, &[10, 96, 0, 1])),
            attribute(
                TUPLE_PROTOCOL,
                &[
                    attribute(PROTOCOL, &[protocol]),
                    attribute(DESTINATION_PORT, &[0, 80]),
                ]
                .concat(),
            ),
        ];
        [
            attribute(ORIGINAL, &tuple.concat()),
            attribute(STATUS, &status.to_be_bytes()),
            attribute(
                PROTOCOL_INFO,
                &attribute(TCP_INFO, &attribute(TCP_STATE, &[state])),
            ),
        ]
        .concat()
    }

    #[test]
    fn a_connection_counts_that_is_translated_and_has_not_ended() {
        const ESTABLISHED: u8 = 3;
        const TIME_WAIT: u8 = 7;
        let to = "10.96.0.1:80".parse().unwrap();
        for (status, protocol, state, expected) in [
            (TRANSLATED, 6, ESTABLISHED, Some((6, to))),
            (TRANSLATED | 0b1110, 6, ESTABLISHED, Some((6, to))),
            (TRANSLATED, 17, 0, Some((17, to))),
            (TRANSLATED, 6, TIME_WAIT, None),
            (TRANSLATED | DYING, 17, 0, None),
            (0b1110, 6, ESTABLISHED, None),
        ] {
            let message = listed(status, protocol, state);
            assert_eq!(asked(&message), expected, "{status:x} {protocol} {state}");
        }
        assert_eq!(asked(&[]), None);
    }
}
