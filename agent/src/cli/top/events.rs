//! The events that came last.

use std::collections::VecDeque;

use shunt_api::view::{FlowEvent, one_in};

/// Number of events that are kept.
const KEPT: usize = 1000;

/// The events that came last, the newest first.
#[derive(Debug, Default)]
pub(super) struct Events {
    kept: VecDeque<FlowEvent>,
    /// Number of connections of which one is shown.
    pub(super) one_in: u32,
    /// Number of events that were lost since the page was opened.
    pub(super) lost: u64,
    /// Reason why there are none, if the agent gave one.
    pub(super) problem: Option<String>,
}

impl Events {
    /// None yet, while so many connections a second are opened.
    pub(super) fn begin(new: Option<f64>) -> Self {
        Self {
            one_in: one_in(new.unwrap_or_default()),
            ..Self::default()
        }
    }

    /// These have come, and so many were lost since the page was opened.
    pub(super) fn take(&mut self, events: Vec<FlowEvent>, lost: u64) {
        self.problem = None;
        self.lost = lost;
        for event in events {
            self.kept.push_front(event);
        }
        self.kept.truncate(KEPT);
    }

    /// Returns the events of services whose names contain this.
    pub(super) fn of(&self, filter: &str) -> Vec<&FlowEvent> {
        let filter = filter.to_lowercase();
        let kept = self.kept.iter();
        kept.filter(|event| service(event).to_lowercase().contains(&filter))
            .collect()
    }
}

/// Returns the service of an event, with its port; the frontend if it has no service.
pub(super) fn service(event: &FlowEvent) -> String {
    match (&event.service, &event.service_port) {
        (Some(service), Some(port)) if !port.is_empty() => format!("{service}:{port}"),
        (Some(service), _) => service.clone(),
        (None, _) => event
            .frontend
            .map_or_else(|| "?".to_owned(), |end| end.to_string()),
    }
}
