//! The thread that reads what programs report, and hands it to watchers.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use shunt_api::view::{FlowEvent, FlowKind, FlowPacket as Packet, ProtocolNumber};
use shunt_common::EndCause;
use shunt_datapath::{
    Connections, Flow, FlowChoice, FlowConnection, FlowPacket, FlowReader, Services,
};
use tokio::sync::oneshot;
use tracing::warn;

use crate::{
    flow_meters::{FlowMeters, LostAt},
    monitor::{
        ages::Ages,
        names::Names,
        packet::Headers,
        watching::{Watcher, together},
    },
    reports::Reports,
};

/// Time that the thread rests when it has read everything: programs do not wake it.
const REST: Duration = Duration::from_millis(20);
/// Number of events that are read before anything else is looked at.
const PIECE: usize = 4096;
/// Interval at which the thread looks for connections in the table that have timed out, which it alone may notice.
const LOOK: Duration = Duration::from_secs(20);

/// One who begins to watch.
#[derive(Debug)]
pub(super) struct Newcomer {
    pub(super) watcher: Watcher,
    /// Sender of the notice that what happens now is reported.
    pub(super) welcome: oneshot::Sender<()>,
}

/// State of the thread.
pub(super) struct Teller {
    reader: FlowReader,
    connections: Connections,
    reports: Arc<Reports>,
    names: Names,
    ages: Ages,
    watchers: Vec<Watcher>,
    choice: Option<FlowChoice>,
    /// Number of events that the programs had lost at the last look.
    lost: u64,
    looked: Instant,
}

impl Teller {
    /// Reads here, where programs report these.
    pub(super) fn new(
        reader: FlowReader,
        connections: Connections,
        services: Arc<Services>,
        reports: Arc<Reports>,
    ) -> std::io::Result<Self> {
        let tick = connections.tick()?;
        Ok(Self {
            reader,
            connections,
            reports,
            names: Names::of(services),
            ages: Ages::since(tick),
            watchers: Vec::new(),
            choice: None,
            lost: 0,
            looked: Instant::now(),
        })
    }

    /// Takes those who are new, and forgets those who have left. Returns whether there are any watchers.
    pub(super) fn welcome(&mut self, new: Vec<Newcomer>) -> bool {
        let (new, welcomes): (Vec<_>, Vec<_>) = new
            .into_iter()
            .map(|Newcomer { watcher, welcome }| (watcher, welcome))
            .unzip();
        self.watchers.extend(new);
        self.watchers.retain(Watcher::is_there);
        self.meters().set_watchers(self.watchers.len());
        let choices = self.watchers.iter().map(Watcher::choice);
        let choice = choices.reduce(together);
        if let Some(choice) = choice
            && self.choice.replace(choice) != Some(choice)
        {
            self.reader.choose(choice);
        }
        for welcome in welcomes {
            // Who has gone is found out next time.
            let _ = welcome.send(());
        }
        choice.is_some()
    }

    /// Reports all that there is. Rests if that was not much.
    pub(super) fn go_on(&mut self) {
        let mut read = 0;
        while read < PIECE
            && let Some(flow) = self.reader.next_flow()
        {
            read += 1;
            match flow {
                Flow::Connection(connection) => self.connection(connection),
                Flow::Packet(packet) => self.packet(packet),
            }
        }
        self.count_lost();
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.look();
        }
        if read < PIECE {
            thread::sleep(REST);
        }
    }

    fn count_lost(&mut self) {
        let lost = self.reader.lost();
        let new = lost.wrapping_sub(self.lost);
        self.lost = lost;
        if new > 0 {
            self.meters().lose(LostAt::Ring, new);
            for watcher in &self.watchers {
                watcher.lose(new);
            }
        }
    }

    /// Reports connections that have timed out since the last time.
    fn look(&mut self) {
        if let Err(error) = self.reader.set_clock() {
            warn!(%error, "the times of events may be wrong");
        }
        let since = self.ages.last_look();
        match self.connections.tick() {
            Ok(now) => {
                self.ages.look(now);
                for connection in self.connections.expired(since, now) {
                    self.ages.note(&connection);
                    self.end(&connection, EndCause::TimedOut);
                }
            }
            Err(error) => warn!(%error, "connections that have timed out are not told of"),
        }
    }

    fn connection(&mut self, connection: FlowConnection) {
        let Some(cause) = connection.ended else {
            self.ages.begin(&connection);
            return self.tell_connection(&connection, FlowKind::Opened, "", None);
        };
        if cause == EndCause::TimedOut
            && let Ok(now) = self.connections.tick()
            && self.ages.is_told(&connection, now)
        {
            return;
        }
        self.end(&connection, cause);
    }

    fn end(&mut self, connection: &FlowConnection, cause: EndCause) {
        let age = self.ages.end(connection);
        self.tell_connection(connection, FlowKind::Ended, cause.name(), age);
    }

    fn tell_connection(
        &mut self,
        connection: &FlowConnection,
        kind: FlowKind,
        reason: &str,
        duration: Option<Duration>,
    ) {
        let &FlowConnection {
            time,
            ended: _,
            service,
            protocol,
            client,
            frontend,
            backend,
            snat_source,
            overdue: _,
            sample,
        } = connection;
        let (service, service_port) = self.names.get(service).cloned().unzip();
        let event = FlowEvent {
            time,
            kind,
            reason: reason.to_owned(),
            protocol: ProtocolNumber(protocol),
            client: Some(client.into()),
            frontend: Some(frontend.into()),
            service,
            service_port,
            backend: Some(backend.into()),
            snat_source: snat_source.map(Into::into),
            duration,
            packet: None,
        };
        self.tell(&Arc::new(event), Some(sample));
    }

    fn packet(&mut self, packet: FlowPacket) {
        let FlowPacket {
            time,
            is_refused,
            reason,
            service,
            interface,
            length,
            bytes,
        } = packet;
        let headers = Headers::of(&bytes);
        let (service, service_port) = self.names.get(service).cloned().unzip();
        let event = FlowEvent {
            time,
            kind: if is_refused {
                FlowKind::Refused
            } else {
                FlowKind::Dropped
            },
            reason: reason.name().to_owned(),
            protocol: ProtocolNumber(headers.map_or(0, |headers| headers.protocol)),
            client: headers.map(|headers| headers.source),
            frontend: headers.map(|headers| headers.destination),
            service,
            service_port,
            backend: None,
            snat_source: None,
            duration: None,
            packet: Some(Packet {
                interface,
                length,
                bytes,
                is_ethernet: headers.is_none_or(|headers| headers.is_ethernet),
            }),
        };
        self.tell(&Arc::new(event), None);
    }

    fn tell(&mut self, event: &Arc<FlowEvent>, sample: Option<u32>) {
        self.meters().tell(event.kind);
        let told_of = self.choice.map_or(1, |choice| choice.one_in);
        let mut lost = 0;
        for watcher in &mut self.watchers {
            lost += u64::from(!watcher.tell(event, sample, told_of));
        }
        self.meters().lose(LostAt::Watcher, lost);
    }

    fn meters(&self) -> &FlowMeters {
        &self.reports.meters().flows
    }
}
