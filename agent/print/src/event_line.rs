//! An event in one line.

use std::fmt::{self, Display, Write as _};

use shunt_api::view::{End, FlowEvent, FlowPacket};

/// `TIME KIND PROTOCOL CLIENT -> FRONTEND (SERVICE) -> BACKEND from SNAT SOURCE, REASON after DURATION`, each if there is
/// one.
pub fn event_line(event: &FlowEvent) -> String {
    let mut line = String::new();
    write(event, &mut line).unwrap_or_default();
    line
}

fn write(event: &FlowEvent, line: &mut String) -> fmt::Result {
    let FlowEvent {
        time,
        kind,
        reason,
        protocol,
        client,
        frontend,
        service,
        service_port,
        backend,
        snat_source,
        duration,
        packet,
    } = event;
    let time = humantime::format_rfc3339_micros(*time);
    let protocol = protocol.to_string();
    write!(line, "{time} {kind:<7} {protocol:<4} ")?;
    let end = |end: &Option<End>| end.map_or_else(|| "?".to_owned(), |end| end.to_string());
    write!(line, "{} -> {}", end(client), end(frontend))?;
    match (service, service_port) {
        (Some(service), Some(port)) => write!(line, " ({service}:{port})")?,
        (Some(service), None) => write!(line, " ({service})")?,
        _ => {}
    }
    optional(line, " -> ", backend.as_ref())?;
    optional(line, " from ", snat_source.as_ref())?;
    if !reason.is_empty() {
        write!(line, " {reason}")?;
    }
    optional(
        line,
        " after ",
        duration
            .map(|duration| format!("{:.3}s", duration.as_secs_f64()))
            .as_ref(),
    )?;
    if let Some(FlowPacket {
        interface, length, ..
    }) = packet
    {
        write!(line, ", {length} bytes at interface {interface}")?;
    }
    Ok(())
}

fn optional(line: &mut String, before: &str, value: Option<&impl Display>) -> fmt::Result {
    match value {
        Some(value) => write!(line, "{before}{value}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use shunt_api::view::{FlowKind, ProtocolNumber};

    use super::*;

    fn end(text: &str) -> End {
        let address: std::net::SocketAddr = text.parse().unwrap();
        address.into()
    }

    #[test]
    fn a_line_says_what_there_is_to_say() {
        let ended = FlowEvent {
            time: SystemTime::UNIX_EPOCH,
            kind: FlowKind::Ended,
            reason: "finished".into(),
            protocol: ProtocolNumber(6),
            client: Some(end("10.1.1.5:40000")),
            frontend: Some(end("10.96.0.10:80")),
            service: Some("shop/web".into()),
            service_port: Some("http".into()),
            backend: Some(end("10.1.2.3:8080")),
            snat_source: Some(end("192.168.16.10:1024")),
            duration: Some(Duration::from_millis(1500)),
            packet: None,
        };
        assert_eq!(
            event_line(&ended),
            "1970-01-01T00:00:00.000000Z ended   TCP  10.1.1.5:40000 -> 10.96.0.10:80 (shop/web:http) -> \
             10.1.2.3:8080 from 192.168.16.10:1024 finished after 1.500s"
        );
        let dropped = FlowEvent {
            kind: FlowKind::Dropped,
            reason: "drop_free_address".into(),
            protocol: ProtocolNumber(1),
            client: None,
            service: None,
            service_port: None,
            backend: None,
            snat_source: None,
            duration: None,
            packet: Some(FlowPacket {
                interface: 2,
                length: 60,
                bytes: Vec::new(),
                is_ethernet: true,
            }),
            ..ended
        };
        assert_eq!(
            event_line(&dropped),
            "1970-01-01T00:00:00.000000Z dropped 1    ? -> 10.96.0.10:80 drop_free_address, 60 bytes at interface 2"
        );
    }
}
