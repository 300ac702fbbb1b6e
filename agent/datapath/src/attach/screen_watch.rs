//! A thread that follows what others have on the devices of pods.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, Builder},
    time::{Duration, Instant},
};

use rtnetlink::MulticastGroup;
use tokio::sync::watch;

use crate::{
    attach::screens::{self, Screens},
    netlink::messages::{Messages, Noted},
};

/// The subjects of the kernel's messages. TCX and netkit report nothing.
const GROUPS: &[MulticastGroup] = &[MulticastGroup::Link, MulticastGroup::Tc];

/// The longest time between two looks.
const LONGEST: Duration = Duration::from_secs(10);

/// Rest of the thread, in multiples of the time that it looked: it has at most a tenth of a processor.
const REST: u32 = 9;

/// The screened devices among those of pods, as they change.
#[derive(Debug)]
pub(crate) struct ScreenWatch {
    candidates: Arc<Mutex<BTreeSet<u32>>>,
    screens: watch::Sender<Screens>,
}

impl ScreenWatch {
    /// Follows them from now on, in the network namespace of the caller.
    ///
    /// # Errors
    ///
    /// If the kernel reports nothing, or there is no thread.
    pub(crate) fn start() -> io::Result<Self> {
        let this = Self {
            candidates: Arc::default(),
            screens: watch::Sender::default(),
        };
        let mut messages = Messages::open(GROUPS)?;
        let candidates = Arc::downgrade(&this.candidates);
        let sender = this.screens.clone();
        Builder::new().name("screens".to_owned()).spawn(move || {
            while let Some(candidates) = candidates.upgrade() {
                let start = Instant::now();
                look(&candidates, &sender);
                drop(candidates);
                thread::sleep(start.elapsed() * REST);
                messages.gather(Instant::now() + LONGEST, &mut |_| Noted::Stale);
            }
        })?;
        Ok(this)
    }

    /// Notifies of each change.
    pub(crate) fn changes(&self) -> watch::Receiver<Screens> {
        self.screens.subscribe()
    }

    /// Returns the screened ones of these interfaces: the host's ends of pairs, by index, which have our programs.
    /// New interfaces are looked at now.
    pub(crate) fn among(&self, interfaces: &BTreeSet<u32>) -> Screens {
        let mut candidates = lock(&self.candidates);
        let new: BTreeSet<u32> = interfaces.difference(&candidates).copied().collect();
        candidates.clone_from(interfaces);
        let found = if new.is_empty() {
            Screens::new()
        } else {
            screens::find(&new)
        };
        // The caller knows.
        self.screens.send_if_modified(|screens| {
            screens.retain(|index, _| interfaces.contains(index));
            screens.extend(found);
            false
        });
        self.screens.borrow().clone()
    }
}

/// Looks at all candidates, and notifies of what has changed.
fn look(candidates: &Mutex<BTreeSet<u32>>, sender: &watch::Sender<Screens>) {
    let looked_at = lock(candidates).clone();
    let found = screens::find(&looked_at);
    let candidates = lock(candidates);
    sender.send_if_modified(|screens| {
        let before = screens.clone();
        screens.retain(|index, _| !looked_at.contains(index));
        screens.extend(
            found
                .into_iter()
                .filter(|(index, _)| candidates.contains(index)),
        );
        *screens != before
    });
}

fn lock(candidates: &Mutex<BTreeSet<u32>>) -> MutexGuard<'_, BTreeSet<u32>> {
    candidates.lock().unwrap_or_else(PoisonError::into_inner)
}
