//! Watches of the objects that workloads' slices are made of, and of the slices.

use std::collections::BTreeSet;

use tokio::{
    sync::{mpsc::Sender, watch},
    task::JoinSet,
};

use crate::{
    controllers::workloads::{
        options::WorkloadOptions,
        raw_slice::Slices,
        service::{AllServices, Service},
        slice::{LINKERDS, MANAGED_BY, MANAGER, Slice},
    },
    objects::{
        custom::{CustomKind, Definition},
        endpoint_slice::EndpointSlice,
        external_workload::{ExternalWorkload, Group},
        metadata::Metadata,
        node::{Node, RawNode},
        service_cidr::ServiceCidr,
    },
    watch::{
        client::Access,
        defined::watch_while_defined,
        kind::{
            Definitions, EndpointSlices, ExternalWorkloads, Kind, LinkerdExternalWorkloads,
            Selectors, ServiceCidrs,
        },
        step::Step,
        watcher::Watcher,
    },
};

/// The label of the API server's own slices. Other namespaces may have slices with it, too.
const API_SERVER: &str = "kubernetes.io/service-name=kubernetes";

/// Nodes, which the controller can do without: it may lack the right to list them.
#[derive(Debug)]
pub(super) struct AllNodes;

impl Kind for AllNodes {
    type Raw = RawNode;
    type Object = Node;
    const NAME: &'static str = "Nodes";
    const PATH: &'static str = "/api/v1/nodes";
    const OPTIONAL: bool = true;

    fn metadata(raw: &RawNode) -> &Metadata {
        &raw.metadata
    }
}

/// A change in a watch.
#[derive(Debug)]
pub(super) enum Change {
    Definition(Step<Definition>),
    Service(Step<Service>),
    Slice(Step<Slice>),
    Linkerds(Step<EndpointSlice>),
    Workload(Group, Step<ExternalWorkload>),
    Node(Step<Node>),
    ServiceCidr(Step<ServiceCidr>),
    /// Addresses of the API server.
    ApiServer(Step<EndpointSlice>),
}

impl Change {
    /// Returns whether it reports that a watch does not hear anything any more.
    pub(super) const fn is_lost(&self) -> bool {
        match self {
            Self::Definition(step) => matches!(step, Step::Lost(_)),
            Self::Service(step) => matches!(step, Step::Lost(_)),
            Self::Slice(step) => matches!(step, Step::Lost(_)),
            Self::Linkerds(step) | Self::ApiServer(step) => matches!(step, Step::Lost(_)),
            Self::Workload(_, step) => matches!(step, Step::Lost(_)),
            Self::Node(step) => matches!(step, Step::Lost(_)),
            Self::ServiceCidr(step) => matches!(step, Step::Lost(_)),
        }
    }
}

/// The kinds that have to be defined.
pub(super) const fn wanted(options: &WorkloadOptions) -> &'static [CustomKind] {
    match (options.shunt, options.linkerd) {
        (true, true) => &[
            CustomKind::ExternalWorkload,
            CustomKind::LinkerdExternalWorkload,
        ],
        (false, true) => &[CustomKind::LinkerdExternalWorkload],
        (_, false) => &[CustomKind::ExternalWorkload],
    }
}

/// Begins to watch everything; workloads as soon as they are `defined`.
pub(super) fn watch_all(
    tasks: &mut JoinSet<()>,
    access: &Access,
    options: &WorkloadOptions,
    steps: &Sender<Change>,
    defined: &watch::Sender<BTreeSet<CustomKind>>,
) {
    let all = Selectors::default;
    let definitions =
        Watcher::<Definitions, _>::new(access.clone(), all(), steps.clone(), Change::Definition);
    tasks.spawn(definitions.run());
    let services =
        Watcher::<AllServices, _>::new(access.clone(), all(), steps.clone(), Change::Service);
    tasks.spawn(services.run());
    let of = |manager: &str| Selectors::labelled(&format!("{MANAGED_BY}={manager}"));
    let slices =
        Watcher::<Slices, _>::new(access.clone(), of(MANAGER), steps.clone(), Change::Slice);
    tasks.spawn(slices.run());
    let nodes = Watcher::<AllNodes, _>::new(access.clone(), all(), steps.clone(), Change::Node);
    tasks.spawn(nodes.run());
    let ranges =
        Watcher::<ServiceCidrs, _>::new(access.clone(), all(), steps.clone(), Change::ServiceCidr);
    tasks.spawn(ranges.run());
    let api_server = Watcher::<EndpointSlices, _>::new(
        access.clone(),
        Selectors::labelled(API_SERVER),
        steps.clone(),
        Change::ApiServer,
    );
    tasks.spawn(api_server.run());
    if options.shunt {
        tasks.spawn(watch_while_defined::<ExternalWorkloads, Change>(
            Group::Shunt.kind(),
            access.clone(),
            steps.clone(),
            |step| Change::Workload(Group::Shunt, step),
            defined.subscribe(),
        ));
    }
    if options.linkerd {
        let theirs = Watcher::<EndpointSlices, _>::new(
            access.clone(),
            of(LINKERDS),
            steps.clone(),
            Change::Linkerds,
        );
        tasks.spawn(theirs.run());
        tasks.spawn(watch_while_defined::<LinkerdExternalWorkloads, Change>(
            Group::Linkerd.kind(),
            access.clone(),
            steps.clone(),
            |step| Change::Workload(Group::Linkerd, step),
            defined.subscribe(),
        ));
    }
}
