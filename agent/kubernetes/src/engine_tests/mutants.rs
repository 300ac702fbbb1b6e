//! Objects that are not as their kinds have them keep no honest one back.

use std::{fmt::Debug, mem};

use proptest::prelude::*;
use shunt_model::{RenderOptions, Renderer, RendererEvent, Service, ServiceId, Snapshot};
use shunt_runtime::Consequences;
use tokio::runtime::Builder;

use super::world::{World, refused};
use crate::{
    LookupPods,
    engine::{Change, Work},
    mutated::{
        examples::example,
        follow::{Honest, follow},
        mutation::{Mutant, mutants, settings},
    },
    objects::{custom::CustomKind, external_workload::Group},
    routes::change::RouteChange,
    watch::{
        kind::{
            Definitions, EndpointSlices, ExternalWorkloads, Kind, LinkerdExternalWorkloads, Nodes,
            Pods, ReferenceGrants, Servers, ServiceCidrs, ServiceProfiles, Services, TcpRoutes,
            TrafficSplits, UdpRoutes,
        },
        step::Step,
    },
};

/// Wraps a step of one kind.
type Wrap<T> = fn(Step<T>) -> Change;

/// News of all kinds: the lists, and what the watches report after them.
#[derive(Debug, Default)]
struct News {
    lists: Vec<Change>,
    later: Vec<Change>,
}

impl News {
    /// Adds the steps of a kind, as each of `messages` wraps them.
    async fn add<K>(&mut self, mutants: &[Mutant], honest: Honest, messages: &[Wrap<K::Object>])
    where
        K: Kind,
        K::Object: Clone + Debug + PartialEq,
    {
        let steps = follow::<K>(mutants, &honest).await;
        for message in messages {
            let mut changes = steps.iter().cloned().map(message);
            self.lists.extend(changes.next());
            self.later.extend(changes);
        }
    }

    /// Returns the news of these objects, and of the service `honest/web` among them, from the watches of an agent.
    async fn of(mutants: &[Mutant]) -> Self {
        let mut news = Self::default();
        let all = mutants;
        let kinds = CustomKind::WITH_LOOKUPS
            .map(|kind| example(Definitions::NAME, "", kind.definition(), 1));
        let defined = Honest {
            last: kinds[0].clone(),
            listed: kinds.into(),
        };
        let to_route: fn(_) -> _ = |step| Change::Route(RouteChange::Definition(step));
        news.add::<Definitions>(all, defined, &[to_route]).await;
        news.add::<Services>(all, web::<Services>(), &[Change::Service])
            .await;
        let slices = web::<EndpointSlices>();
        let to_slices: [fn(_) -> _; 2] = [Change::EndpointSlice, Change::ApiServer];
        news.add::<EndpointSlices>(all, slices, &to_slices).await;
        news.add::<ServiceCidrs>(all, web::<ServiceCidrs>(), &[Change::ServiceCidr])
            .await;
        let here = Honest::one::<Nodes>("", "here");
        let to_nodes: [fn(_) -> _; 2] = [Change::Node, Change::Peer];
        news.add::<Nodes>(all, here, &to_nodes).await;
        news.add::<Pods>(all, web::<Pods>(), &[Change::Pod]).await;
        let to_machine: fn(_) -> _ = |step| Change::Machine(Group::Shunt, step);
        news.add::<ExternalWorkloads>(all, web::<ExternalWorkloads>(), &[to_machine])
            .await;
        let to_machine: fn(_) -> _ = |step| Change::Machine(Group::Linkerd, step);
        let machines = web::<LinkerdExternalWorkloads>();
        news.add::<LinkerdExternalWorkloads>(all, machines, &[to_machine])
            .await;
        news.add::<Servers>(all, web::<Servers>(), &[Change::Server])
            .await;
        let to_route: fn(_) -> _ = |step| Change::Route(RouteChange::TcpRoute(step));
        news.add::<TcpRoutes>(all, web::<TcpRoutes>(), &[to_route])
            .await;
        let to_route: fn(_) -> _ = |step| Change::Route(RouteChange::UdpRoute(step));
        news.add::<UdpRoutes>(all, web::<UdpRoutes>(), &[to_route])
            .await;
        let to_route: fn(_) -> _ = |step| Change::Route(RouteChange::ReferenceGrant(step));
        news.add::<ReferenceGrants>(all, web::<ReferenceGrants>(), &[to_route])
            .await;
        let to_route: fn(_) -> _ = |step| Change::Route(RouteChange::TrafficSplit(step));
        news.add::<TrafficSplits>(all, web::<TrafficSplits>(), &[to_route])
            .await;
        let to_route: fn(_) -> _ = |step| Change::Route(RouteChange::ServiceProfile(step));
        news.add::<ServiceProfiles>(all, web::<ServiceProfiles>(), &[to_route])
            .await;
        news
    }
}

fn web<K: Kind>() -> Honest {
    Honest::one::<K>("honest", "web")
}

/// An engine, and the renderer that its events go to.
struct Node {
    world: World,
    renderer: Renderer,
    /// The last form of `honest/web`.
    honest: Option<Service>,
}

impl Node {
    fn new() -> Self {
        let world = World::with(|options| {
            options.lookup_pods = LookupPods::All;
            options.remote_node_ports = true;
        });
        Self {
            world,
            renderer: Renderer::new(RenderOptions::default()),
            honest: None,
        }
    }

    fn take(&mut self, change: Change) {
        self.world.engine.take(change);
        while let Some(Work { event, about, .. }) = self.world.engine.next() {
            let services = match &event {
                RendererEvent::UpdateService(service) => std::slice::from_ref(service),
                RendererEvent::Resync(Snapshot { services, .. }) => services,
                _ => &[],
            };
            let id = ServiceId::new("honest", "web");
            if let Some(honest) = services.iter().find(|service| *service.id == id) {
                self.honest = Some(honest.clone());
            }
            let fate = match self.renderer.plan(event) {
                Ok(plan) => {
                    self.renderer.commit(plan);
                    Ok(Consequences::default())
                }
                Err(error) => refused(&error.to_string()),
            };
            self.world.engine.done(about, fate);
        }
    }
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn no_object_keeps_another_one_from_translation(mutants in mutants()) {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let mut news = runtime.block_on(News::of(&mutants));
        let mut node = Node::new();
        for change in mem::take(&mut news.lists) {
            node.take(change);
        }
        prop_assert!(node.renderer.is_synced(), "all kinds are listed");
        for change in news.later {
            node.take(change);
        }
        let state = node.world.state();
        prop_assert!(state.connected, "{:?}", state.trouble);
        let honest = node.honest.expect("it is translated");
        let port = &honest.ports[0];
        let endpoints: Vec<_> = port.endpoints.iter().map(|one| one.ip.to_string()).collect();
        prop_assert_eq!(endpoints, ["10.1.1.2"], "the last form of its slice");
        prop_assert!(port.split.is_some());
    }
}
