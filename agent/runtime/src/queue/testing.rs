//! The queue's end in tests of sources.

use tokio::sync::oneshot;

use crate::{
    outcome::{Acceptance, ApplyError},
    queue::Requests,
    request::{Request, Submission},
};

impl Requests {
    /// Has the next event wait aside, and returns it in words, with the sender of its answer: for tests of
    /// sources.
    ///
    /// # Panics
    ///
    /// If the next request is no event whose answer is awaited.
    #[doc(hidden)]
    pub async fn next_aside(
        &mut self,
    ) -> (String, oneshot::Sender<Result<Acceptance, ApplyError>>) {
        match self.next().await.map(Request::set_aside) {
            Some(Request::Event(Submission {
                origin,
                event: Ok(event),
                circumstances: _,
                queued: _,
                turn: None,
                is_foreign: _,
                answer: Some(answer),
            })) => (format!("{origin}: {}", event.subject()), answer),
            other => panic!("no event that somebody waits for: {other:?}"),
        }
    }

    /// Returns the next request in words, for tests of sources; `None` at the end.
    /// An event whose answer is awaited is held.
    ///
    /// # Panics
    ///
    /// If the receiver of the answer is gone.
    #[doc(hidden)]
    pub async fn next_event(&mut self) -> Option<String> {
        Some(match self.next().await? {
            Request::Event(Submission {
                origin,
                event,
                circumstances: _,
                queued: _,
                turn: _,
                is_foreign: _,
                answer,
            }) => {
                if let Some(answer) = answer {
                    answer.send(Ok(Acceptance::Held)).unwrap();
                }
                match event {
                    Ok(event) => format!("{origin}: {}", event.subject()),
                    Err(error) => format!("{origin}: {error}"),
                }
            }
            Request::Ended(Ok(())) => "the end".to_owned(),
            Request::Ended(Err((origin, error))) => format!("{origin}: {error}"),
            Request::HostAddresses(_) => "addresses".to_owned(),
            Request::Slack => "slack".to_owned(),
            Request::Read(..)
            | Request::Wanted(_)
            | Request::Lookup(..)
            | Request::Follow(..)
            | Request::AreGone(..)
            | Request::Steer(..)
            | Request::Decide(..)
            | Request::LoadFlows(_)
            | Request::TellFlows(..)
            | Request::StopFlows(_)
            | Request::Figures(_)
            | Request::Status(_) => "a question".to_owned(),
        })
    }
}
