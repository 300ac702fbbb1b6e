//! Consul's rules for blocking queries, and those for the belief in their answers.

use crate::consul::http::life::Life;

/// The next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// The leader's word, at once.
    Default,
    /// Any server's word, at once.
    Stale,
    /// Any server's word, as soon as it is another than that of this index.
    Blocking(u64),
}

/// Value of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    /// It has the index of what is known. Consul changes answers without another index, so its content may differ.
    Known,
    /// It is to be believed.
    New,
    /// It is older than what is known: the leader is asked whether it is true.
    Doubtful,
}

/// Position of a query.
///
/// An index counts only from an answer that is good: Consul sends one with its errors, too. After an error
/// the next read has none: a Consul that was built anew counts from the beginning, and would let a
/// read with a large index sleep through all that happens. So it is after a connection that ended while
/// nothing was asked. An index that went back may be one of a server that lags behind, or of a new
/// Consul: the leader knows.
///
/// After a snapshot is restored, no index goes back: Consul ends each wait early, with the index that was asked for, and
/// would let the next read sleep on it. So that one has none either.
#[derive(Debug, Clone, Default)]
pub(super) struct Cursor {
    /// Of what was believed last.
    index: u64,
    /// Connection of that answer.
    connection: Option<Life>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Nothing is known.
    #[default]
    Start,
    /// The known answer is up to date.
    Follow,
    /// Something failed since.
    Afresh,
    /// The index went back.
    Confirm,
    /// A hint has announced something new.
    Hinted,
}

impl Cursor {
    /// Returns the next request.
    pub(super) const fn read(&self) -> Read {
        match self.state {
            State::Start | State::Confirm | State::Hinted => Read::Default,
            State::Follow => Read::Blocking(self.index),
            State::Afresh => Read::Stale,
        }
    }

    /// Notices whether the connection of the last answer has ended since: the next read has no index then.
    pub(super) fn notice_end(&mut self) -> bool {
        let has_ended = self.connection.as_ref().is_some_and(Life::has_ended);
        let is_cut_off = self.state == State::Follow && has_ended;
        if is_cut_off {
            self.state = State::Afresh;
        }
        is_cut_off
    }

    /// There is a good answer with this index, through this connection if that still stands. `is_early`: it came well
    /// before its wait was over.
    pub(super) fn answered(
        &mut self,
        index: u64,
        connection: Option<Life>,
        is_early: bool,
    ) -> Worth {
        self.connection = connection;
        // Consul never sends 0; a proxy between us might.
        let index = index.max(1);
        let worth = match self.state {
            State::Follow | State::Hinted if index == self.index => Worth::Known,
            State::Follow | State::Afresh if index < self.index => Worth::Doubtful,
            // Of the leader all is true, and of others what is not older.
            State::Start | State::Confirm | State::Follow | State::Afresh | State::Hinted => {
                Worth::New
            }
        };
        let is_cut_short = self.state == State::Follow && worth == Worth::Known && is_early;
        match worth {
            Worth::Doubtful => self.state = State::Confirm,
            Worth::Known | Worth::New => {
                self.index = index;
                self.state = if is_cut_short {
                    State::Afresh
                } else {
                    State::Follow
                };
            }
        }
        worth
    }

    /// There is none, or it could not be believed.
    pub(super) const fn failed(&mut self) {
        self.state = match self.state {
            State::Start => State::Start,
            State::Confirm => State::Confirm,
            State::Follow | State::Afresh | State::Hinted => State::Afresh,
        };
    }

    /// Notes a hint that there is something new: the leader knows it.
    pub(super) const fn hinted(&mut self) {
        if matches!(self.state, State::Follow | State::Afresh) {
            self.state = State::Hinted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Event of a query.
    enum Step {
        Answer(u64, Worth),
        /// As that, well before its wait is over.
        Early(u64, Worth),
        Failure,
        Hint,
    }

    use Step::{Answer, Early, Failure, Hint};

    /// Returns the request after these steps.
    fn read_after(steps: &[Step]) -> Read {
        let mut cursor = Cursor::default();
        for step in steps {
            match step {
                Answer(index, worth) => assert_eq!(cursor.answered(*index, None, false), *worth),
                Early(index, worth) => assert_eq!(cursor.answered(*index, None, true), *worth),
                Failure => cursor.failed(),
                Hint => cursor.hinted(),
            }
        }
        cursor.read()
    }

    #[test]
    fn what_is_cut_short_is_followed_by_a_read_without_index() {
        for (steps, read) in [
            // Cut short, as by the restoration of a snapshot.
            (
                &[Answer(7, Worth::New), Early(7, Worth::Known)][..],
                Read::Stale,
            ),
            (
                &[
                    Answer(7, Worth::New),
                    Early(7, Worth::Known),
                    Early(7, Worth::New),
                ],
                Read::Blocking(7),
            ),
            (
                &[
                    Answer(7, Worth::New),
                    Early(7, Worth::Known),
                    Early(3, Worth::Doubtful),
                ],
                Read::Default,
            ),
            (
                &[Answer(7, Worth::New), Early(9, Worth::New)],
                Read::Blocking(9),
            ),
            (
                &[Answer(7, Worth::New), Hint, Early(7, Worth::Known)],
                Read::Blocking(7),
            ),
        ] {
            assert_eq!(read_after(steps), read);
        }
    }

    #[test]
    fn the_index_is_that_of_the_last_good_answer_and_after_an_error_there_is_none() {
        for (steps, read) in [
            (&[][..], Read::Default),
            (&[Failure], Read::Default),
            (&[Answer(7, Worth::New)], Read::Blocking(7)),
            (&[Answer(0, Worth::New)], Read::Blocking(1)),
            (
                &[Answer(7, Worth::New), Answer(7, Worth::Known)],
                Read::Blocking(7),
            ),
            (
                &[Answer(7, Worth::New), Answer(9, Worth::New)],
                Read::Blocking(9),
            ),
            (&[Answer(7, Worth::New), Failure], Read::Stale),
            (&[Answer(7, Worth::New), Failure, Failure], Read::Stale),
            // An answer that could not be believed comes again with the same index.
            (
                &[Answer(7, Worth::New), Failure, Answer(7, Worth::New)],
                Read::Blocking(7),
            ),
            (
                &[Answer(7, Worth::New), Failure, Answer(9, Worth::New)],
                Read::Blocking(9),
            ),
            // Backwards: the leader is asked, and its answer is true.
            (
                &[Answer(7, Worth::New), Answer(3, Worth::Doubtful)],
                Read::Default,
            ),
            (
                &[Answer(7, Worth::New), Failure, Answer(3, Worth::Doubtful)],
                Read::Default,
            ),
            (
                &[Answer(7, Worth::New), Answer(3, Worth::Doubtful), Failure],
                Read::Default,
            ),
            (
                &[
                    Answer(7, Worth::New),
                    Answer(3, Worth::Doubtful),
                    Answer(8, Worth::New),
                ],
                Read::Blocking(8),
            ),
            (
                &[
                    Answer(7, Worth::New),
                    Answer(3, Worth::Doubtful),
                    Answer(3, Worth::New),
                ],
                Read::Blocking(3),
            ),
            (&[Hint], Read::Default),
            (&[Answer(7, Worth::New), Hint], Read::Default),
            (
                &[Answer(7, Worth::New), Hint, Answer(7, Worth::Known)],
                Read::Blocking(7),
            ),
            (
                &[Answer(7, Worth::New), Hint, Answer(3, Worth::New)],
                Read::Blocking(3),
            ),
            (&[Answer(7, Worth::New), Hint, Failure], Read::Stale),
        ] {
            assert_eq!(read_after(steps), read);
        }
    }

    #[test]
    fn after_the_end_of_its_connection_an_index_is_not_asked_for() {
        let mut cursor = Cursor::default();
        assert!(!cursor.notice_end());
        let first = Life::default();
        cursor.answered(7, Some(first.clone()), false);
        assert!(!cursor.notice_end());
        first.end();
        assert!(cursor.notice_end());
        assert_eq!(cursor.read(), Read::Stale);
        // Of a new Consul: once is enough.
        assert!(!cursor.notice_end());
        let second = Life::default();
        assert_eq!(cursor.answered(3, Some(second), false), Worth::Doubtful);
        assert_eq!(cursor.answered(3, None, false), Worth::New);
        assert!(!cursor.notice_end());
        assert_eq!(cursor.read(), Read::Blocking(3));
    }
}
