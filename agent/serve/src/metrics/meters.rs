//! Registration of the meters that are updated where things happen.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use shunt_runtime::{FlowMeters, Label, Labels, Meters, RestClient};

/// Has `registry` show what `meters` measure.
pub(crate) fn register(meters: &Meters, registry: &mut Registry) {
    let Meters {
        network_programming,
        sync,
        full_sync,
        partial_sync,
        last_sync,
        last_queued,
        endpoint_changes,
        service_changes,
        healthz,
        livez,
        event_duration,
        events,
        writes,
        told,
        rest_client,
        flows,
        started: _,
    } = meters;
    for (name, help, histograms) in [
        (
            "kubeproxy_network_programming_duration_seconds",
            "From the change of an endpoint to its effect on this node",
            network_programming,
        ),
        (
            "kubeproxy_sync_proxy_rules_duration_seconds",
            "Applying one event",
            sync,
        ),
        (
            "kubeproxy_sync_full_proxy_rules_duration_seconds",
            "Applying a Resync",
            full_sync,
        ),
        (
            "kubeproxy_sync_partial_proxy_rules_duration_seconds",
            "Applying an event that is no Resync",
            partial_sync,
        ),
        (
            "shunt_event_duration_seconds",
            "Applying one event, from its plan to its last write",
            event_duration,
        ),
    ] {
        registry.register(name, help, histograms.clone());
    }
    for (name, help, timestamps) in [
        (
            "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
            "When an event was last applied",
            last_sync,
        ),
        (
            "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
            "When an event was last put into the queue",
            last_queued,
        ),
    ] {
        registry.register(name, help, timestamps.clone());
    }
    for (name, help, counter) in [
        (
            "kubeproxy_sync_proxy_rules_endpoint_changes",
            "Changes of endpoints that the cluster's source has heard of",
            endpoint_changes,
        ),
        (
            "kubeproxy_sync_proxy_rules_service_changes",
            "Changes of services that the cluster's source has heard of",
            service_changes,
        ),
        (
            "shunt_table_writes",
            "Writes of events to the kernel's tables",
            writes,
        ),
    ] {
        registry.register(name, help, counter.clone());
    }
    for (name, help, answers) in [
        (
            "kubeproxy_proxy_healthz",
            "Answers of /healthz, by status",
            healthz,
        ),
        (
            "kubeproxy_proxy_livez",
            "Answers of /livez, by status",
            livez,
        ),
    ] {
        registry.register(name, help, answers.clone());
    }
    register_outcomes(events, told, registry);
    register_requests(rest_client, registry);
    register_flows(flows, registry);
}

/// Registers the watchers of connections and packets, and their events.
fn register_flows(flows: &FlowMeters, registry: &mut Registry) {
    let FlowMeters {
        watchers,
        told,
        lost,
    } = flows;
    registry.register(
        "shunt_flow_watchers",
        "How many watch connections and packets",
        watchers.clone(),
    );
    registry.register(
        "shunt_flow_events",
        "Events of connections and packets that were seen while somebody watched, by kind",
        told.clone(),
    );
    registry.register(
        "shunt_flow_events_lost",
        "Those that found no room, in the kernel's ring or in the queue of one who watches",
        lost.clone(),
    );
}

/// Registers the outcomes of events, and of Kubernetes Events.
fn register_outcomes(
    events: &Family<Labels, Counter>,
    told: &Family<Label, Counter>,
    registry: &mut Registry,
) {
    registry.register(
        "shunt_events",
        "Events, by what became of them",
        events.clone(),
    );
    registry.register(
        "shunt_kubernetes_events",
        "Kubernetes Events for users, by what became of them",
        told.clone(),
    );
}

/// Registers the requests to an API server.
pub(crate) fn register_requests(rest_client: &RestClient, registry: &mut Registry) {
    let RestClient { requests, duration } = rest_client;
    registry.register(
        "rest_client_requests",
        "Requests to the API server, by status, method and host",
        requests.clone(),
    );
    registry.register(
        "rest_client_request_duration_seconds",
        "From a request to the API server to the beginning of its answer, by verb and host",
        duration.clone(),
    );
}
