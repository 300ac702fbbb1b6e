//! The interfaces that there are, as the kernel lists them.

use std::io;

use rtnetlink::packet_route::{
    RouteNetlinkMessage,
    link::{
        InfoKind, InfoPortKind, LinkAttribute, LinkExtentMask, LinkInfo, LinkMessage, LinkXdp,
        XdpAttached,
    },
};

use crate::attach::dump::dump;

/// An interface of our network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// Its link type, an `ARPHRD_` of `linux/if_arp.h`.
    pub(crate) layer: u16,
    /// Which kind of virtual interface it is; `None` of a real one.
    pub(crate) kind: Option<InfoKind>,
    /// The index of the interface that it is a port of.
    pub(crate) controller: Option<u32>,
    /// Which kind of interface that is.
    pub(crate) port: Option<InfoPortKind>,
    /// Its link address, if that is one of Ethernet.
    pub(crate) address: Option<[u8; 6]>,
    /// The XDP program that it has.
    pub(crate) xdp: Option<LinkProgram>,
}

/// An XDP program on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkProgram {
    /// The kernel's number of it.
    pub(crate) program: u32,
    pub(crate) running: Running,
}

/// Where an XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Running {
    /// In the driver.
    Native,
    /// Before the stack, once the kernel has made a packet of the frame.
    Generic,
    /// In the hardware, or in more than one place.
    Elsewhere,
}

impl Running {
    /// As it is called in flags.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// Every interface of the calling thread's network namespace.
///
/// # Errors
///
/// If the kernel does not list them.
pub(crate) fn list() -> io::Result<Vec<Link>> {
    let mut request = LinkMessage::default();
    // Counters are the most of an answer, and nobody looks at them.
    request
        .attributes
        .push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
    let mut links = Vec::new();
    dump(RouteNetlinkMessage::GetLink(request), |message| {
        if let RouteNetlinkMessage::NewLink(link) = message {
            links.extend(Link::of(link));
        }
    })?;
    Ok(links)
}

impl Link {
    fn of(message: LinkMessage) -> Option<Self> {
        let mut name = None;
        let (mut kind, mut controller, mut port) = (None, None, None);
        let (mut address, mut xdp) = (None, None);
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(text) => name = Some(text),
                LinkAttribute::Controller(index) => controller = Some(index),
                LinkAttribute::Address(bytes) => address = bytes.try_into().ok(),
                LinkAttribute::Xdp(facts) => xdp = LinkProgram::of(&facts),
                LinkAttribute::LinkInfo(infos) => {
                    for info in infos {
                        match info {
                            LinkInfo::Kind(of) => kind = Some(of),
                            LinkInfo::PortKind(of) => port = Some(of),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Some(Self {
            index: message.header.index,
            name: name?,
            layer: message.header.link_layer_type.into(),
            kind,
            controller,
            port,
            address,
            xdp,
        })
    }
}

impl LinkProgram {
    fn of(facts: &[LinkXdp]) -> Option<Self> {
        let (mut program, mut running) = (None, None);
        for fact in facts {
            match fact {
                LinkXdp::Attached(XdpAttached::None) => {}
                LinkXdp::Attached(XdpAttached::Driver) => running = Some(Running::Native),
                LinkXdp::Attached(XdpAttached::SocketBuffer) => running = Some(Running::Generic),
                LinkXdp::Attached(_) => running = Some(Running::Elsewhere),
                LinkXdp::ProgId(id)
                | LinkXdp::DrvProgId(id)
                | LinkXdp::SkbProgId(id)
                | LinkXdp::HwProgId(id) => program = Some(*id),
                _ => {}
            }
        }
        Some(Self {
            program: program?,
            running: running?,
        })
    }
}

#[cfg(test)]
mod tests {
    use libc::ARPHRD_LOOPBACK;

    use super::*;

    #[test]
    fn the_loopback_interface_is_listed() {
        let links = list().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").unwrap();
        assert_eq!((lo.index, lo.layer), (1, ARPHRD_LOOPBACK));
        assert_eq!((&lo.kind, lo.controller), (&None, None));
        assert_eq!((lo.address, lo.xdp), (Some([0; 6]), None));
    }
}
