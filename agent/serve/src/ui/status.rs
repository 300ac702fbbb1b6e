//! The agent's status. All tables are read back for it, so it is read no more often than a person can read, however many
//! clients there are.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shunt_runtime::{InspectError, Inspector};
use tokio::sync::Mutex;

/// For how long it is not asked for again.
const FRESH: Duration = Duration::from_secs(2);

/// Last answer, and its time.
#[derive(Debug, Default)]
pub(super) struct LastStatus(Mutex<Option<(Instant, Value)>>);

impl LastStatus {
    /// As `shunt status -o json` shows it.
    ///
    /// # Errors
    ///
    /// If the tables or the counters cannot be read, or the agent is ending.
    pub(super) async fn get(&self, inspector: &Inspector) -> Result<Value, InspectError> {
        // Who comes meanwhile waits for the same answer.
        let mut last = self.0.lock().await;
        if let Some((at, status)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(status.clone());
        }
        let status = json!(inspector.status(false).await?);
        *last = Some((Instant::now(), status.clone()));
        Ok(status)
    }
}
