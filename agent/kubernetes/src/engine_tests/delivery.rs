//! The number of events on their way at once.

use futures_util::FutureExt as _;
use serde_json::json;
use shunt_runtime::{Acceptance, queue};
use tokio::{
    sync::{mpsc, watch},
    task::yield_now,
};

use super::world::{World, service};
use crate::{
    engine::Change,
    source::{Wishes, deliver},
    watch::step::Step,
};

#[tokio::test]
async fn the_next_event_comes_when_the_one_before_is_applied_or_waits_aside() {
    let mut world = World::synced();
    let take = |world: &mut World, name| {
        let service = service(name, "2026-01-01T00:00:00Z", json!({}));
        world.engine.take(Change::Service(service));
    };
    for name in ["wide", "web", "last"] {
        take(&mut world, name);
    }
    let (queue, mut requests) = queue();
    let (_changing, changes) = mpsc::channel(1);
    let (_host, host) = watch::channel(World::host());
    let delivering = deliver(world.engine, changes, host, queue, Wishes::default());
    let seen = async {
        let (wide, wide_is_done) = requests.next_aside().await;
        assert_eq!(wide, "change 1: UpdateService default/wide");
        let (web, web_is_done) = requests.next_aside().await;
        assert_eq!(web, "change 2: UpdateService default/web");
        // They are done in another order.
        web_is_done.send(Ok(Acceptance::Held)).unwrap();
        wide_is_done.send(Ok(Acceptance::Held)).unwrap();
        let last = requests.next_event().await.unwrap();
        assert_eq!(last, "change 3: UpdateService default/last");
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(requests.next_event().now_or_never().is_none());
    };
    tokio::select! {
        end = delivering => panic!("no more is delivered: {end:?}"),
        () = seen => {}
    }
}

#[tokio::test]
async fn a_list_of_what_is_known_is_slack() {
    let world = World::synced();
    let list = || Change::Service(Step::listed(Vec::new()));
    let (queue, mut requests) = queue();
    let (changing, changes) = mpsc::channel(2);
    let (_host, host) = watch::channel(World::host());
    let delivering = deliver(world.engine, changes, host, queue, Wishes::default());
    let seen = async {
        changing.send(list()).await.unwrap();
        assert_eq!(requests.next_event().await.unwrap(), "slack");
        let known = Change::Service(Step::Alive);
        changing.send(known).await.unwrap();
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(requests.next_event().now_or_never().is_none());
    };
    tokio::select! {
        end = delivering => panic!("no more is delivered: {end:?}"),
        () = seen => {}
    }
}
