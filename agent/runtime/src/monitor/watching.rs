//! One who watches.

use std::{
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use shunt_api::view::{FlowEvent, FlowFilter, FlowKind, Place};
use shunt_common::FlowKind as Kinds;
use shunt_datapath::{FlowChoice, FlowEnd};
use tokio::sync::mpsc::{self, Receiver, Sender, error::TrySendError};

/// Number of events that may wait for a reader.
const WAITING: usize = 1 << 13;
/// Number of events that are handed over at once.
const PIECE: usize = 512;

/// Events that a watcher wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Filter of the events.
    pub filter: FlowFilter,
    /// Of one connection in so many, and one packet; 0 and 1: of all.
    pub one_in: u32,
    /// Packets come with their first bytes.
    pub packets: bool,
}

/// The watcher's end. A watcher that drops it watches no longer.
#[derive(Debug)]
pub struct Watching {
    events: Receiver<Arc<FlowEvent>>,
    lost: Arc<AtomicU64>,
}

/// The other end.
#[derive(Debug)]
pub(super) struct Watcher {
    wanted: Wanted,
    events: Sender<Arc<FlowEvent>>,
    lost: Arc<AtomicU64>,
    /// Number of packets of which none was sent yet; those that were not reported count too.
    unsent: u64,
}

/// Both ends.
pub(super) fn watching(wanted: Wanted) -> (Watcher, Watching) {
    let (sender, events) = mpsc::channel(WAITING);
    let lost = Arc::<AtomicU64>::default();
    let watcher = Watcher {
        wanted,
        events: sender,
        lost: Arc::clone(&lost),
        unsent: 0,
    };
    (watcher, Watching { events, lost })
}

impl Watching {
    /// The next events, as soon as there are any; `None` if there will be no more.
    pub async fn next(&mut self) -> Option<Vec<Arc<FlowEvent>>> {
        let mut piece = Vec::new();
        let count = self.events.recv_many(&mut piece, PIECE).await;
        (count > 0).then_some(piece)
    }

    /// Returns how many were lost since the begin, of any kind.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Watcher {
    /// Returns whether the other end is open.
    pub(super) fn is_there(&self) -> bool {
        !self.events.is_closed()
    }

    /// Returns what programs have to report for it. A watcher of ends gets the duration of connections, which needs
    /// their begins.
    pub(super) fn choice(&self) -> FlowChoice {
        let Wanted { filter, one_in, .. } = &self.wanted;
        let kinds = if filter.kinds.is_empty() {
            Kinds::ALL
        } else {
            let kinds = filter.kinds.iter().map(|kind| match kind {
                FlowKind::Opened => Kinds::OPENED,
                FlowKind::Ended => Kinds::ENDED.and(Kinds::OPENED),
                FlowKind::Refused => Kinds::REFUSED,
                FlowKind::Dropped => Kinds::DROPPED,
            });
            kinds.fold(Kinds(0), Kinds::and)
        };
        FlowChoice {
            kinds,
            one_in: (*one_in).max(1),
            client: filter.client.map(end),
            frontend: filter.frontend.map(end),
        }
    }

    /// Sends an event of a connection with this sample, or of a packet of which one in `told_of` is reported. Returns
    /// whether there was room for it.
    pub(super) fn tell(
        &mut self,
        event: &Arc<FlowEvent>,
        sample: Option<u32>,
        told_of: u32,
    ) -> bool {
        if !self.wanted.filter.takes(event) || !self.is_sampled(sample, told_of) {
            return true;
        }
        let event = match &event.packet {
            Some(packet) if !self.wanted.packets && !packet.bytes.is_empty() => {
                let mut bare = FlowEvent::clone(event);
                bare.packet = Some(packet.without_bytes());
                Arc::new(bare)
            }
            _ => Arc::clone(event),
        };
        let has_room = !matches!(self.events.try_send(event), Err(TrySendError::Full(_)));
        if !has_room {
            self.lose(1);
        }
        has_room
    }

    /// So many events were lost.
    pub(super) fn lose(&self, events: u64) {
        self.lost.fetch_add(events, Ordering::Relaxed);
    }

    fn is_sampled(&mut self, sample: Option<u32>, told_of: u32) -> bool {
        let one_in = self.wanted.one_in.max(1);
        if let Some(sample) = sample {
            return shunt_datapath::is_sampled(sample, one_in);
        }
        // One report stands for `told_of` packets.
        self.unsent += u64::from(told_of.max(1));
        let is_sampled = self.unsent >= u64::from(one_in);
        if is_sampled {
            self.unsent %= u64::from(one_in);
        }
        is_sampled
    }
}

/// Returns the choice that covers all that both want.
pub(super) fn together(one: FlowChoice, other: FlowChoice) -> FlowChoice {
    let same = |one: Option<FlowEnd>, other| one.filter(|_| one == other);
    FlowChoice {
        kinds: one.kinds.and(other.kinds),
        one_in: one.one_in.min(other.one_in),
        client: same(one.client, other.client),
        frontend: same(one.frontend, other.frontend),
    }
}

fn end(place: Place) -> FlowEnd {
    let Place { range, port } = place;
    FlowEnd {
        range,
        port: port.map_or(0, NonZeroU16::get),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use shunt_api::view::{FlowPacket, ProtocolNumber};

    use super::*;

    fn event(kind: FlowKind) -> Arc<FlowEvent> {
        Arc::new(FlowEvent {
            time: SystemTime::UNIX_EPOCH,
            kind,
            reason: String::new(),
            protocol: ProtocolNumber(6),
            client: None,
            frontend: None,
            service: None,
            service_port: None,
            backend: None,
            snat_source: None,
            duration: None,
            packet: (kind == FlowKind::Dropped).then(|| FlowPacket {
                interface: 1,
                length: 60,
                bytes: vec![1; 60],
                is_ethernet: true,
            }),
        })
    }

    async fn told(watching: &mut Watching) -> usize {
        watching.next().await.map_or(0, |piece| piece.len())
    }

    #[tokio::test]
    async fn who_reads_slowly_is_told_how_much_was_lost() {
        let (mut watcher, mut watching) = watching(Wanted::default());
        for _ in 0..WAITING + 7 {
            watcher.tell(&event(FlowKind::Opened), Some(0), 1);
        }
        assert_eq!(watching.lost(), 7);
        let mut read = 0;
        while read < WAITING {
            read += told(&mut watching).await;
        }
        watcher.tell(&event(FlowKind::Opened), Some(0), 1);
        assert_eq!(told(&mut watching).await, 1);
        assert_eq!(watching.lost(), 7);
        drop(watching);
        assert!(!watcher.is_there());
    }

    #[tokio::test]
    async fn bytes_come_to_who_asks_for_them() {
        for packets in [false, true] {
            let (mut watcher, mut watching) = watching(Wanted {
                packets,
                ..Wanted::default()
            });
            watcher.tell(&event(FlowKind::Dropped), None, 1);
            let piece = watching.next().await.unwrap();
            let packet = piece[0].packet.as_ref().unwrap();
            assert_eq!(packet.bytes.is_empty(), !packets);
            assert_eq!(packet.length, 60);
        }
    }

    #[test]
    fn one_in_so_many_is_told_whatever_others_want() {
        let (mut watcher, mut watching) = watching(Wanted {
            one_in: 10,
            ..Wanted::default()
        });
        // Another one wants every second packet.
        for _ in 0..500 {
            watcher.tell(&event(FlowKind::Dropped), None, 2);
        }
        let mut count = 0;
        while watching.events.try_recv().is_ok() {
            count += 1;
        }
        assert_eq!(count, 100);
        watcher.tell(&event(FlowKind::Opened), Some(u32::MAX / 2), 2);
        assert!(watching.events.try_recv().is_err(), "another connection");
    }

    #[test]
    fn a_sample_that_is_no_multiple_of_anothers_has_its_own_rate() {
        let (mut watcher, mut watching) = watching(Wanted {
            one_in: 100,
            ..Wanted::default()
        });
        // Of 70,000 packets, one in 70 is reported.
        for _ in 0..1_000 {
            watcher.tell(&event(FlowKind::Dropped), None, 70);
        }
        let count = std::iter::from_fn(|| watching.events.try_recv().ok()).count();
        assert_eq!(count, 700);
    }

    #[test]
    fn ends_need_begins() {
        let choice = |kinds: &[FlowKind]| {
            let filter = FlowFilter {
                kinds: kinds.to_vec(),
                ..FlowFilter::default()
            };
            let wanted = Wanted {
                filter,
                ..Wanted::default()
            };
            watching(wanted).0.choice().kinds
        };
        assert_eq!(choice(&[]), Kinds::ALL);
        assert_eq!(choice(&[FlowKind::Ended]), Kinds::ENDED.and(Kinds::OPENED));
        assert_eq!(choice(&[FlowKind::Dropped]), Kinds::DROPPED);
    }

    #[test]
    fn programs_leave_out_only_what_nobody_wants() {
        let choice = |client: Option<&str>, one_in| {
            let filter = FlowFilter {
                client: client.map(|client| client.parse().unwrap()),
                ..FlowFilter::default()
            };
            let wanted = Wanted {
                filter,
                one_in,
                ..Wanted::default()
            };
            watching(wanted).0.choice()
        };
        let of_one = choice(Some("10.1.1.5"), 10);
        assert!(of_one.client.is_some());
        assert_eq!(together(of_one, choice(Some("10.1.1.5"), 10)), of_one);
        for others in [None, Some("10.1.1.6"), Some("10.1.1.5:80")] {
            let both = together(of_one, choice(others, 2));
            assert_eq!((both.client, both.one_in), (None, 2), "{others:?}");
        }
    }
}
