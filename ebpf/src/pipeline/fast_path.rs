//! The fast path: packets in the form that nearly all have, whose connection is known.
//!
//! Whole TCP segments and UDP datagrams without IP options or extension headers end here if they
//! are of an established connection that keeps its source, or of no service. Their headers are
//! where the compiler knows them to be, and nothing of them is kept in memory. Any other packet is
//! left as it came, and the general path looks at it from its begin: it decides the same, only
//! more slowly.

use shunt_common::{
    Counter, FrontendKey, Hook, TCP, Tuple, UDP,
    connections::{Facts, Hit, Key, Meta, Role, Slot as _, place},
};

use crate::{
    ctx::{
        access::{Access, AccessError},
        verdict::Verdict,
    },
    forward::{
        own,
        redirect::{self, HopIndex},
        stack,
    },
    lb::{draw::Draw, foresight, frontend, maglev::Maglev},
    maps::{
        addresses::{are_pods_no_frontends, is_any_direct, is_any_masqueraded, is_of_pod},
        clock::now,
        conntrack::Words,
        constants::{REPLY_PORTS, are_pods_told_by_interface, redirects},
        counters::{count, drop_packet},
        guarded::{Filtered, guards, is_cluster_range},
        reached,
        services::{count_packet, counts_traffic},
    },
    nat::{approach, conntrack, masquerade, mend::is_broken, own_flow, wanted::Half},
    packet::{
        family::Header as _,
        link::Link,
        offset::Extent,
        segment::{Segment, TcpHeader, UdpHeader},
    },
    pipeline::{
        headers::{Headers, headers},
        program::Program,
    },
    rewrite::{
        checksum::adjust_segment,
        network::{HeaderMut as _, Rewrite},
        transport::SegmentMut,
    },
};

/// Action for a packet.
enum Action {
    /// It gets the tuple of this half, which keeps the client's end.
    Translate(Half),
    /// It is not ours.
    Pass,
    /// It takes the general path.
    General,
    /// It takes the general path, unless it is of a service and was translated at another hook: a service's
    /// connection has its tuple.
    Clash,
}

/// Handles the packet if it goes the fast path at this hook; `None` leaves it untouched. Not to be called
/// while another table hands over.
#[inline(always)]
pub(crate) fn handle<F: Program<C>, C: Access>(
    context: &C,
    link: Link,
    hook: Hook,
) -> Option<Verdict> {
    match context
        .at::<F::Header>(link.header_length())
        .ok()?
        .protocol_of_whole()?
    {
        TCP => segment::<F, C, TcpHeader>(context, link, TCP, hook),
        UDP => segment::<F, C, UdpHeader>(context, link, UDP, hook),
        _ => None,
    }
}

#[inline(always)]
fn segment<F: Program<C>, C: Access, T: SegmentMut>(
    context: &C,
    link: Link,
    protocol: u8,
    hook: Hook,
) -> Option<Verdict> {
    let begin = link.header_length();
    let offset = begin + F::HEADER_LENGTH;
    let Headers { network, transport } = headers::<F, T>(context, link)?;
    let addresses = F::pack(network.source(), network.destination());
    let ports = transport.ports().word();
    let mut key = Key::of_words(addresses, ports, protocol, Role::Forward);
    let mut flow = Flow::<F, T> {
        transport,
        key: F::sought(&mut key)?,
        destination: network.destination(),
        destination_port: transport.ports().destination,
        may_be_first: transport.may_be_first(),
        now: now(),
    };
    let action = match hook {
        Hook::Ingress => flow.incoming(),
        Hook::Egress => flow.reply(),
    };
    let hit = match action {
        Action::Translate(_) if hook == Hook::Egress && own::is_direct_reply(context) => {
            return Some(Verdict::PASS);
        }
        Action::Translate(half) => F::connections().read(half)?,
        Action::Pass
            if hook == Hook::Egress
                && (stack::is_halfway(context)
                    || flow.may_be_of_host(network.source(), transport.ports().source)
                        && !own::is_marked(context)) =>
        {
            return None;
        }
        Action::Pass => return Some(Verdict::PASS),
        Action::Clash if own::is_request(context) => return Some(Verdict::PASS),
        Action::General | Action::Clash => return None,
    };
    // The general path mends it, or sends it elsewhere.
    if is_broken(&hit, flow.now) || hook == Hook::Egress && is_elsewhere(context, &hit) {
        return None;
    }
    let role = hit.meta.role();
    let translated = hit.translated();
    let extent = Extent {
        network: begin,
        payload: offset + transport.length(),
    };
    let hop = match hook {
        Hook::Ingress => {
            let came = came::<F, T>(network, transport);
            redirect::find(context, link, extent, &came, &translated, false)
        }
        Hook::Egress => None,
    };
    if hook == Hook::Ingress && role == Role::Reply && hop.is_none() {
        return None;
    }
    // The general path drops it.
    if hop.is_some() && !network.is_intact() {
        return None;
    }
    if role == Role::Reply {
        own::mark(context);
    }
    let signal = transport.signal(|| {
        let packet = network.packet_length();
        packet.saturating_sub(extent.payload - extent.network)
    });
    F::connections().observe(&hit, signal, flow.now);
    if counts_traffic() {
        let service = Facts(hit.slot.load(place::FACTS)).service();
        count_packet(
            service,
            (role == Role::Reply).into(),
            network.packet_length() as u32,
        );
    }

    let was = transport.checksum();
    match role {
        Role::Forward => {
            network.set_destination(translated.destination);
            transport.ports_mut().destination = translated.destination_port;
        }
        Role::Reply => {
            network.set_source(translated.source);
            transport.ports_mut().source = translated.source_port;
        }
    }
    let addresses = bytemuck::cast(hit.times.address_change());
    let ports = bytemuck::cast(hit.times.port_change());
    network.adjust_checksum(addresses);
    if adjust_segment::<F, T>(context, offset, was, addresses, ports).is_err() {
        return Some(drop_packet(context, Counter::DropRewrite));
    }
    let Ok(verdict) = send::<F, C>(context, begin, hop, role) else {
        return Some(drop_packet(context, Counter::DropRewrite));
    };
    count(match role {
        Role::Forward => Counter::Request,
        Role::Reply => Counter::Reply,
    });
    Some(verdict)
}

/// Returns the tuple of the packet with these headers.
#[inline(always)]
fn came<F: Rewrite, T: SegmentMut>(network: &F::Header, transport: &T) -> Tuple<F> {
    Tuple {
        source: network.source(),
        destination: network.destination(),
        source_port: transport.ports().source,
        destination_port: transport.ports().destination,
    }
}

/// Returns true if the reply of this connection has to leave by another interface.
#[inline(always)]
fn is_elsewhere<F: Program<C>, C: Access>(context: &C, hit: &Hit<F, Words>) -> bool {
    hit.meta.has(Meta::RULED) && F::is_elsewhere(context, hit.index, hit.meta.version())
}

/// Sends a translated packet, whose network header is at `begin`, to its hop or through the stack.
#[inline(always)]
fn send<F: Program<C>, C: Access>(
    context: &C,
    begin: usize,
    hop: Option<HopIndex>,
    role: Role,
) -> Result<Verdict, AccessError> {
    match hop {
        Some(hop) => hop.take::<F>(context, begin),
        None => {
            if role == Role::Forward {
                own::mark_request(context);
            }
            Ok(Verdict::PASS)
        }
    }
}

/// Fields that are read of a packet.
struct Flow<'a, F: Maglev, T> {
    transport: &'a T,
    /// Key with which its connection is looked up.
    key: &'a mut Key<F>,
    destination: F::Address,
    /// Network order.
    destination_port: u16,
    may_be_first: bool,
    /// The tick.
    now: u32,
}

impl<F: Draw + Maglev, T: Segment> Flow<'_, F, T> {
    /// The half of a connection that the packet is of, in this direction, whether its time is over or
    /// not.
    #[inline(always)]
    fn find(&mut self, role: Role) -> Option<Half> {
        self.key.set_role(role);
        F::connections().find_half(self.key)
    }

    /// Returns whether the time of its connection may be over: the general path finds out.
    #[inline(always)]
    fn may_have_expired(&self, half: &Half) -> bool {
        F::connections().may_have_expired(half, self.now)
    }

    #[inline(always)]
    const fn is_syn(&self) -> bool {
        self.may_be_first && self.key.protocol() == TCP
    }

    /// Returns the action for a backend's packet.
    #[inline(always)]
    fn reply(&mut self) -> Action {
        match self.find(Role::Reply) {
            None => Action::Pass,
            Some(half)
                if half.meta.keeps_client()
                    && !conntrack::awaits_answer(&half)
                    && !self.may_have_expired(&half) =>
            {
                Action::Translate(half)
            }
            Some(_) => Action::General,
        }
    }

    /// Returns the action for a packet that comes in: of a client, or also of a backend if those are
    /// redirected.
    #[inline(always)]
    fn incoming(&mut self) -> Action {
        // A packet for a pod of this node is a reply, or of no service.
        if is_of_pod::<F>(&self.destination) {
            if redirects() {
                match self.reply() {
                    Action::Pass => {}
                    action => return action,
                }
            }
            if are_pods_no_frontends::<F>() && !is_any_direct() {
                return self.direct();
            }
        }
        self.request()
    }

    /// Returns the action for a client's packet.
    #[inline(always)]
    fn request(&mut self) -> Action {
        // Hairpin or SNAT may have given a client this address and port: the packet may be a reply.
        if self.destination == F::hairpin_ip() {
            return Action::General;
        }
        let is_snat_port = REPLY_PORTS.load().contains(self.destination_port);
        let is_guarded;
        if self.is_syn() {
            // It may begin a new connection after an ended one; the general path looks at what the
            // connection is before it learns of the packet.
            let filtered = Filtered::of::<F>(&self.destination);
            if self.is_expected(filtered) || self.find(Role::Forward).is_some() {
                return Action::General;
            }
            is_guarded = filtered.is_guarded();
        } else if let Some(half) = self.find(Role::Forward) {
            let is_current = !self.may_be_first || conntrack::is_current::<F>(&half);
            let is_reply = is_snat_port && Filtered::of::<F>(&self.destination).is_source();
            let is_plain = half.meta.keeps_client() && is_current && !is_reply;
            return if is_plain && !self.may_have_expired(&half) {
                Action::Translate(half)
            } else {
                Action::General
            };
        } else {
            let filtered = Filtered::of::<F>(&self.destination);
            if self.frontend(filtered).is_some() {
                return Action::General;
            }
            is_guarded = filtered.is_guarded();
        }
        if guards() && (is_guarded || is_cluster_range::<F>(&self.destination)) {
            return Action::General;
        }
        if redirects() && are_pods_told_by_interface() {
            match self.reply() {
                Action::Pass => {}
                action => return action,
            }
        } else if (is_snat_port || redirects()) && self.find(Role::Reply).is_some() {
            return Action::General;
        }
        self.direct()
    }

    /// The index of the frontend that the packet is for. Of most packets the filter shows that there is
    /// none, and a lookup less is made than the filter costs.
    #[inline(always)]
    fn frontend(&self, filtered: Filtered) -> Option<u32> {
        if !filtered.has_frontends() {
            return None;
        }
        let protocol = self.key.protocol();
        frontend::index_of::<F>(FrontendKey::new(
            self.destination,
            self.destination_port,
            protocol,
        ))
    }

    /// Returns whether the packet, a SYN and so likely to be the first of its connection, is for a frontend: then
    /// what it will need of the table is on its way when this returns.
    #[inline(always)]
    fn is_expected(&mut self, filtered: Filtered) -> bool {
        let Some(frontend) = self.frontend(filtered) else {
            return false;
        };
        self.key.set_role(Role::Forward);
        let sequence = || self.transport.signal(|| 0).number();
        if let Some(backend) = foresight::foresee::<F>(frontend, self.key, sequence) {
            approach::approach(self.key, backend);
        }
        true
    }

    /// Returns whether a packet that goes out from here may be of a connection of the host's that is remembered, or
    /// begin one: its source is one of a connection of ours, or a frontend's.
    #[inline(always)]
    fn may_be_of_host(&mut self, source: F::Address, port: u16) -> bool {
        masquerade::may_clash::<F>(&source, port) && self.clashes()
            || own_flow::may_come_from_frontend::<F>(&source, port)
                && frontend::is_one::<F>(FrontendKey::new(source, port, self.key.protocol()))
    }

    /// Returns whether a packet of the host's is, or begins, a connection whose source one of ours has.
    #[inline(always)]
    fn clashes(&mut self) -> bool {
        if is_any_masqueraded() && self.find(Role::Forward).is_some() {
            return true;
        }
        if !self.may_be_first {
            return false;
        }
        self.key.reverse();
        self.find(Role::Reply).is_some()
    }

    /// Returns the action for a packet that is for no frontend and of no connection: it may begin
    /// one to a backend whose tuple a connection through a frontend has.
    #[inline(always)]
    fn direct(&mut self) -> Action {
        let clash = if self.is_syn() {
            Action::General
        } else if self.is_for_reached() {
            Action::Clash
        } else {
            return Action::Pass;
        };
        self.key.reverse();
        self.key.set_role(Role::Reply);
        match F::connections().find_half(self.key) {
            Some(_) => clash,
            None => Action::Pass,
        }
    }

    /// Returns whether the packet is a datagram to where a service's connection may lead.
    #[inline(always)]
    fn is_for_reached(&self) -> bool {
        self.key.protocol() == UDP && reached::may_be::<F>(&self.destination, self.destination_port)
    }
}
