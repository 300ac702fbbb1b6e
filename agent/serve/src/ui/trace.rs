//! The node's trace of a packet, for the page's form: as `shunt trace` shows it.

use std::{fmt::Display, sync::Arc, time::Duration};

use serde_json::{Value, json};
use shunt_runtime::Inspector;
use shunt_trace::{Destination, Flags, Question, Sender, Trace, trace};
use tokio::task::spawn_blocking;

use crate::ui::{parameters::Parameters, turn::Turn};

/// About how many packets may be asked at once: each takes some of the agent's time.
const PACKETS: u32 = 10_000;

/// Time to wait for other traces.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reasons why there is no trace of a packet.
#[derive(Debug)]
pub(super) enum NoTrace {
    /// There can be no such packet.
    Bad(String),
    /// Others are traced.
    Busy,
    /// The kernel refuses, or the agent is ending.
    Failed(String),
}

/// Returns the trace of the packet that is asked about. One trace is made at a time: each copies the tables, and
/// runs programs on them.
///
/// # Errors
///
/// There is no trace of it.
pub(super) async fn told(
    inspector: &Inspector,
    tracing: &Turn,
    parameters: &Parameters,
) -> Result<Value, NoTrace> {
    let question = question(parameters).map_err(NoTrace::Bad)?;
    let turn = tracing.wait(PATIENCE).await.ok_or(NoTrace::Busy)?;
    let inspector = inspector.clone();
    // A task of its own: the client may go away, and the turn is over when the work is.
    let asked = tokio::spawn(async move {
        let _turn = turn;
        let failed = |error: &dyn Display| NoTrace::Failed(error.to_string());
        let lines = inspector.dump().await.map_err(|error| failed(&error))?;
        let dump = lines.whole().await.map_err(|error| failed(&error))?;
        let traced = spawn_blocking(move || {
            trace(&Arc::new(dump), &question).map(|trace| shown(&trace, question.count))
        });
        let traced = traced.await.map_err(|error| failed(&error))?;
        traced.map_err(|error| NoTrace::Bad(error.to_string()))
    });
    asked
        .await
        .map_err(|error| NoTrace::Failed(error.to_string()))?
}

/// As `shunt trace -o json` shows it, with its words: the steps that are places, and the end.
fn shown(trace: &Trace, count: u32) -> Value {
    let steps = trace.steps.iter().map(|told| {
        let mut step = json!(told);
        step["is_place"] = told.step.is_place().into();
        step
    });
    let parts = trace.distribution.iter().map(|part| {
        json!({
            "backend": part.backend,
            "packets": part.packets,
            "share": f64::from(part.packets) / f64::from(count.max(1)),
            "end": part.end,
            "text": part.end.to_string(),
        })
    });
    json!({
        "packet": trace.packet,
        "steps": steps.collect::<Vec<_>>(),
        "end": trace.end,
        "text": trace.end.to_string(),
        "parts": parts.collect::<Vec<_>>(),
        "remarks": trace.remarks,
    })
}

/// Returns the packet that is meant.
fn question(parameters: &Parameters) -> Result<Question, String> {
    let from: Sender = parameters.value("from")?.ok_or("from: it is missing")?;
    let to = parameters.text("to").ok_or("to: it is missing")?;
    let to = match parameters.text("protocol") {
        Some(protocol) if !to.contains('/') => format!("{to}/{protocol}"),
        _ => to.to_owned(),
    };
    let to: Destination = to.parse().map_err(|error| format!("to: {error}"))?;
    let count = parameters.value("count")?.unwrap_or(1);
    if !(1..=PACKETS).contains(&count) {
        return Err(format!("count: from 1 to {PACKETS}"));
    }
    Ok(Question {
        from: from.address,
        from_port: from.port,
        to: to.address,
        transport: to.transport(parameters.value("flags")?.unwrap_or(Flags::SYN)),
        interface: parameters.text("interface").map(str::to_owned),
        by_socket: parameters.text("process").is_some(),
        length: parameters.value("length")?,
        count,
    })
}

#[cfg(test)]
mod tests {
    use shunt_trace::Transport;

    use super::*;

    #[test]
    fn a_form_asks_what_the_command_asks() {
        let of = |query| question(&Parameters::of(Some(query)));
        let asked =
            of("from=10.1.1.5&to=10.96.0.1:53&protocol=udp&interface=eth0&length=80&count=9");
        let expected = Question {
            from: [10, 1, 1, 5].into(),
            from_port: Sender::PORT,
            to: "10.96.0.1:53".parse().unwrap(),
            transport: Transport::Udp,
            interface: Some("eth0".to_owned()),
            by_socket: false,
            length: Some(80),
            count: 9,
        };
        assert_eq!(asked, Ok(expected));
        let asked =
            of("from=[fd00::5]:7&to=[fd00::1]:80/tcp&protocol=udp&flags=fin,ack&process=on")
                .unwrap();
        assert_eq!(
            (asked.from_port, asked.transport),
            (7, Transport::Tcp(Flags(17)))
        );
        assert!(asked.by_socket);
        for (query, expected) in [
            ("to=10.96.0.1:80", "from: it is missing"),
            ("from=10.1.1.5", "to: it is missing"),
            ("from=web&to=10.96.0.1:80", "from: an address belongs there"),
            ("from=10.1.1.5&to=10.96.0.1", "to: an address with a port"),
            (
                "from=10.1.1.5&to=10.96.0.1:80&protocol=icmp",
                "to: \"icmp\" is no protocol",
            ),
            (
                "from=10.1.1.5&to=10.96.0.1:80&flags=x",
                "flags: \"x\" is no flag",
            ),
            (
                "from=10.1.1.5&to=10.96.0.1:80&count=0",
                "count: from 1 to 10000",
            ),
            (
                "from=10.1.1.5&to=10.96.0.1:80&count=10001",
                "count: from 1 to 10000",
            ),
        ] {
            let error = of(query).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
