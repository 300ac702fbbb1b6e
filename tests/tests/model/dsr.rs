//! Direct server return: what becomes of packets for frontends in mode dsr, and of envelopes.

use std::net::IpAddr;

use shunt_common::{Slot, fill_slots};
use shunt_model::maglev;

use super::{
    addresses::{NODE, dsr_source, is_dsr_source},
    cluster::{Backend, Policy},
    edit::Trouble,
    envelope::{Envelope, combined},
    frontends::{Frontend, FrontendKey},
    model::{Became, Hook, Model, Verdict},
    opening::refusal,
    selection::{by_number, packet_number},
    wire::{Form, Packet},
};

/// The place where a packet is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// By the node with this address, another one.
    At(IpAddr),
    /// Here, by this node's own backends, as far as there are any.
    ByOwn,
    /// Here, as if there were no mode dsr.
    AsEver,
}

/// Content of an envelope for this node.
#[derive(Debug)]
pub(super) enum Content {
    /// The frame of a packet, and whether a node has handed that on that was not the first.
    Frame(Vec<u8>, bool),
    /// A packet that is dropped, as a router on the way would have.
    Congested,
    /// One without a real sender: its source is this node itself.
    Forged,
}

impl Model {
    /// The frontend that the packet is for. A NodePort of another node, in an envelope, is this node's own of
    /// the same number, unless a service has just that address.
    pub(super) fn frontend_of(&self, packet: &Packet<'_>) -> FrontendKey {
        let own = (packet.ends.protocol, packet.ends.destination);
        if !packet.is_handed_over {
            return own;
        }
        self.stands_for(own)
    }

    /// The frontend in mode dsr that one of another node stands for here.
    pub(super) fn stands_for(&self, (protocol, mut at): FrontendKey) -> FrontendKey {
        let own = (protocol, at);
        if self.is_dsr(own) || !self.cluster.is_of_other_node(at.ip) {
            return own;
        }
        at.ip = NODE.like(at.ip);
        (protocol, at)
    }

    /// Returns whether there is such a frontend, in mode dsr.
    pub(super) fn is_dsr(&self, key: FrontendKey) -> bool {
        let frontend = self.cluster.frontends.get(&key);
        frontend.is_some_and(|frontend| frontend.is_dsr)
    }

    /// Returns the place where the packet is served, if it belongs to no flow.
    pub(super) fn served(&self, packet: &Packet<'_>) -> Served {
        let here = if packet.is_handed_over {
            Served::ByOwn
        } else {
            Served::AsEver
        };
        let frontend = self.cluster.frontends.get(&self.frontend_of(packet));
        let Some(frontend) = frontend.filter(|frontend| frontend.is_dsr) else {
            return here;
        };
        if self.cluster.is_on_this_node(packet.ends.source.ip)
            || self.refusal(frontend, packet).is_some()
        {
            return here;
        }
        let elsewhere = |chosen: &Backend| {
            let node = self.cluster.location(chosen.at.ip)?;
            (!chosen.local && !NODE.has(node)).then_some(Served::At(node))
        };
        let chosen = self.choice(frontend, packet);
        let chosen = chosen.filter(|_| !packet.is_handed_over);
        if let Some(chosen) = chosen
            && !chosen.local
        {
            return elsewhere(chosen).unwrap_or(here);
        }
        let draining = if packet.opens || packet.is_handed_on {
            None
        } else {
            self.choice_with_draining(frontend, packet)
        };
        draining.and_then(elsewhere).unwrap_or(match chosen {
            Some(_) => Served::ByOwn,
            None => here,
        })
    }

    /// Returns the backend that every node chose for the packet among all backends before some began to
    /// drain, if any do.
    fn choice_with_draining(&self, frontend: &Frontend, packet: &Packet<'_>) -> Option<&Backend> {
        let service = &self.cluster.services[&frontend.service];
        let port = &service.ports[frontend.port];
        if self.cluster.has_split(frontend) {
            return None;
        }
        let family: Vec<&Backend> = self.cluster.backends(frontend).collect();
        let takes = |backend: &&Backend| backend.is_usable_in(Policy::Cluster, &family);
        let all = family
            .iter()
            .filter(|backend| backend.is_in(Policy::Cluster));
        let all: Vec<&Backend> = all.copied().collect();
        if all.iter().all(takes) {
            return None;
        }
        let weights = all.iter().map(|backend| backend.weight);
        let lightest = weights.filter(|weight| *weight > 0).min().unwrap_or(1);
        let factor = service.local_backend_weight(port);
        let weights: Vec<u32> = all
            .iter()
            .map(|backend| {
                let weight = if backend.weight > 0 {
                    backend.weight
                } else {
                    lightest
                };
                weight.saturating_mul(if backend.local { factor } else { 1 })
            })
            .collect();
        let number = packet_number(packet, service.affinity > 0);
        if service.maglev {
            let members = all
                .iter()
                .zip(&weights)
                .map(|(backend, weight)| maglev::Member {
                    ip: backend.at.ip,
                    port: backend.at.port,
                    weight: *weight,
                });
            return by_number(&members.collect::<Vec<_>>(), number).map(|place| all[place]);
        }
        Some(all[by_weight(&weights, number)])
    }

    /// Returns the backend that every node chooses for the packet among all backends; with session affinity
    /// for its client.
    fn choice(&self, frontend: &Frontend, packet: &Packet<'_>) -> Option<&Backend> {
        let service = &self.cluster.services[&frontend.service];
        let listed = self.cluster.listed(frontend, Policy::Cluster);
        let usable = self.candidates(frontend, Policy::Cluster);
        if usable.is_empty() {
            return None;
        }
        if service.maglev {
            let chosen = self.by_table(frontend, packet, usable);
            let mut all = listed.into_iter().map(|(backend, _)| backend);
            return all.find(|backend| backend.at == chosen[0].at);
        }
        let factor = service.local_backend_weight(&service.ports[frontend.port]);
        let weights: Vec<u32> = listed
            .iter()
            .map(|(backend, takes)| match (takes, backend.local) {
                (false, _) => 0,
                (true, true) => backend.weight * factor,
                (true, false) => backend.weight,
            })
            .collect();
        let place = by_weight(&weights, packet_number(packet, service.affinity > 0));
        Some(listed[place].0)
    }

    /// The packet goes to a node in an envelope.
    pub(super) fn hand_over(&mut self, packet: &Packet<'_>, node: IpAddr) -> Verdict {
        if !packet.is_intact {
            return self.drop("drop_checksum");
        }
        if let Some(reason) = refusal(packet) {
            return self.drop(reason);
        }
        if packet.hop_limit <= 1 {
            return self.tell(packet, Trouble::HopsUsedUp, "reject_expired");
        }
        self.remember(packet, Hook::Ingress, Became::HandedOver(node));
        self.count("wrapped");
        let is_of_range = self.has_dsr_sources && packet.form == Form::Whole;
        let source = if is_of_range {
            dsr_source(packet_number(packet, false), node)
        } else {
            NODE.like(node)
        };
        Verdict::Redirect(packet.enclosed(source, node))
    }

    /// Returns the content of the envelope that a frame is, if that is one from a node of the cluster, or from a range
    /// for envelopes, to this one, with a packet for a frontend in mode dsr.
    pub(super) fn content(&self, frame: &[u8]) -> Option<Content> {
        let Envelope {
            source,
            destination,
            mark,
            hops,
            inner,
        } = Envelope::read(frame)?;
        let is_handed_on = hops > 127;
        let packet = Packet::read(&inner).ok()?;
        let is_of_ours =
            self.cluster.is_of_node(source) || self.has_dsr_sources && is_dsr_source(source);
        if packet.overheard || !NODE.has(destination) || !is_of_ours {
            return None;
        }
        let is_wanted = if packet.form == Form::Later {
            match self.recall(&packet, Hook::Ingress) {
                Some(Became::Sent(_)) => true,
                Some(Became::HandedOver(_)) => !is_handed_on,
                None => false,
            }
        } else {
            self.is_dsr(self.stands_for((packet.ends.protocol, packet.ends.destination)))
        };
        if is_wanted && NODE.has(source) {
            return Some(Content::Forged);
        }
        is_wanted.then(|| match combined(packet.mark(), mark) {
            Some(mark) => Content::Frame(packet.marked(mark), is_handed_on),
            None => Content::Congested,
        })
    }
}

/// The place of the one that the number stands for among backends of these weights.
fn by_weight(weights: &[u32], number: u32) -> usize {
    let places: Vec<u32> = (0..weights.len() as u32).collect();
    let slots = fill_slots(&places, weights, 0);
    let (slot, fraction) = Slot::locate(number, slots.len() as u32);
    slots[slot as usize].select(fraction) as usize
}
