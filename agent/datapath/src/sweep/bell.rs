//! A bell: rung by one thread, heard by another; rung twice before it is heard, it rang once.

use std::{
    mem,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A thread that rings does not wait for the one that hears.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    changed: Condvar,
    /// A ring does not wake a thread that rests.
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_rung: bool,
    is_over: bool,
}

/// Result of listening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The bell was rung since it was heard last.
    Ring,
    /// Nothing for as long as was waited.
    Nothing,
    /// It will not be rung any more.
    End,
}

impl Bell {
    /// Rings.
    pub(crate) fn ring(&self) {
        // A listener that was woken by a ring before has not heard it yet, and hears this one with it.
        if !mem::replace(&mut self.state().is_rung, true) {
            self.changed.notify_one();
        }
    }

    /// Ends listening: the bell will not ring any more.
    pub(crate) fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_one();
        self.over.notify_one();
    }

    /// Waits until the bell is rung, or at most for so long. A ring that came before counts.
    pub(crate) fn listen(&self, limit: Option<Duration>) -> Heard {
        let is_quiet = |state: &mut State| !state.is_rung && !state.is_over;
        let mut state = match limit {
            None => self
                .changed
                .wait_while(self.state(), is_quiet)
                .unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                self.changed
                    .wait_timeout_while(self.state(), limit, is_quiet)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        };
        if state.is_over {
            Heard::End
        } else if mem::take(&mut state.is_rung) {
            Heard::Ring
        } else {
            Heard::Nothing
        }
    }

    /// Rests for so long, unless it ends before. A ring is left for [`Self::listen`].
    pub(crate) fn rest(&self, time: Duration) {
        drop(
            self.over
                .wait_timeout_while(self.state(), time, |state| !state.is_over),
        );
    }

    /// Two flags cannot be left half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn rings_before_it_is_heard_are_one() {
        let bell = Bell::default();
        bell.ring();
        bell.ring();
        assert_eq!(bell.listen(None), Heard::Ring);
        assert_eq!(bell.listen(Some(Duration::ZERO)), Heard::Nothing);
    }

    #[test]
    fn whoever_listens_wakes_up() {
        let bell = Bell::default();
        thread::scope(|scope| {
            let listener = scope.spawn(|| (bell.listen(None), bell.listen(None)));
            bell.ring();
            while bell.state().is_rung {
                thread::yield_now();
            }
            bell.end();
            assert_eq!(listener.join().unwrap(), (Heard::Ring, Heard::End));
        });
    }

    #[test]
    fn after_the_end_no_ring_is_heard() {
        let bell = Bell::default();
        bell.ring();
        bell.end();
        bell.rest(Duration::from_hours(1));
        assert_eq!(bell.listen(None), Heard::End);
    }

    #[test]
    fn a_ring_during_a_rest_is_heard_after_it() {
        let bell = Bell::default();
        bell.ring();
        bell.rest(Duration::from_millis(1));
        assert_eq!(bell.listen(None), Heard::Ring);
    }
}
