//! What is shown of a service's translation besides its frontends.

use std::collections::HashSet;

use shunt_model::ServiceId;
use tracing::warn;

use crate::{
    runtime::cluster_state::ClusterMonitor, source::kubernetes::translate::problem::Problem,
};

/// Shows what is left out of a service. What is new of it is logged. Gives whether anything is.
pub(super) fn report(monitor: &ClusterMonitor, id: &ServiceId, problems: &[Problem]) -> bool {
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    monitor.update(|state| {
        // Most services have nothing to be said of.
        if problems.is_empty() && state.untranslated.is_empty() {
            return false;
        }
        let id = id.to_string();
        if problems.is_empty() {
            state.untranslated.remove(&id);
            return false;
        }
        let before: HashSet<&String> = state.untranslated.get(&id).into_iter().flatten().collect();
        let mut is_new = false;
        for problem in &problems {
            if !before.contains(problem) {
                warn!("service {id}: {problem}");
                is_new = true;
            }
        }
        state.untranslated.insert(id, problems);
        is_new
    })
}
