//! Contents of the connection tables, as the agent lists them and as they are in their slots.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use shunt_common::{
    Family, Tuple,
    connections::{Role, Wide},
};
use shunt_datapath::{ConntrackState, LiveConnection};
use shunt_tests::ConnectionSlots;

use super::{
    cluster::{Endpoint, Protocol},
    flow::Ends,
};

/// The connections of both families.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// By the ends of their requests those of their replies, whether their time is over or not.
    pub all: BTreeMap<Ends, Ends>,
    /// States of the connections whose time is not over.
    pub listed: BTreeMap<Ends, ConntrackState>,
}

impl Contents {
    /// Adds what is in a table; an error if a half is alone, or there twice.
    pub(crate) fn read<F: Wide>(
        &mut self,
        table: &ConnectionSlots<F>,
        ip: fn(F::Address) -> IpAddr,
    ) -> Result<(), String> {
        let connections = table.connections();
        let halves = [Role::Forward, Role::Reply].map(|role| table.halves(role));
        if halves != [connections.len(); 2] {
            let whole = connections.len();
            return Err(format!("{whole} connections have {halves:?} halves"));
        }
        for snapshot in connections {
            let connection = snapshot.connection;
            let protocol = Protocol(connection.forward.protocol());
            let request = ends(protocol, &connection.client(), ip);
            let reply = ends(protocol, &connection.reply.tuple(), ip);
            if self.all.insert(request, reply).is_some() {
                return Err(format!("{request:?} is there twice"));
            }
        }
        Ok(())
    }

    /// Adds what the agent lists.
    pub(crate) fn list(&mut self, connection: &LiveConnection) {
        let endpoint = |at: SocketAddr| Endpoint {
            ip: at.ip(),
            port: at.port(),
        };
        let request = Ends {
            protocol: Protocol(connection.protocol),
            source: endpoint(connection.client),
            destination: endpoint(connection.frontend),
        };
        self.listed.insert(request, connection.state);
    }
}

fn ends<F: Family>(protocol: Protocol, tuple: &Tuple<F>, ip: fn(F::Address) -> IpAddr) -> Ends {
    let endpoint = |address, port| Endpoint {
        ip: ip(address),
        port: u16::from_be(port),
    };
    Ends {
        protocol,
        source: endpoint(tuple.source, tuple.source_port),
        destination: endpoint(tuple.destination, tuple.destination_port),
    }
}
