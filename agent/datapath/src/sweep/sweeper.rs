//! The sweeper: a thread that connects UDP sockets without a backend anew, and destroys sockets whose backend is gone and
//! that cannot be connected, whenever backends have left or come.

use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tracing::{info, warn};

use crate::sweep::{
    bell::Heard,
    stale::{Cured, IsGone, StaleSockets},
};

/// Times after which the thread looks again after a ring of its bell, and after it has cured any.
///
/// The first look comes after the backend's new generation is in the table. It sees every socket
/// that had connected by then. It can miss two:
///
/// - One that is being connected. The hook has read the old generation and not yet written it into
///   the storage; or it has, and connect(2) has not yet put the socket into the kernel's table. The
///   hook ends within a grace period of RCU, and what connect(2) does after it waits for nothing
///   but memory: both are milliseconds, and the second look is later. The third is for a process
///   that lost the CPU in between.
/// - One whose neighbour in the kernel's table went away while the table was listed.
///
/// A hook that has chosen the backend from a slot before it left, and reads its generation after,
/// keeps the generation of the removal. That changes once more when the backend's place is
/// emptied, after a grace period; and the thread's bell rings for that, too.
const AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// So many times as long as a sweep took, the thread rests after it, so that it takes a quarter of a
/// CPU at most while backends leave all the time; but never so long that a socket would wait for a
/// second. Where there are no sockets to speak of, waking up for each backend is what a sweep costs.
const REST: u32 = 3;
const SHORTEST_REST: Duration = Duration::from_millis(25);
const LONGEST_REST: Duration = Duration::from_millis(250);

/// Cures stale sockets until it is stopped.
#[derive(Debug)]
pub struct Sweeper {
    sockets: Arc<StaleSockets>,
    thread: JoinHandle<()>,
}

impl Sweeper {
    /// Starts the thread, in the network namespace of the calling one. TCP sockets are destroyed if
    /// `is_gone` is given: those whose endpoint it finds gone.
    ///
    /// A thread of its own, because to list many sockets takes many milliseconds, in which events
    /// must not wait.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn start(sockets: Arc<StaleSockets>, mut is_gone: Option<IsGone>) -> io::Result<Self> {
        let swept = Arc::clone(&sockets);
        let thread = thread::Builder::new()
            .name("sweeper".to_owned())
            .spawn(move || run(&swept, is_gone.as_mut()))?;
        Ok(Self { sockets, thread })
    }

    /// Ends the thread.
    pub fn stop(self) {
        let Self { sockets, thread } = self;
        sockets.bell.end();
        // It has nothing to give, and if it has panicked, that was logged.
        drop(thread.join());
    }
}

fn run(sockets: &StaleSockets, mut is_gone: Option<&mut IsGone>) {
    // Until the bell rings, there is nothing to do.
    let mut again = [].iter();
    loop {
        match sockets.bell.listen(again.next().copied()) {
            Heard::End => return,
            Heard::Ring => again = AGAIN.iter(),
            Heard::Nothing => {}
        }
        let start = Instant::now();
        let swept = sockets.sweep(is_gone.as_deref_mut());
        let took = start.elapsed();
        if let Ok(Cured {
            moved_udp,
            destroyed_udp,
            destroyed_tcp,
        }) = swept
            && moved_udp + destroyed_udp + destroyed_tcp > 0
        {
            info!(
                moved_udp,
                destroyed_udp,
                destroyed_tcp,
                ?took,
                "cured sockets without a backend"
            );
            again = AGAIN.iter();
        }
        if let Some(trouble) = sockets.note(swept) {
            warn!("sockets may stay on a backend that is gone: {trouble}");
        }
        let rest = (took * REST).clamp(SHORTEST_REST, LONGEST_REST);
        sockets.bell.rest(rest);
    }
}
