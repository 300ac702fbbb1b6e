//! Giving a packet another tuple, whatever its form.

use shunt_common::{SCTP, TCP, Tuple};

use crate::{
    ctx::access::{Access, AccessError},
    packet::{
        parsed::{Form, Packet},
        segment::{TcpHeader, UdpHeader},
    },
    rewrite::{
        inner::rewrite_error,
        network::{Rewrite, write_addresses},
        sctp::rewrite_sctp,
        transport::rewrite_segment,
    },
};

/// Gives the packet the tuple `new`. `Err` leaves a packet that must be dropped.
#[inline(always)]
pub(crate) fn rewrite<F: Rewrite>(
    context: &impl Access,
    packet: &Packet<F>,
    new: &Tuple<F>,
) -> Result<(), AccessError> {
    match packet.form {
        Form::Error => rewrite_error(context, packet, new),
        Form::LaterFragment => {
            write_addresses(context, packet.network.get(), &packet.tuple, new, None)
        }
        Form::Whole | Form::FirstFragment => match packet.protocol {
            SCTP => rewrite_sctp(context, packet, new),
            TCP => rewrite_segment::<F, TcpHeader>(context, packet, new),
            _ => rewrite_segment::<F, UdpHeader>(context, packet, new),
        },
    }
}
