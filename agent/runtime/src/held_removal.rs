//! An event that would remove more frontends than one event may: it waits for a decision.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use shunt_api::view;
use shunt_model::RendererEvent;
use tokio::sync::oneshot;

use crate::{
    circumstances::Circumstances,
    origin::Origin,
    outcome::{Acceptance, ApplyError},
    removal::Removal,
    reports::Reports,
    request::Request,
};

/// The event that waits, and what came after it.
#[derive(Debug)]
pub(super) struct HeldRemoval {
    /// Names it in a decision.
    pub(super) number: u64,
    pub(super) origin: Origin,
    pub(super) event: RendererEvent,
    pub(super) circumstances: Circumstances,
    pub(super) answer: Option<oneshot::Sender<Result<Acceptance, ApplyError>>>,
    pub(super) removal: Removal,
    pub(super) since: Instant,
    /// Events that come after it, in their order.
    pub(super) behind: VecDeque<Request>,
    pub(super) reports: Arc<Reports>,
}

impl HeldRemoval {
    /// As it is shown.
    pub(super) fn view(&self) -> view::HeldRemoval {
        let Self {
            number,
            origin,
            event,
            circumstances: _,
            answer: _,
            removal: Removal { removed, frontends },
            since,
            behind,
            reports: _,
        } = self;
        view::HeldRemoval {
            number: *number,
            event: format!("{origin}: {}", event.subject()),
            removed: *removed as u64,
            frontends: *frontends as u64,
            waiting: behind.len() as u64,
            seconds: since.elapsed().as_secs(),
        }
    }
}
