//! The results of a query.

use std::{sync::Arc, time::SystemTime};

use crate::{
    consul::http::error::AskError,
    instances::{instance::Instance, query::Query, tier::Datacenter},
};

/// A query's report to the source.
#[derive(Debug, Clone)]
pub(in crate::consul) struct Told {
    /// Topic of the query.
    pub(in crate::consul) topic: Topic,
    /// The news of it.
    pub(in crate::consul) news: News,
}

/// Topic of a query.
#[derive(Debug, Clone)]
pub(in crate::consul) enum Topic {
    /// The instances that a query gives.
    Instances(Arc<Query>),
    /// Services of a datacenter that may have changed.
    Hints(Datacenter),
    /// The resolver of a service.
    Resolver(Box<str>),
    /// Resolvers that may have changed.
    Resolvers,
    /// The servers' leader, or the lack of one.
    Leader,
    /// The datacenters, and how near they are.
    Datacenters,
    /// The presence of the offered gateways at the agent.
    Exports,
}

/// News of a query.
#[derive(Debug, Clone)]
pub(in crate::consul) enum News {
    /// These are its instances, and it is up to date.
    Instances {
        /// All of them.
        instances: Vec<Instance>,
        /// Instances of the answer that cannot be read.
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
pub(in crate::consul) struct Trouble {
    /// Since when.
    pub(in crate::consul) since: SystemTime,
    /// Why.
    pub(in crate::consul) reason: Reason,
}

/// Obstacle to an answer.
#[derive(Debug, Clone)]
pub(in crate::consul) enum Reason {
    /// There is no good answer.
    Failed(AskError),
    /// The answer lacks what the token may not see.
    Denied(String),
    /// It comes from a server that has no leader.
    NoLeader,
}
