//! The report on it all.

use std::path::Path;

use shunt_api::view::{LocalApi, Untranslated};
use shunt_runtime::LocalMonitor;

use crate::local::{
    federation::shared::Federation,
    registrar::{Registrar, Troubles},
    source::{Progress, Shown},
    state::status::Status,
};

/// Returns a view of the content of `registrar`, which is served at `address` and kept in the file at `state`,
/// of the progress of its events to the renderer, and of the content of `federation`.
pub fn local_monitor(
    registrar: &Registrar,
    address: String,
    state: &Path,
    shown: Shown,
    federation: Option<Federation>,
) -> LocalMonitor {
    let registrar = registrar.clone();
    let state = state.display().to_string();
    LocalMonitor::new(move || {
        let registry = registrar.look();
        let mut checks = [0; 3];
        for check in registry.known().checks() {
            let place = match registry.status(check) {
                Status::Passing => 0,
                Status::Warning => 1,
                Status::Critical => 2,
            };
            checks[place] += 1;
        }
        let [passing, warning, critical] = checks;
        let services = registry.known().services().len() as u64;
        drop(registry);
        let (writes, failed_writes) = registrar.writes();
        let Troubles {
            file,
            definitions,
            forbidden,
        } = registrar.troubles();
        let forbidden = forbidden.map(|text| format!("checks are {text}"));
        let troubles = [file, definitions, forbidden];
        let Progress {
            frontends,
            pending,
            problems,
            failed_over,
        } = shown.progress();
        LocalApi {
            address: address.clone(),
            services,
            passing,
            warning,
            critical,
            waiting: registrar.waiting() as u64,
            state: state.clone(),
            writes,
            failed_writes,
            troubles: troubles.into_iter().flatten().collect(),
            frontends: frontends as u64,
            pending: pending as u64,
            untranslated: problems
                .into_iter()
                .map(|(service, reasons)| Untranslated { service, reasons })
                .collect(),
            federation: federation.as_ref().map(|it| it.shown(failed_over)),
        }
    })
}
