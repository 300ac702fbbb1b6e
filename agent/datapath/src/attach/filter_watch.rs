//! Filters that are removed, as the kernel reports through netlink: before TCX (Linux 6.6), removing an interface's
//! clsact qdisc, or all filters of it, removes the programs.

use std::{collections::BTreeSet, future::pending, io, mem, time::Duration};

use aya::util::KernelVersion;
use rtnetlink::{
    MulticastGroup,
    packet_route::tc::TcHandle,
    sys::{
        AsyncSocket as _, AsyncSocketExt as _, SocketAddr, TokioSocket, protocols::NETLINK_ROUTE,
    },
};
use tokio::{sync::watch, task::JoinHandle, time::sleep};
use tracing::warn;

use crate::{
    attach::attachment::TCX_SINCE,
    netlink::messages::{interface_of, kind},
};

/// Message types of linux/rtnetlink.h.
const RTM_DELQDISC: u16 = 37;
const RTM_DELTFILTER: u16 = 45;

/// The most bytes of a message that are read. Filters' are longer, but begin with what is read.
const BEGIN: usize = 4096;

/// The time after which a socket that has failed is replaced.
const REOPEN: Duration = Duration::from_secs(1);

/// Interfaces whose filters may have been removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemovedFilters {
    /// By their indexes.
    pub interfaces: BTreeSet<u32>,
    /// True if there may be others: messages were lost.
    pub any: bool,
}

/// A watch for interfaces whose filters may have been removed.
#[derive(Debug)]
pub struct FilterWatch(Option<Watch>);

#[derive(Debug)]
struct Watch {
    removed: watch::Sender<RemovedFilters>,
    news: watch::Receiver<RemovedFilters>,
    task: JoinHandle<()>,
}

impl FilterWatch {
    /// Listens to `RTNLGRP_TC` in the network namespace of the process. With TCX the programs cannot be removed so: it
    /// reports nothing.
    ///
    /// # Errors
    ///
    /// If no netlink socket can be opened.
    pub fn start() -> io::Result<Self> {
        if KernelVersion::current().is_ok_and(|version| version >= TCX_SINCE) {
            return Ok(Self(None));
        }
        let mut socket = open()?;
        let (removed, news) = watch::channel(RemovedFilters::default());
        let sender = removed.clone();
        let task = tokio::spawn(async move {
            loop {
                let error = follow(&socket, &sender).await;
                warn!(%error, "a netlink socket has failed: another one is opened, and all filters are looked for");
                socket = loop {
                    sleep(REOPEN).await;
                    match open() {
                        Ok(socket) => break socket,
                        Err(error) => warn!(%error, "no netlink socket can be opened"),
                    }
                };
                sender.send_modify(|removed| removed.any = true);
            }
        });
        Ok(Self(Some(Watch {
            removed,
            news,
            task,
        })))
    }

    /// Returns where filters may have been removed since the last time.
    pub async fn removed(&mut self) -> RemovedFilters {
        let Self(Some(Watch { removed, news, .. })) = self else {
            return pending().await;
        };
        if news.changed().await.is_err() {
            return pending().await;
        }
        let mut taken = RemovedFilters::default();
        removed.send_if_modified(|removed| {
            taken = mem::take(removed);
            false
        });
        taken
    }
}

impl Drop for FilterWatch {
    fn drop(&mut self) {
        if let Self(Some(Watch { task, .. })) = self {
            task.abort();
        }
    }
}

fn open() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    let raw = socket.socket_mut();
    raw.bind(&SocketAddr::new(0, 0))?;
    raw.add_membership(MulticastGroup::Tc as u32)?;
    Ok(socket)
}

/// Notes the kernel's messages, until the socket fails.
async fn follow(socket: &TokioSocket, sender: &watch::Sender<RemovedFilters>) -> io::Error {
    let mut begin = Vec::with_capacity(BEGIN);
    loop {
        begin.clear();
        match socket.recv(&mut begin).await {
            Ok(()) => {
                if let Some(index) = robbed_interface(&begin) {
                    sender.send_modify(|removed| {
                        removed.interfaces.insert(index);
                    });
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                sender.send_modify(|removed| removed.any = true);
            }
            Err(error) => return error,
        }
    }
}

/// Returns the interface of a message, with its header, about the removal of clsact or of filters of it.
fn robbed_interface(message: &[u8]) -> Option<u32> {
    // `tcm_parent` of `struct tcmsg` (linux/rtnetlink.h).
    let parent = message.get(28..32)?.try_into().ok()?;
    let parent = TcHandle::from(u32::from_ne_bytes(parent));
    let is_of_clsact = parent.major == TcHandle::CLSACT.major;
    let is_removal = matches!(kind(message)?, RTM_DELQDISC | RTM_DELTFILTER);
    (is_removal && is_of_clsact)
        .then(|| interface_of(message))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_goes_from_clsact_counts() {
        let message = |kind: u16, parent: u32| {
            let mut message = vec![0; 36];
            message[4..6].copy_from_slice(&kind.to_ne_bytes());
            message[20] = 7;
            message[28..32].copy_from_slice(&parent.to_ne_bytes());
            message
        };
        for (message, interface) in [
            (message(RTM_DELQDISC, 0xffff_fff1), Some(7)),
            (message(RTM_DELTFILTER, 0xffff_fff2), Some(7)),
            (message(RTM_DELTFILTER, 0xffff_fff3), Some(7)),
            // The root counts too, a class of another qdisc and what comes do not.
            (message(RTM_DELQDISC, u32::MAX), Some(7)),
            (message(RTM_DELTFILTER, 0x1_0001), None),
            (message(44, 0xffff_fff2), None),
            (vec![0; 20], None),
            (Vec::new(), None),
        ] {
            assert_eq!(robbed_interface(&message), interface, "{message:?}");
        }
    }
}
