//! Services of a catalog: instances that are registered, as Consul has them, and the frontends that the
//! configuration gives them.
//!
//! `instances` has the parts that all catalogs share. `consul` follows Consul's catalog. `local` is the agent's own
//! catalog, for hosts without one.

#![forbid(unsafe_code)]

mod consul;
mod instances;
mod local;

pub use self::{
    consul::{
        http::address::{ConsulAddress, NotAnAddress},
        options::{ConsulOptions, Environment, OptionsError},
        source::ConsulSource,
    },
    local::{
        definition::{
            check::{CheckDefinition, Pace, Probe},
            fields::{Fields, Malformed},
            file::{Defined, DefinitionError},
            proxy::Proxy,
            service::{ServiceDefinition, TaggedAddress, Weights},
        },
        federation::{
            keep::FederationKeeper,
            options::{FederationError, FederationOptions},
            record::{Gateway, Record},
            shared::Federation,
            states::States,
            token::{TokenError, Tokens},
        },
        keeper::{KeepError, Keeper},
        limits::HttpChecks,
        monitor::local_monitor,
        options::LocalOptions,
        registrar::{LocalNode, NoPlace, Registrar, ReloadError},
        source::{FrontendsError, LocalSource, OfferedFrontends, Shown},
        state::{
            check::Check,
            definitions::Definitions,
            effects::Subject,
            indexes::{Index, Indexes},
            refusal::Refusal,
            register::Change,
            registry::{Registry, Verdict},
            service::{Registered, Service},
            status::Status,
        },
        store::StoreError,
    },
};
