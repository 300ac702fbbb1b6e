//! Service ports by their numbers.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use shunt_datapath::Services;

/// For how long what is known is not asked for again: numbers come and go with services.
const FRESH: Duration = Duration::from_secs(1);

/// Known names of service ports.
#[derive(Debug)]
pub(super) struct Names {
    services: Arc<Services>,
    known: HashMap<u32, (String, String)>,
    asked: Option<Instant>,
}

impl Names {
    /// Nothing yet.
    pub(super) fn of(services: Arc<Services>) -> Self {
        Self {
            services,
            known: HashMap::new(),
            asked: None,
        }
    }

    /// `namespace/name` and the port's name of the service port with this number.
    pub(super) fn get(&mut self, number: u32) -> Option<&(String, String)> {
        if number == 0 {
            return None;
        }
        let is_fresh = self.asked.is_some_and(|asked| asked.elapsed() < FRESH);
        if !is_fresh && !self.known.contains_key(&number) {
            let names = self.services.names();
            // A service that has ended is named in the last events of its connections.
            self.known
                .extend(names.into_iter().map(|(number, service, port)| {
                    (number.0, (service.to_string(), port.to_string()))
                }));
            self.asked = Some(Instant::now());
        }
        self.known.get(&number)
    }
}
