//! The order of early drops in a table that is too small, and the connections that find no room.

use std::net::IpAddr;

use super::{
    contents::Contents,
    frontends::Member,
    model::{Model, Observed, Verdict},
    opening::refusal,
    wire::Packet,
};

impl Model {
    /// Takes note of who has given way in the tables. Everything else in them must be as it is here,
    /// but for the last packet's flow if that is `lost`.
    pub(crate) fn reconcile(&mut self, table: &Contents, lost: bool) -> Result<(), String> {
        if let Some(index) = self.unseen.take() {
            self.take_back(index, table);
        }
        let sought = std::mem::take(&mut self.sought_room) || lost;
        for _ in 0..self.flows.reconcile(table, sought, lost)? {
            self.count("conntrack_early_drop");
        }
        Ok(())
    }

    /// A flow for which there was no room: the verdict, if that may be.
    pub(super) fn without_room(
        &mut self,
        packet: &Packet<'_>,
        members: &[Member],
        known: Option<usize>,
        observed: Observed<'_>,
    ) -> Option<Verdict> {
        let refused = self.counters.get("drop_conntrack_full").copied();
        let is_refused = *observed.verdict == Verdict::Drop
            && observed.no_room > refused.unwrap_or_default()
            && self.capacity.is_some();
        let client = packet.ends.source.ip;
        let is_stopped = refusal(packet).is_some() || packet.hop_limit <= 1;
        let mut backends = members.iter();
        if !is_refused || is_stopped && !backends.any(|one| self.keeps_source(client, *one)) {
            return None;
        }
        self.note_refusal(packet);
        // Another has been tried in its place.
        if let Some(known) = known {
            self.flows.forget(known);
        }
        match members {
            [member] => {
                let membership = self.cluster.membership(*member).unwrap_or_default();
                self.bind(packet, *member, membership);
            }
            // The client's backend from now on cannot be seen.
            _ => self.lost |= self.has_affinity(members),
        }
        Some(self.drop("drop_conntrack_full"))
    }

    /// Forgets a flow of this number that found no room: its packet goes on unchanged, with or without.
    fn take_back(&mut self, index: usize, table: &Contents) {
        let flow = self.flows.at(index);
        if table.all.contains_key(&flow.request_ends()) {
            return;
        }
        let client = flow.client.ip;
        self.flows.forget(index);
        self.uncount("connection");
        self.note_refused(client);
    }

    /// Takes note of a refused connection.
    pub(super) fn note_refusal(&mut self, packet: &Packet<'_>) {
        self.note_refused(packet.ends.source.ip);
    }

    fn note_refused(&mut self, client: IpAddr) {
        self.sought_room = true;
        let staying = self.flows.staying(client);
        let is_early = self.capacity.is_some_and(|capacity| staying < capacity);
        self.refused_early += u64::from(is_early);
    }
}
