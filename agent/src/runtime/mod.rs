//! The running agent: the event loop, the queue to it, and what it shows of itself.
//!
//! All that is asked of the agent goes through one queue and is done one at a time. Sources hold
//! the end of the queue that takes events, servers an [`Inspector`](inspector::Inspector).

mod acknowledgements;
pub(crate) mod agent;
pub(crate) mod aside;
pub(crate) mod circumstances;
pub(crate) mod cluster_state;
mod compare_services;
pub(crate) mod conntrack;
pub(crate) mod consul_state;
mod consul_status;
pub(crate) mod contact;
mod disputes;
pub(crate) mod dump;
pub(crate) mod error;
pub(crate) mod event_loop;
pub(crate) mod figures;
pub(crate) mod flow_meters;
pub(crate) mod frontends;
pub(crate) mod go_duration;
pub(crate) mod health;
pub(crate) mod health_checks;
pub(crate) mod held_events;
pub(crate) mod held_removal;
pub(crate) mod here;
pub(crate) mod history;
pub(crate) mod host_complaints;
pub(crate) mod inspector;
pub(crate) mod ip_family;
pub(crate) mod limit;
pub(crate) mod listeners;
pub(crate) mod local_monitor;
pub(crate) mod lookup;
pub(crate) mod meters;
pub(crate) mod monitor;
pub(crate) mod origin;
pub(crate) mod outcome;
pub(crate) mod pairs;
pub(crate) mod priority;
pub(crate) mod queue;
pub(crate) mod removal;
pub(crate) mod reports;
pub(crate) mod request;
pub(crate) mod rest_client;
mod room;
pub(crate) mod service_changes;
pub(crate) mod service_counts;
pub(crate) mod status;
pub(crate) mod steering;
pub(crate) mod table_flags;
pub(crate) mod table_maker;
pub(crate) mod terminate;
