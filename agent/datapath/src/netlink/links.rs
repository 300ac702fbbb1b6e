//! The interfaces that there are, as the kernel lists them.

use std::{collections::BTreeMap, io, mem};

use rtnetlink::packet_route::{
    RouteNetlinkMessage,
    link::{
        InfoData, InfoKind, InfoPortKind, InfoVlan, LinkAttribute, LinkExtentMask, LinkInfo,
        LinkMessage, LinkXdp, VlanProtocol, XdpAttached,
    },
};

use crate::netlink::{
    dump::{Listing, dump, get},
    gre,
    messages::interface_of,
};

/// An interface of our network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// Its flags, `IFF_` of `linux/if.h`.
    pub(crate) flags: u32,
    /// Its link type, an `ARPHRD_` of `linux/if_arp.h`.
    pub(crate) layer: u16,
    /// Kind of virtual interface; `None` of a real one.
    pub(crate) kind: Option<InfoKind>,
    /// The index of the interface that it is a port of.
    pub(crate) controller: Option<u32>,
    /// Kind of that interface.
    pub(crate) port: Option<InfoPortKind>,
    /// The index of the interface that its frames come by as they are, if that is in our network namespace.
    pub(crate) over: Option<u32>,
    /// The EtherType of its frames' tags, if it is a VLAN's.
    pub(crate) vlan: Option<VlanProtocol>,
    /// Its link address, if that is one of Ethernet.
    pub(crate) address: Option<[u8; 6]>,
    /// The XDP program that it has.
    pub(crate) xdp: Option<LinkProgram>,
    /// True if it is one end of a pair, and the other one in another network namespace.
    pub(crate) leads_elsewhere: bool,
    /// True if it is a GRE tunnel whose packets begin with the tunnel's own header.
    pub(crate) has_outer_header: bool,
}

/// An XDP program on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkProgram {
    /// The kernel's number of it.
    pub(crate) program: u32,
    pub(crate) running: Running,
}

/// Place at which an XDP program runs.
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

/// The interfaces as they were listed last, by index.
#[derive(Debug, Default)]
pub(crate) struct KnownLinks(BTreeMap<u32, Link>);

impl KnownLinks {
    /// Every interface of the calling thread's network namespace. One that cannot be read is as it was.
    ///
    /// # Errors
    ///
    /// If the kernel does not list them.
    pub(crate) fn list(&mut self) -> io::Result<Vec<Link>> {
        let Listing { items, unread } = listing()?;
        self.learn(items, &unread);
        Ok(self.0.values().cloned().collect())
    }

    /// Returns the interface's name.
    pub(crate) fn name(&self, index: u32) -> Option<&str> {
        self.0.get(&index).map(|link| link.name.as_str())
    }

    /// Returns whether the interface leads to another network namespace, as far as it is known.
    pub(crate) fn leads_elsewhere(&self, index: u32) -> bool {
        let link = self.0.get(&index);
        link.is_some_and(|link| link.leads_elsewhere)
    }

    fn learn(&mut self, links: Vec<Link>, unread: &[Box<[u8]>]) {
        let before = mem::take(&mut self.0);
        let unread = unread.iter().filter_map(|message| interface_of(message));
        self.0 = (unread.filter_map(|index| before.get_key_value(&index)))
            .map(|(index, link)| (*index, link.clone()))
            .chain(links.into_iter().map(|link| (link.index, link)))
            .collect();
    }
}

/// Every interface of the calling thread's network namespace that can be read.
///
/// # Errors
///
/// If the kernel does not list them.
pub(crate) fn list() -> io::Result<Vec<Link>> {
    listing().map(|listing| listing.items)
}

/// The interface with this name, in the calling thread's network namespace.
///
/// # Errors
///
/// If there is none, or it cannot be read.
pub(crate) fn of_name(name: &str) -> io::Result<Link> {
    let request = RouteNetlinkMessage::GetLink(request(LinkAttribute::IfName(name.to_owned())));
    match get(request)? {
        RouteNetlinkMessage::NewLink(link) => Link::of(link),
        _ => None,
    }
    .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A request for interfaces without their counters, which are the most of an answer, and are not used.
fn request(attribute: impl Into<Option<LinkAttribute>>) -> LinkMessage {
    let mut request = LinkMessage::default();
    let no_counters = LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]);
    request.attributes.push(no_counters);
    request.attributes.extend(attribute.into());
    request
}

fn listing() -> io::Result<Listing<Link>> {
    dump(
        RouteNetlinkMessage::GetLink(request(None)),
        |message| match message {
            RouteNetlinkMessage::NewLink(link) => Link::of(link),
            _ => None,
        },
    )
}

impl Link {
    /// Returns whether a pod or a guest is at its other end.
    pub(crate) const fn is_of_another_stack(&self) -> bool {
        matches!(
            self.kind,
            Some(InfoKind::Veth | InfoKind::Netkit | InfoKind::Tun)
        )
    }

    /// Reads an interface; `None` if it has no name.
    pub(crate) fn of(message: LinkMessage) -> Option<Self> {
        let mut name = None;
        let (mut kind, mut controller, mut port) = (None, None, None);
        let (mut over, mut vlan) = (None, None);
        let (mut address, mut xdp) = (None, None);
        // Only of another end, or what it is on top of, in another namespace there is the namespace's number.
        let mut is_other_end_elsewhere = false;
        let mut has_outer_header = false;
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(text) => name = Some(text),
                LinkAttribute::Controller(index) => controller = Some(index),
                LinkAttribute::Link(index) => over = Some(index),
                LinkAttribute::Address(bytes) => address = bytes.try_into().ok(),
                LinkAttribute::Xdp(facts) => xdp = LinkProgram::of(&facts),
                LinkAttribute::LinkNetNsId(_) => is_other_end_elsewhere = true,
                LinkAttribute::LinkInfo(infos) => {
                    for info in infos {
                        match info {
                            LinkInfo::Kind(of) => kind = Some(of),
                            LinkInfo::PortKind(of) => port = Some(of),
                            LinkInfo::Data(InfoData::Vlan(facts)) => {
                                vlan = facts.into_iter().find_map(|fact| match fact {
                                    InfoVlan::Protocol(protocol) => Some(protocol),
                                    _ => None,
                                });
                            }
                            LinkInfo::Data(data) => has_outer_header = gre::has_outer_header(&data),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        let is_pair = matches!(kind, Some(InfoKind::Veth | InfoKind::Netkit));
        // A pair's other end, and what is below a tunnel, have the same attribute.
        let shares_frames = matches!(
            kind,
            Some(InfoKind::Vlan | InfoKind::MacVlan | InfoKind::MacVtap)
        );
        Some(Self {
            leads_elsewhere: is_pair && is_other_end_elsewhere,
            index: message.header.index,
            flags: message.header.flags.bits(),
            name: name?,
            layer: message.header.link_layer_type.into(),
            kind,
            controller,
            port,
            over: over.filter(|_| shares_frames && !is_other_end_elsewhere),
            vlan,
            address,
            xdp,
            has_outer_header,
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
impl Link {
    /// An interface of Ethernet's link layer, of which nothing else is known.
    pub(crate) fn named(index: u32, name: &str) -> Self {
        Self {
            index,
            name: name.to_owned(),
            flags: 0,
            layer: libc::ARPHRD_ETHER,
            kind: None,
            controller: None,
            port: None,
            over: None,
            vlan: None,
            address: None,
            xdp: None,
            leads_elsewhere: false,
            has_outer_header: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use libc::ARPHRD_LOOPBACK;

    use super::*;

    #[test]
    fn the_loopback_interface_is_listed() {
        let links = KnownLinks::default().list().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").unwrap();
        assert_eq!((lo.index, lo.layer), (1, ARPHRD_LOOPBACK));
        assert_eq!((&lo.kind, lo.controller), (&None, None));
        assert_eq!((lo.address, lo.xdp), (Some([0; 6]), None));
    }

    #[test]
    fn a_pair_that_is_no_pair_or_that_stays_here_leads_nowhere() {
        let name = || LinkAttribute::IfName("pod".to_owned());
        let of = |kind| LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]);
        let elsewhere = || LinkAttribute::LinkNetNsId(0);
        let leads_elsewhere = |attributes: &[LinkAttribute]| {
            let mut message = LinkMessage::default();
            message.attributes = [&[name()], attributes].concat();
            Link::of(message).unwrap().leads_elsewhere
        };
        assert!(leads_elsewhere(&[of(InfoKind::Veth), elsewhere()]));
        assert!(leads_elsewhere(&[elsewhere(), of(InfoKind::Netkit)]));
        assert!(
            !leads_elsewhere(&[of(InfoKind::Veth)]),
            "the other end is here"
        );
        assert!(!leads_elsewhere(&[of(InfoKind::Bridge), elsewhere()]));
        assert!(!leads_elsewhere(&[elsewhere()]));
    }

    #[test]
    fn what_shares_the_frames_of_another_interface_is_on_top_of_it() {
        let over = |kind, elsewhere: Option<LinkAttribute>| {
            let mut message = LinkMessage::default();
            message.attributes = vec![
                LinkAttribute::IfName("any".to_owned()),
                LinkAttribute::Link(7),
                LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]),
            ];
            message.attributes.extend(elsewhere);
            Link::of(message).unwrap().over
        };
        assert_eq!(over(InfoKind::Vlan, None), Some(7));
        assert_eq!(over(InfoKind::MacVlan, None), Some(7));
        let elsewhere = LinkAttribute::LinkNetNsId(0);
        assert_eq!(over(InfoKind::Vlan, Some(elsewhere)), None);
        assert_eq!(over(InfoKind::Veth, None), None, "the other end");
        assert_eq!(over(InfoKind::Vxlan, None), None, "the outer packets");
    }

    #[test]
    fn an_interface_that_cannot_be_read_is_as_it_was() {
        let message = |index: u32| -> Box<[u8]> {
            let mut message = vec![0; 32];
            message[20..24].copy_from_slice(&index.to_ne_bytes());
            message.into()
        };
        let mut known = KnownLinks::default();
        let mut names = |links: &[Link], unread: &[Box<[u8]>]| -> Vec<String> {
            known.learn(links.to_vec(), unread);
            known.0.values().map(|link| link.name.clone()).collect()
        };
        let (lo, eth0) = (Link::named(1, "lo"), Link::named(2, "eth0"));
        assert_eq!(names(&[lo.clone(), eth0], &[]), ["lo", "eth0"]);
        let unread = [message(2), message(7), [0; 3].into()];
        assert_eq!(names(std::slice::from_ref(&lo), &unread), ["lo", "eth0"]);
        assert_eq!(names(&[lo], &[]), ["lo"]);
    }
}
