//! Filter for events of flows.

use crate::{
    proto,
    view::{
        connection::End,
        connection_filter::Place,
        error::BadFilter,
        flow_event::{FlowEvent, FlowKind},
        protocol::ProtocolNumber,
    },
};

/// A filter: an event matches if it meets every field that is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlowFilter {
    /// It is of one of these kinds; none: of any.
    pub kinds: Vec<FlowKind>,
    /// It ended, or was refused or dropped, for one of these reasons; none: for any.
    pub reasons: Vec<String>,
    /// Addresses and port of the client, or of the packet's sender.
    pub client: Option<Place>,
    /// Addresses and port that the client connects to, or the packet was sent to.
    pub frontend: Option<Place>,
    /// Addresses and port of the backend that serves the connection.
    pub backend: Option<Place>,
    /// Addresses and port of any of its ends.
    pub any: Option<Place>,
    /// Its protocol.
    pub protocol: Option<ProtocolNumber>,
    /// `namespace/name` of its service, or `namespace/name:port`.
    pub service: Option<String>,
}

impl FlowFilter {
    /// Returns whether this event is meant.
    pub fn takes(&self, event: &FlowEvent) -> bool {
        let Self {
            kinds,
            reasons,
            client,
            frontend,
            backend,
            any,
            protocol,
            service,
        } = self;
        let ends = [
            event.client,
            event.frontend,
            event.backend,
            event.snat_source,
        ];
        let has = |place: &Place, ends: &[Option<_>]| {
            let mut ends = ends.iter().flatten();
            ends.any(|end: &End| place.has(end.ip, end.port))
        };
        let is_at = |place: &Option<Place>, ends: &[Option<_>]| {
            place.as_ref().is_none_or(|place| has(place, ends))
        };
        (kinds.is_empty() || kinds.contains(&event.kind))
            && (reasons.is_empty() || reasons.contains(&event.reason))
            && is_at(client, &ends[..1])
            && is_at(frontend, &ends[1..2])
            && is_at(backend, &ends[2..3])
            && is_at(any, &ends)
            && protocol.is_none_or(|protocol| protocol == event.protocol)
            && service.as_ref().is_none_or(|wanted| is_of(event, wanted))
    }
}

/// Returns whether it is of the service that is named, or of its port.
fn is_of(event: &FlowEvent, wanted: &str) -> bool {
    let Some(service) = &event.service else {
        return false;
    };
    let Some(rest) = wanted.strip_prefix(service.as_str()) else {
        return false;
    };
    match (rest.strip_prefix(':'), &event.service_port) {
        _ if rest.is_empty() => true,
        (Some(port), Some(of)) => port == of,
        _ => false,
    }
}

impl From<FlowFilter> for proto::FlowFilter {
    fn from(filter: FlowFilter) -> Self {
        let FlowFilter {
            kinds,
            reasons,
            client,
            frontend,
            backend,
            any,
            protocol,
            service,
        } = filter;
        let kinds = kinds.into_iter().map(proto::flow_event::Kind::from);
        Self {
            kinds: kinds.map(Into::into).collect(),
            reasons,
            client: client.map(Into::into),
            frontend: frontend.map(Into::into),
            backend: backend.map(Into::into),
            any: any.map(Into::into),
            protocol: ProtocolNumber::meant(protocol),
            service: service.unwrap_or_default(),
        }
    }
}

impl TryFrom<proto::FlowFilter> for FlowFilter {
    type Error = BadFilter;

    fn try_from(filter: proto::FlowFilter) -> Result<Self, BadFilter> {
        let proto::FlowFilter {
            kinds,
            reasons,
            client,
            frontend,
            backend,
            any,
            protocol,
            service,
        } = filter;
        let kinds = kinds.into_iter();
        let kinds = kinds.map(|kind| FlowKind::of_message(kind).map_err(|_| BadFilter::Kind(kind)));
        let place = |place: Option<proto::Place>| place.map(Place::try_from).transpose();
        Ok(Self {
            kinds: kinds.collect::<Result<_, _>>()?,
            reasons,
            client: place(client)?,
            frontend: place(frontend)?,
            backend: place(backend)?,
            any: place(any)?,
            protocol: ProtocolNumber::of_meant(protocol)?,
            service: (!service.is_empty()).then_some(service),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn event() -> FlowEvent {
        let end = |ip: [u8; 4], port| {
            Some(End {
                ip: ip.into(),
                port,
            })
        };
        FlowEvent {
            time: SystemTime::UNIX_EPOCH,
            kind: FlowKind::Ended,
            reason: "timed_out".to_owned(),
            protocol: ProtocolNumber(6),
            client: end([10, 1, 1, 5], 40_000),
            frontend: end([10, 96, 0, 10], 80),
            service: Some("shop/web".to_owned()),
            service_port: Some("http".to_owned()),
            backend: end([10, 1, 1, 3], 8080),
            snat_source: end([192, 0, 2, 1], 1024),
            duration: Some(Duration::from_secs(3)),
            packet: None,
        }
    }

    #[test]
    fn an_event_is_meant_if_it_is_all_that_is_set() {
        let place = |text: &str| Some(text.parse().unwrap());
        let of = |set: &dyn Fn(&mut FlowFilter)| {
            let mut filter = FlowFilter::default();
            set(&mut filter);
            let message = proto::FlowFilter::from(filter.clone());
            assert_eq!(FlowFilter::try_from(message), Ok(filter.clone()));
            filter.takes(&event())
        };
        assert!(of(&|_| {}));
        assert!(of(&|f| f.kinds = vec![FlowKind::Opened, FlowKind::Ended]));
        assert!(!of(&|f| f.kinds = vec![FlowKind::Dropped]));
        assert!(of(&|f| f.reasons = vec!["timed_out".to_owned()]));
        assert!(!of(&|f| f.reasons = vec!["reset".to_owned()]));
        assert!(of(&|f| f.client = place("10.1.0.0/16")));
        assert!(!of(&|f| f.client = place("10.96.0.10")));
        assert!(of(&|f| f.frontend = place("10.96.0.10:80")));
        assert!(!of(&|f| f.backend = place("10.1.1.3:80")));
        assert!(of(&|f| f.any = place("192.0.2.1:1024")));
        assert!(of(&|f| f.any = place("10.1.1.3")));
        assert!(!of(&|f| f.any = place("10.1.1.4")));
        assert!(of(&|f| f.protocol = Some(ProtocolNumber(6))));
        assert!(!of(&|f| f.protocol = Some(ProtocolNumber(17))));
        for (service, is_meant) in [
            ("shop/web", true),
            ("shop/web:http", true),
            ("shop/web:https", false),
            ("shop/we", false),
            ("shop/webs", false),
        ] {
            let is = of(&|f| f.service = Some(service.to_owned()));
            assert_eq!(is, is_meant, "{service}");
        }
    }

    #[test]
    fn a_kind_that_there_is_not_is_an_error() {
        let filter = proto::FlowFilter {
            kinds: vec![9],
            ..proto::FlowFilter::default()
        };
        assert_eq!(FlowFilter::try_from(filter), Err(BadFilter::Kind(9)));
    }
}
