//! Receiver of the events: a renderer, and beside it the sum of its changes.

use std::collections::BTreeMap;

use shunt_api::message::{self, Assembler};
use shunt_model::{Changes, Frontend, FrontendKey, RenderOptions, Renderer, RendererEvent};

use crate::damage;

/// A renderer that has had a Resync.
pub(crate) struct Receiver {
    renderer: Renderer,
    installed: BTreeMap<FrontendKey, Frontend>,
}

impl Receiver {
    /// With the service of [`damage::SERVICE`].
    pub(crate) fn new() -> Self {
        let mut receiver = Self {
            renderer: Renderer::new(RenderOptions::default()),
            installed: BTreeMap::new(),
        };
        let [resync, ..] = damage::lines();
        receiver.take(shunt_model::decode(&resync).unwrap());
        assert!(!receiver.installed.is_empty());
        receiver
    }

    /// Takes an event that was accepted: it means the same as a message, and is rendered, or refused
    /// without effect.
    pub(crate) fn take(&mut self, event: RendererEvent) {
        assert_same_as_message(&event);
        if let Ok(plan) = self.renderer.plan(event) {
            let Changes {
                added,
                changed,
                removed,
            } = &plan.changes;
            for key in removed {
                assert!(self.installed.remove(key).is_some(), "{key} was not there");
            }
            self.installed.extend(added.iter().chain(changed).cloned());
            self.renderer.commit(plan);
        }
        let rendered: BTreeMap<_, _> = self
            .renderer
            .frontends()
            .map(|(key, frontend)| (key, frontend.clone()))
            .collect();
        assert_eq!(
            self.installed, rendered,
            "what is rendered is what the changes say"
        );
    }
}

/// An event is the same after its way through the gRPC interface.
fn assert_same_as_message(event: &RendererEvent) {
    let mut assembler = Assembler::default();
    let received: Vec<_> = message::encode(event.clone())
        .flat_map(|message| assembler.next(message))
        .collect();
    let [Ok(received)] = &received[..] else {
        panic!("{event:?} was received as {received:?}");
    };
    assert_eq!(received, event);
    assert!(assembler.finish().is_none());
}
