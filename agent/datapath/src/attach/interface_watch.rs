//! Interfaces and their addresses that come and go, as the kernel reports through netlink.

use std::{future::pending, io, time::Duration};

use futures_util::{Stream, StreamExt as _};
use rtnetlink::{MulticastGroup, new_multicast_connection};
use tokio::{sync::watch, task::JoinHandle, time::sleep};
use tracing::warn;

/// Time between the end of a socket and the opening of the next one.
const REOPEN: Duration = Duration::from_secs(1);

/// A watch for any interface, or any interface's address, that has appeared, changed or gone. What there
/// is now has to be read after that: a message may be lost, the news that there was one never is.
#[derive(Debug)]
pub struct InterfaceWatch {
    changes: watch::Receiver<()>,
    sender: watch::Sender<()>,
    tasks: Vec<JoinHandle<()>>,
}

impl InterfaceWatch {
    /// Listens to `RTNLGRP_LINK` in the network namespace of the process.
    ///
    /// # Errors
    ///
    /// If no netlink socket can be opened.
    pub fn links() -> io::Result<Self> {
        Self::start(&[MulticastGroup::Link])
    }

    /// Notifies of changes of `others`, too.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(mut self, mut others: watch::Receiver<T>) -> Self {
        let sender = self.sender.clone();
        self.tasks.push(tokio::spawn(async move {
            while others.changed().await.is_ok() {
                sender.send_replace(());
            }
        }));
        self
    }

    /// Listens to `RTNLGRP_IPV4_IFADDR` and `RTNLGRP_IPV6_IFADDR`.
    ///
    /// # Errors
    ///
    /// If no netlink socket can be opened.
    pub fn addresses() -> io::Result<Self> {
        Self::start(&[MulticastGroup::Ipv4Ifaddr, MulticastGroup::Ipv6Ifaddr])
    }

    fn start(groups: &'static [MulticastGroup]) -> io::Result<Self> {
        Ok(Self::of(listen(groups)?, move || listen(groups)))
    }

    /// Watches a stream of messages, and what `reopen` returns when it has ended.
    fn of<S: Stream + Unpin + Send + 'static>(
        mut messages: S,
        mut reopen: impl FnMut() -> io::Result<S> + Send + 'static,
    ) -> Self {
        let (sender, changes) = watch::channel(());
        let of_messages = sender.clone();
        let task = tokio::spawn(async move {
            loop {
                // Also an overrun (ENOBUFS), in which messages were lost, comes as a message.
                while messages.next().await.is_some() {
                    of_messages.send_replace(());
                }
                warn!("a netlink socket has ended: another one is opened, and all is read again");
                messages = loop {
                    sleep(REOPEN).await;
                    match reopen() {
                        Ok(messages) => break messages,
                        Err(error) => warn!(%error, "no netlink socket can be opened"),
                    }
                };
                // No message has reported the changes in between.
                of_messages.send_replace(());
            }
        });
        Self {
            changes,
            sender,
            tasks: vec![task],
        }
    }

    /// Returns after a change; several that came meanwhile count as one.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            pending::<()>().await;
        }
    }
}

impl Drop for InterfaceWatch {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The messages of a new socket. The task that reads it ends with them.
fn listen(groups: &[MulticastGroup]) -> io::Result<impl Stream + Unpin + Send + 'static> {
    let (connection, _, messages) = new_multicast_connection(groups)?;
    tokio::spawn(connection);
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn a_socket_that_has_ended_is_replaced_and_all_is_to_be_read_again() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut refusals = 1;
            let mut watch = InterfaceWatch::of(stream::iter([(), ()]).boxed(), move || {
                if refusals > 0 {
                    refusals -= 1;
                    return Err(io::ErrorKind::Other.into());
                }
                Ok(stream::pending().boxed())
            });
            watch.changed().await;
            timeout(10 * REOPEN, watch.changed()).await.unwrap();
        });
    }
}
