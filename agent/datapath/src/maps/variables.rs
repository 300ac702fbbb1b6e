//! Words that hold for all packets, see [`shunt_common::variables`].

use std::{num::NonZeroU64, sync::Arc};

use aya::Ebpf;
use shunt_common::{
    dsr::{NONE, SOME, SOUGHT},
    port_group, registry,
    variables::{
        FRONTEND_PORTS, LOCATED, NARROW, RULES_V4, RULES_V6, TRACKED, UNKNOWN_CONNECTIONS, WORDS,
    },
};

use crate::{error::DatapathError, maps::object_maps, sys::shared_words::SharedWords};

/// The words.
#[derive(Debug, Clone)]
pub(crate) struct Variables(Arc<SharedWords>);

impl Variables {
    /// Over the object's table. What an agent before has left may have connections of any kind.
    ///
    /// # Errors
    ///
    /// If it cannot be mapped.
    pub(crate) fn open(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        let name = registry::VARIABLES.name;
        let table = object_maps::array(ebpf, registry::VARIABLES)?;
        let words = SharedWords::writable(table.fd(), WORDS)
            .map_err(|source| DatapathError::Mapping { name, source })?;
        let this = Self(Arc::new(words));
        this.note_tracked();
        Ok(this)
    }

    /// Sets the number of changes of the nodes of addresses, at least one; `None`: no node is known.
    pub(crate) fn set_located(&self, changes: Option<NonZeroU64>) {
        self.set(LOCATED, changes.map_or(NONE, NonZeroU64::get));
    }

    /// Notes that there may be connections to frontends in mode dsr.
    pub(crate) fn note_tracked(&self) {
        self.set(TRACKED, SOME);
    }

    /// Begins to look for such connections; `None` if there are none. From then on the programs note if
    /// there are new ones, but for those that they are at.
    pub(crate) fn seek(&self) -> Option<Search<'_>> {
        if self.get(TRACKED) == NONE {
            return None;
        }
        self.set(TRACKED, SOUGHT);
        Some(Search(self))
    }

    /// Enters the port of a frontend, network order. None is taken out before the next agent.
    pub(crate) fn add_port(&self, port: u16) {
        let before = self.get(FRONTEND_PORTS);
        let after = before | port_group(port);
        if after != before {
            self.set(FRONTEND_PORTS, after);
        }
    }

    /// Sets whether any way has an MTU.
    pub(crate) fn set_narrow(&self, are_any: bool) {
        self.set(NARROW, are_any.into());
    }

    /// Sets whether IPv4's routes, and whether IPv6's, may depend on a packet's sender.
    pub(crate) fn set_rules(&self, are_any_v4: bool, are_any_v6: bool) {
        self.set(RULES_V4, are_any_v4.into());
        self.set(RULES_V6, are_any_v6.into());
    }

    fn get(&self, word: u32) -> u64 {
        self.0.load(word as usize)
    }

    fn set(&self, word: u32, value: u64) {
        self.0.store(word as usize, value);
    }
}

/// A look at all connections, for those to frontends in mode dsr.
#[derive(Debug)]
#[must_use = "the programs look for such connections until it ends"]
pub(crate) struct Search<'a>(&'a Variables);

impl Search<'_> {
    /// Notes that there was none.
    pub(crate) fn found_none(self) {
        // A program that has written meanwhile that there are some is right.
        self.0.0.exchange(TRACKED as usize, SOUGHT, NONE);
    }
}

/// Setting for packets to frontends that are of no connection that the programs know, and that
/// begin none. It holds at once, and for as long as the programs do.
#[derive(Debug)]
pub struct UnknownConnections(Variables);

impl UnknownConnections {
    /// With the words in which it stands.
    pub(crate) const fn new(variables: Variables) -> Self {
        Self(variables)
    }

    /// Leaves them to the stack, which may know them (`true`); or opens a connection, for the case
    /// that the table of connections was lost.
    pub fn leave_to_stack(&self, leave: bool) {
        self.0.set(UNKNOWN_CONNECTIONS, leave.into());
    }
}
