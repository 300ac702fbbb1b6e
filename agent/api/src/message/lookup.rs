//! Results of a lookup as messages.

use shunt_model::{
    Answer, Clients, Delta, Empty, EndpointKey, EndpointView, FrontendKey, FrontendView,
    Membership, Refusal, ServiceTarget, Target, TargetKind, Use, Who,
};

use crate::{
    message::{
        service::{forwarding, policy, protocol, scope_list, selection, texts},
        workload::workload,
    },
    proto,
};

/// An answer.
pub fn answer(generation: u64, answer: &Answer) -> proto::Answer {
    let Answer {
        query: _,
        targets,
        endpoints,
        member_of,
    } = answer;
    proto::Answer {
        generation,
        kind: answer.kind().name().to_owned(),
        targets: targets.iter().map(target).collect(),
        endpoints: endpoints.iter().map(endpoint).collect(),
        member_of: member_of.iter().map(membership).collect(),
    }
}

/// Returns the changes of an answer, or all of it if it is a `snapshot`.
pub fn delta(generation: u64, snapshot: bool, delta: &Delta<'_>) -> proto::WatchResponse {
    let Delta {
        targets,
        rebind,
        adds,
        removes,
        empty,
        member_of,
    } = delta;
    proto::WatchResponse {
        generation,
        snapshot,
        rebind: *rebind,
        targets: targets.map(|list| proto::Targets {
            kind: kind_of(list).name().to_owned(),
            list: list.iter().map(target).collect(),
        }),
        adds: adds.iter().copied().map(endpoint).collect(),
        removes: removes.iter().map(key).collect(),
        empty: empty.map(|Empty { exists }| proto::Empty { exists }),
        member_of: member_of.map(|list| proto::Memberships {
            list: list.iter().map(membership).collect(),
        }),
        more: false,
    }
}

fn kind_of(targets: &[Target]) -> TargetKind {
    targets
        .first()
        .map_or(TargetKind::Unknown, |first| first.kind)
}

fn target(target: &Target) -> proto::Target {
    use proto::target::Who as Message;
    let Target { kind, in_use, who } = target;
    let who = match who {
        Who::Service(target) => Message::Service(service(target)),
        Who::HealthCheck { service, port } => Message::HealthCheck(proto::HealthCheckTarget {
            service: service.to_string(),
            port: port.get().into(),
        }),
        Who::Workload(own) => Message::Workload(workload(own)),
        Who::Node { name, own } => Message::Node(proto::NodeTarget {
            name: name.as_deref().map(str::to_owned),
            own: *own,
        }),
        Who::UndefinedPort { service, kind } => {
            Message::UndefinedPort(proto::UndefinedPortTarget {
                service: service.to_string(),
                kind: kind.map_or_else(String::new, |kind| kind.name().to_owned()),
            })
        }
    };
    proto::Target {
        kind: kind.name().to_owned(),
        in_use: *in_use,
        who: Some(who),
    }
}

fn service(target: &ServiceTarget) -> proto::ServiceTarget {
    let ServiceTarget {
        service,
        port_name,
        port,
        protocol: transport,
        node_port,
        cluster_ips,
        traffic_policy,
        internal_traffic_policy,
        affinity_timeout,
        opaque_ports: _,
        profile: _,
        hostnames: _,
        split: _,
        first: _,
        frontend,
    } = target;
    let message = proto::ServiceTarget {
        service: service.to_string(),
        port_name: port_name.to_string(),
        port: (*port).into(),
        protocol: protocol(*transport).into(),
        node_port: node_port.map(|port| port.get().into()),
        cluster_ips: texts(cluster_ips),
        traffic_policy: policy(*traffic_policy).into(),
        internal_traffic_policy: policy(*internal_traffic_policy).into(),
        affinity_timeout: *affinity_timeout,
        ..proto::ServiceTarget::default()
    };
    match frontend {
        Some(frontend) => with_frontend(message, frontend),
        None => message,
    }
}

fn with_frontend(message: proto::ServiceTarget, frontend: &FrontendView) -> proto::ServiceTarget {
    let FrontendView {
        key,
        kind: _,
        policy: chosen,
        clients,
        refusal,
        selection: selected,
        forwarding: forwarded,
        sources,
    } = frontend;
    proto::ServiceTarget {
        frontend: Some(frontend_key(*key)),
        policy: policy(*chosen).into(),
        this_node_only: *clients == Clients::ThisNode,
        refusal: match refusal {
            Refusal::Reject => "reject",
            Refusal::Drop => "drop",
        }
        .to_owned(),
        selection: selection(*selected).into(),
        forwarding: forwarding(*forwarded).into(),
        sources: texts(sources.iter()),
        ..message
    }
}

fn frontend_key(key: FrontendKey) -> proto::FrontendKey {
    let FrontendKey {
        address,
        port,
        protocol: transport,
    } = key;
    proto::FrontendKey {
        address: address.to_string(),
        port: port.into(),
        protocol: protocol(transport).into(),
    }
}

fn endpoint(endpoint: &EndpointView) -> proto::BehindEndpoint {
    let EndpointView {
        key: own,
        service,
        is_own: _,
        ready,
        serving,
        terminating,
        local,
        node,
        zone,
        weight,
        scopes,
        used,
        used_here,
        workload: runs,
    } = endpoint;
    proto::BehindEndpoint {
        key: Some(key(own)),
        service: service.to_string(),
        ready: *ready,
        serving: *serving,
        terminating: *terminating,
        local: *local,
        node: node.as_deref().map(str::to_owned),
        zone: zone.as_deref().map(str::to_owned),
        weight: *weight,
        scopes: Some(scope_list(*scopes)),
        used: used_for(*used).into(),
        used_here: used_for(*used_here).into(),
        workload: runs.as_deref().map(workload),
    }
}

const fn used_for(used: Use) -> proto::Use {
    match used {
        Use::New => proto::Use::New,
        Use::Open => proto::Use::Open,
        Use::None => proto::Use::Unspecified,
    }
}

fn key(key: &EndpointKey) -> proto::EndpointKey {
    let EndpointKey {
        frontend_port,
        protocol: transport,
        ip,
        port,
    } = *key;
    proto::EndpointKey {
        frontend_port: frontend_port.into(),
        protocol: protocol(transport).into(),
        ip: ip.to_string(),
        port: port.into(),
    }
}

fn membership(membership: &Membership) -> proto::Membership {
    let Membership {
        service,
        port_name,
        port,
        protocol: transport,
        endpoint_port,
        ready,
        serving,
        terminating,
    } = membership;
    proto::Membership {
        service: service.to_string(),
        port_name: port_name.to_string(),
        port: (*port).into(),
        protocol: protocol(*transport).into(),
        endpoint_port: (*endpoint_port).into(),
        ready: *ready,
        serving: *serving,
        terminating: *terminating,
    }
}
