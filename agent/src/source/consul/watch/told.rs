//! What comes of a query.

use std::{sync::Arc, time::SystemTime};

use crate::source::{
    consul::http::error::AskError,
    instances::{instance::Instance, query::Query, tier::Datacenter},
};

/// What a query tells the source.
#[derive(Debug, Clone)]
pub(in crate::source::consul) struct Told {
    /// What was asked.
    pub(in crate::source::consul) topic: Topic,
    /// What.
    pub(in crate::source::consul) news: News,
}

/// What is asked.
#[derive(Debug, Clone)]
pub(in crate::source::consul) enum Topic {
    /// The instances that a query gives.
    Instances(Arc<Query>),
    /// Which services of a datacenter may have changed.
    Hints(Datacenter),
    /// What the resolver of a service says.
    Resolver(Box<str>),
    /// Which resolvers may have changed.
    Resolvers,
    /// Whether the servers have a leader.
    Leader,
    /// Which datacenters there are, and how near.
    Datacenters,
    /// Whether the agent has the gateways that are offered.
    Exports,
}

/// What is new of a query.
#[derive(Debug, Clone)]
pub(in crate::source::consul) enum News {
    /// These are its instances, and it is up to date.
    Instances {
        /// All of them.
        instances: Vec<Instance>,
        /// Those of them that cannot be read.
        unreadable: Vec<String>,
        /// True if the agent was out of reach since the last ones.
        is_back: bool,
        /// Why nothing is known of some of them any more, so that these are as they last were.
        hidden: Option<Trouble>,
    },
    /// It is up to date.
    UpToDate,
    /// It is not, for this reason. What is known stays.
    Stale(Trouble),
}

/// Why a query is not up to date.
#[derive(Debug, Clone)]
pub(in crate::source::consul) struct Trouble {
    /// Since when.
    pub(in crate::source::consul) since: SystemTime,
    /// Why.
    pub(in crate::source::consul) reason: Reason,
}

/// What is in the way.
#[derive(Debug, Clone)]
pub(in crate::source::consul) enum Reason {
    /// There is no good answer.
    Failed(AskError),
    /// The answer lacks what the token may not see.
    Denied(String),
    /// It comes from a server that has no leader.
    NoLeader,
}
