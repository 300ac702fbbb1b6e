//! A thread that follows the setting `rp_filter` of interfaces.

use std::{
    io,
    thread::{self, Builder},
    time::{Duration, Instant},
};

use rtnetlink::MulticastGroup;
use tokio::sync::watch;
use tracing::warn;

use crate::{
    attach::reverse_paths::ReversePaths,
    netlink::messages::{Messages, Noted},
};

/// The subjects of the kernel's messages. A new interface has one of the first.
const GROUPS: &[MulticastGroup] = &[MulticastGroup::Ipv4Netconf, MulticastGroup::Ipv4Ifaddr];

/// Rest of the thread, in multiples of the time that it listed them: it has at most a tenth of a processor.
const REST: u32 = 9;

/// The longest wait for a message before the thread checks that they are still wanted.
const LONGEST: Duration = Duration::from_mins(1);

/// Follows them from now on, in the network namespace of the caller.
///
/// # Errors
///
/// If the kernel reports or lists nothing now, or there is no thread.
pub(crate) fn follow() -> io::Result<watch::Receiver<ReversePaths>> {
    let mut messages = Messages::open(GROUPS)?;
    let (sender, paths) = watch::channel(ReversePaths::list()?);
    Builder::new()
        .name("reverse-paths".to_owned())
        .spawn(move || {
            while !sender.is_closed() {
                messages.gather(Instant::now() + LONGEST, &mut |_| Noted::Stale);
                let start = Instant::now();
                let listed = ReversePaths::list().unwrap_or_else(|error| {
                    warn!(%error, "the stack is asked about more sources: `rp_filter` is not known");
                    ReversePaths::default()
                });
                sender.send_if_modified(|paths| {
                    let is_other = *paths != listed;
                    *paths = listed;
                    is_other
                });
                thread::sleep(start.elapsed() * REST);
            }
        })?;
    Ok(paths)
}
