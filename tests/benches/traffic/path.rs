//! From which client to which server.

use std::net::SocketAddrV4;

use shunt_tests::Namespace;

use super::{
    services::{self, Place, SERVED},
    subject::{Proxy, Subject},
};
use crate::load::Exchange;

/// A way that packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// From a pod through a ClusterIP to a pod of the same node.
    SameNode,
    /// From a pod through a ClusterIP to a pod of the second node.
    SecondNode,
    /// From outside through a NodePort to a pod of that node.
    OutsideLocal,
    /// From outside through a NodePort to a pod of the second node.
    OutsideRemote,
}

impl Path {
    pub(super) const ALL: [Self; 4] = [
        Self::SameNode,
        Self::SecondNode,
        Self::OutsideLocal,
        Self::OutsideRemote,
    ];

    /// The word for it in a study's name.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::SameNode => "same-node",
            Self::SecondNode => "second-node",
            Self::OutsideLocal => "outside-local",
            Self::OutsideRemote => "outside-remote",
        }
    }

    /// Returns the place of the backends.
    pub(super) const fn place(self) -> Place {
        match self {
            Self::SameNode | Self::OutsideLocal => Place::Local,
            Self::SecondNode | Self::OutsideRemote => Place::Remote,
        }
    }

    /// Returns the client's namespace.
    pub(super) fn client(self, subject: &Subject) -> &Namespace {
        match self {
            Self::SameNode | Self::SecondNode => subject.sandbox().pod("pod-c").namespace(),
            Self::OutsideLocal | Self::OutsideRemote => subject.sandbox().outside(),
        }
    }

    /// Returns the address that the client connects to.
    pub(super) fn target(self, subject: &Subject, exchange: Exchange) -> SocketAddrV4 {
        let place = self.place();
        if subject.kind().proxy == Proxy::Direct {
            // Each kind of connection to another address, so that no port comes twice.
            let host = match exchange {
                Exchange::ServerCloses => 1,
                _ => 0,
            };
            return SocketAddrV4::new(place.address(services::HOSTS.start + host), SERVED);
        }
        match self {
            Self::SameNode | Self::SecondNode => place.cluster_ip(),
            Self::OutsideLocal | Self::OutsideRemote => {
                SocketAddrV4::new(services::node().address, place.node_port())
            }
        }
    }
}
