//! Where the siege takes place: the sandbox, a client far away, and a world outside that answers
//! nobody.
//!
//! ```text
//!   far ~~ 100 ms each way ~~ outside ---- node ---- node2
//! ```
//!
//! Floods come from `outside`, with the addresses of a network that `outside` is the way to, and
//! where nobody is: what is sent there is lost without a word.

use std::{
    net::{IpAddr, Ipv4Addr, UdpSocket},
    time::Duration,
};

use anyhow::{Context as _, Result};
use shunt_tests::{DelayLine, Namespace, Random, Sandbox, addresses};

use crate::services::{BACKENDS, SERVED, SINK};

/// Half of the time from the far client to the node and back.
const DELAY: Duration = Duration::from_millis(100);

/// The far client.
pub(crate) const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 7, 50));

/// Where floods seem to come from.
const NOWHERE: [&str; 2] = ["25.0.0.0/8", "fd66::/32"];

/// Of which family everything is.
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

    /// An address of nobody's.
    pub(crate) fn nobody(self, random: &mut Random) -> IpAddr {
        let [a, b, c, d] = random.word().to_be_bytes();
        match self {
            Self::V4 => IpAddr::from([25, b, c, d.max(1)]),
            Self::V6 => IpAddr::from([0xfd, 0x66, 0, 0, a, b, c, d, 0, 0, 0, 0, d, c, b, a.max(1)]),
        }
    }
}

/// The field. Dropping it removes all of it.
#[derive(Debug)]
pub(crate) struct Field {
    // The line ends before the namespaces that it connects.
    _line: DelayLine,
    _sinks: Vec<UdpSocket>,
    far: Namespace,
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
        let far = Namespace::new(0, "far")?;
        let outside = sandbox.outside();
        let line = DelayLine::new([(&far, "eth0"), (outside, "far")], DELAY)
            .context("cannot make a delay line")?;
        let far_v6 = addresses::v6(FAR);
        far.configure(&format!(
            "address add {FAR}/32 dev eth0\n\
             address add {far_v6}/128 dev eth0 nodad\n\
             link set eth0 up\n\
             route add default dev eth0\n\
             route add ::/0 dev eth0\n"
        ))?;
        let [nowhere, nowhere_v6] = NOWHERE;
        outside.configure(&format!(
            "link set far up\n\
             route add {FAR}/32 dev far\n\
             route add {far_v6}/128 dev far\n\
             route add blackhole {nowhere}\n\
             route add blackhole {nowhere_v6}\n"
        ))?;
        for setting in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            outside.set(setting, "1")?;
        }
        let (way, way_v6) = (addresses::OUTSIDE, addresses::v6(addresses::OUTSIDE));
        sandbox.node().configure(&format!(
            "route add default via {way} dev eth0\n\
             route add ::/0 via {way_v6} dev eth0\n"
        ))?;
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
            _line: line,
            _sinks: sinks,
            far,
            sandbox,
        })
    }

    /// This node.
    pub(crate) const fn node(&self) -> &Namespace {
        self.sandbox.node()
    }

    /// Where the client pod is.
    pub(crate) fn pod(&self) -> &Namespace {
        self.sandbox.pod("pod-c").namespace()
    }

    /// Where clients and floods outside are.
    pub(crate) const fn outside(&self) -> &Namespace {
        self.sandbox.outside()
    }

    /// Where the far client is.
    pub(crate) const fn far(&self) -> &Namespace {
        &self.far
    }
}
