//! A client far away, and a world outside that never answers: where floods seem to come from.
//!
//! ```text
//!   far ~~ 100 ms each way ~~ outside ---- node
//! ```

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::{
    delay_line::DelayLine,
    namespace::Namespace,
    random::Random,
    sandbox::{Sandbox, addresses},
};

/// Half of the time from the far client to the node and back.
const DELAY: Duration = Duration::from_millis(100);

/// The far client.
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 7, 50));

/// Ranges behind `outside` in which there is no host: what is sent there is lost without an error.
const NOWHERE: [&str; 2] = ["25.0.0.0/8", "fd66::/32"];

/// An address without a host.
#[must_use]
pub fn nobody(is_v6: bool, random: &mut Random) -> IpAddr {
    let [a, b, c, d] = random.word().to_be_bytes();
    if is_v6 {
        IpAddr::from([0xfd, 0x66, 0, 0, a, b, c, d, 0, 0, 0, 0, d, c, b, a.max(1)])
    } else {
        IpAddr::from([25, b, c, d.max(1)])
    }
}

/// The far client, in a namespace of its own. Dropping it removes that.
#[derive(Debug)]
pub struct FarWorld {
    // The line ends before the namespaces that it connects.
    _line: DelayLine,
    far: Namespace,
}

impl FarWorld {
    /// Puts it behind the sandbox's `outside`. The number is that of the sandbox, for the
    /// namespace's name.
    ///
    /// # Errors
    ///
    /// When a namespace or an interface cannot be made.
    pub fn new(sandbox: &Sandbox, number: u32) -> Result<Self> {
        let far = Namespace::new(number, "far")?;
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
        Ok(Self { _line: line, far })
    }

    /// Returns the far client's namespace.
    #[must_use]
    pub const fn client(&self) -> &Namespace {
        &self.far
    }
}
