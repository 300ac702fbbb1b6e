//! Interfaces that come and go, as the kernel tells through netlink.

use std::{future::pending, io};

use futures_util::StreamExt as _;
use rtnetlink::{MulticastGroup, new_multicast_connection};
use tokio::{sync::watch, task::JoinHandle};

/// Tells when any interface has appeared, changed or gone.
#[derive(Debug)]
pub struct LinkWatch {
    changes: watch::Receiver<()>,
    tasks: [JoinHandle<()>; 2],
}

impl LinkWatch {
    /// Listens to `RTNLGRP_LINK` in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// If no netlink socket can be opened.
    pub fn start() -> io::Result<Self> {
        let (connection, _, mut messages) = new_multicast_connection(&[MulticastGroup::Link])?;
        let (sender, changes) = watch::channel(());
        let reader = async move {
            // Also an overrun, in which messages were lost, comes as a message.
            while messages.next().await.is_some() {
                sender.send_replace(());
            }
        };
        Ok(Self {
            changes,
            tasks: [tokio::spawn(connection), tokio::spawn(reader)],
        })
    }

    /// Returns after a change; several that came meanwhile count as one. Never returns if the
    /// kernel closed the socket.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            pending::<()>().await;
        }
    }
}

impl Drop for LinkWatch {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
