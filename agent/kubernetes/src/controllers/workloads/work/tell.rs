//! Messages to users about their workloads.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use tracing::{debug, warn};

use crate::{
    controllers::workloads::{
        conditions::{set_published, set_ready},
        events::Notice,
        queue::End,
        status::write_status,
        verdicts::Trouble,
        work::{Finished, WorkloadWork},
        write_error::WriteError,
    },
    objects::external_workload::{ExternalWorkload, Group, WorkloadKey},
};

impl WorkloadWork {
    /// Has an Event made of a notice.
    pub(super) fn notify(&self, notice: Notice) {
        if let Err(error) = self.notices.try_send(notice) {
            debug!("an Event is dropped: {error}");
        }
    }

    /// Has the users of a workload know whether it is published, and whether it is ready, if that is looked at.
    pub(super) fn tell(&mut self, key: Arc<WorkloadKey>, now: Instant) {
        let Some(workload) = self.store.workload(&key).cloned() else {
            self.told.remove(&key);
            self.statuses.end(&key, End::Done, now);
            return;
        };
        let refused = self.refused.get(&key).map(|refused| refused.trouble());
        let trouble = refused.or_else(|| self.verdicts.of(&workload));
        let (mut conditions, time) = (workload.conditions.clone(), SystemTime::now());
        let mut is_new = false;
        match key.group {
            Group::Shunt => {
                is_new = set_published(&mut conditions, trouble.as_ref(), time);
                if is_new && let Some(trouble) = &trouble {
                    warn!("{key}: {}", trouble.message);
                }
            }
            Group::Linkerd => self.tell_by_event(&workload, trouble),
        }
        if let Some(verdict) = self.prober.verdict(&key) {
            is_new |= set_ready(&mut conditions, verdict, time);
        }
        if !is_new {
            self.statuses.end(&key, End::Done, now);
            return;
        }
        let (client, ballot) = (self.client.clone(), self.ballot.clone());
        self.writing.spawn(async move {
            let done = write_status(&client, &ballot, &workload, conditions).await;
            Finished::Status(key, done)
        });
    }

    /// Has the users of a workload of linkerd's group know what is wrong with it, once: its conditions are
    /// others'.
    fn tell_by_event(&mut self, workload: &ExternalWorkload, trouble: Option<Trouble>) {
        let key = &workload.key;
        let Some(trouble) = trouble else {
            self.told.remove(key);
            return;
        };
        let before = self.told.insert(Arc::clone(key), trouble.clone());
        if before.as_ref() != Some(&trouble) {
            let Trouble { reason, message } = trouble;
            warn!("{key}: {message}");
            self.notify(Notice::of_workload(workload, reason, message));
        }
    }

    /// Takes note of what became of the status of a workload.
    pub(super) fn status_done(&mut self, key: &Arc<WorkloadKey>, done: Result<(), WriteError>) {
        let now = Instant::now();
        let end = match done {
            Ok(()) => End::Done,
            Err(error) => {
                debug!("{key}: its status is not written: {error}");
                match error {
                    WriteError::Unavailable { retry_after, .. } => {
                        let pause = self.backoff.pause_after_error(retry_after);
                        self.rest(pause);
                        End::Again
                    }
                    WriteError::NotLeading => {
                        let pause = self.backoff.pause();
                        self.rest(pause);
                        End::Again
                    }
                    WriteError::Forbidden(_) | WriteError::Invalid(_) => End::Refused,
                    WriteError::Conflict | WriteError::NamespaceTerminating => End::Failed,
                }
            }
        };
        self.statuses.end(key, end, now);
    }
}
