//! A link that takes its time, for kernels without `netem`.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{namespace::Namespace, tun::Tun};

/// Interval of the looks at the line, and so its precision.
const GLANCE: Duration = Duration::from_millis(1);

/// The longest packet: those of a tun interface, of the MTU that it has by itself.
const LONGEST: usize = 1500;

/// Largest number of packets under way in a direction; further ones are lost.
const LENGTH: usize = 10_000;

/// Two tun interfaces whose packets come out at the other one, later. Dropping it removes both.
#[derive(Debug)]
pub struct DelayLine {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DelayLine {
    /// Connects an interface in one namespace with one in another, each given by namespace and
    /// name. A packet takes `delay` in either direction. Addresses and routes are the caller's.
    ///
    /// # Errors
    ///
    /// When an interface cannot be made.
    pub fn new(ends: [(&Namespace, &str); 2], delay: Duration) -> io::Result<Self> {
        let [here, there] = ends.map(|(namespace, name)| Tun::new(namespace, name));
        let [here, there] = [here?, there?];
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let (mut towards, mut back) = (VecDeque::new(), VecDeque::new());
                while !stop.load(Ordering::Relaxed) {
                    // An interface that is down has no packets, and takes none.
                    drop(carry(&here, &there, delay, &mut towards));
                    drop(carry(&there, &here, delay, &mut back));
                    thread::sleep(GLANCE);
                }
            }
        });
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("a delay line panicked");
        }
    }
}

/// Takes in what has come, and hands out what is due.
fn carry(
    from: &Tun,
    to: &Tun,
    delay: Duration,
    line: &mut VecDeque<(Instant, Vec<u8>)>,
) -> io::Result<()> {
    let mut buffer = [0; LONGEST];
    while let Some(packet) = from.receive(&mut buffer)? {
        if line.len() < LENGTH {
            line.push_back((Instant::now() + delay, packet.to_vec()));
        }
    }
    while let Some((_, packet)) = line.pop_front_if(|(due, _)| *due <= Instant::now()) {
        to.send(&packet)?;
    }
    Ok(())
}
