//! The field of the siege: the sandbox, a client far away, and a world outside that never answers.
//!
//! ```text
//!   far ~~ 100 ms each way ~~ outside ---- node ---- node2
//! ```
//!
//! Floods come from `outside`, with the addresses of a network that `outside` is the way to, and
//! which has no hosts: what is sent there is lost without an error.

use std::net::{IpAddr, UdpSocket};

use anyhow::{Context as _, Result};
use shunt_tests::{FarWorld, Namespace, Random, Sandbox, addresses, nobody};

use crate::services::{BACKENDS, SERVED, SINK};

/// Address family of a siege.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// The address of this family that belongs to an IPv4 address.
    pub(crate) fn of(self, address: IpAddr) -> IpAddr {
        match self {
            Self::V4 => address,
            Self::V6 => addresses::v6(address),
        }
    }

    /// An address without a host.
    pub(crate) fn nobody(self, random: &mut Random) -> IpAddr {
        nobody(self == Self::V6, random)
    }
}

/// The field. Dropping it removes all of it.
#[derive(Debug)]
pub(crate) struct Field {
    far: FarWorld,
    _sinks: Vec<UdpSocket>,
    sandbox: Sandbox,
}

impl Field {
    /// Makes it; the servers run.
    ///
    /// # Errors
    ///
    /// When a namespace or an interface cannot be made, or a port is taken.
    pub(crate) fn new() -> Result<Self> {
        let mut sandbox = Sandbox::new()?;
        let far = FarWorld::new(&sandbox, 0)?;
        let mut sinks = Vec::new();
        for (pod, address) in BACKENDS {
            sandbox.serve(pod, &[SERVED])?;
            for address in [address, addresses::v6(address)] {
                let namespace = sandbox.pod(pod).namespace();
                let sink = namespace.enter(|| UdpSocket::bind((address, SINK)));
                sinks.push(sink.with_context(|| format!("{pod} cannot bind port {SINK}"))?);
            }
        }
        Ok(Self {
            far,
            _sinks: sinks,
            sandbox,
        })
    }

    /// This node.
    pub(crate) const fn node(&self) -> &Namespace {
        self.sandbox.node()
    }

    /// Returns the client pod's namespace.
    pub(crate) fn pod(&self) -> &Namespace {
        self.sandbox.pod("pod-c").namespace()
    }

    /// Returns the namespace of clients and floods outside.
    pub(crate) const fn outside(&self) -> &Namespace {
        self.sandbox.outside()
    }

    /// Returns the far client's namespace.
    pub(crate) const fn far(&self) -> &Namespace {
        self.far.client()
    }
}
