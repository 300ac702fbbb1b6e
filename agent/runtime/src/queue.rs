//! The way to the event loop.

mod testing;

use std::{collections::BTreeSet, convert::Infallible, io, net::IpAddr, sync::Arc};

use shunt_model::{EventError, RendererEvent};
use tokio::sync::{mpsc, oneshot};

use crate::{
    circumstances::Circumstances,
    error::Ending,
    origin::Origin,
    outcome::{Acceptance, ApplyError},
    reports::Reports,
    request::{Queued, Request, Submission},
};

/// Number of requests that wait for the loop before their senders do.
const AHEAD: usize = 16;

/// Number of other requests in a row after which one that only looks at the agent has its turn.
const IN_A_ROW: u32 = 16;

/// The end of the queue at which events are put in: all that a source knows of the agent.
#[derive(Debug, Clone)]
pub struct EventQueue {
    requests: mpsc::Sender<Request>,
    looks: mpsc::Sender<Request>,
    reports: Arc<Reports>,
}

/// The end of the queue that the event loop reads. A request that only looks at the agent waits for all others, so an
/// event waits for one look at most.
#[derive(Debug)]
pub struct Requests {
    receiver: mpsc::Receiver<Request>,
    looks: mpsc::Receiver<Request>,
    /// Number of other requests since the last look.
    in_a_row: u32,
}

/// A queue, both of its ends.
pub fn queue() -> (EventQueue, Requests) {
    let (requests, receiver) = mpsc::channel(AHEAD);
    let (looks_sender, looks) = mpsc::channel(AHEAD);
    let queue = EventQueue {
        requests,
        looks: looks_sender,
        reports: Arc::default(),
    };
    let requests = Requests {
        receiver,
        looks,
        in_a_row: 0,
    };
    (queue, requests)
}

impl EventQueue {
    /// Returns the reports beside the queue, which are seen at once.
    pub const fn reports(&self) -> &Arc<Reports> {
        &self.reports
    }

    /// Delivers an event of a client, or what was wrong with it, and waits for what becomes of it. A Resync is refused
    /// beside a source that has the last word, unless it comes `over_source`.
    ///
    /// # Errors
    ///
    /// If the agent does not take events any more.
    pub async fn deliver_foreign(
        &self,
        origin: Origin,
        event: Result<RendererEvent, EventError>,
        over_source: bool,
    ) -> Result<Result<Acceptance, ApplyError>, Ending> {
        let queued = Queued::new(&self.reports);
        self.ask(|answer| {
            Request::Event(Submission {
                origin,
                event,
                circumstances: Circumstances::default(),
                queued,
                turn: None,
                is_foreign: !over_source,
                answer: Some(answer),
            })
        })
        .await
    }

    /// Delivers an event of the source with these circumstances, or what was wrong with it, and waits for what becomes
    /// of it. Its `turn` is dropped as soon as its sender may deliver another one, which then need not wait for what
    /// this one waits for aside: an event that has to do with this one takes effect after it in any case.
    ///
    /// # Errors
    ///
    /// If the agent does not take events any more.
    pub async fn deliver_with(
        &self,
        origin: Origin,
        event: Result<RendererEvent, EventError>,
        circumstances: Circumstances,
        turn: Option<oneshot::Sender<Infallible>>,
    ) -> Result<Result<Acceptance, ApplyError>, Ending> {
        let queued = Queued::new(&self.reports);
        self.ask(|answer| {
            Request::Event(Submission {
                origin,
                event,
                circumstances,
                queued,
                turn,
                is_foreign: false,
                answer: Some(answer),
            })
        })
        .await
    }

    /// Delivers an event from a thread that may block. Only the log shows what becomes of it. It takes
    /// effect after all that were delivered like this before it.
    ///
    /// # Errors
    ///
    /// If the agent does not take events any more.
    pub fn deliver_blocking(
        &self,
        origin: Origin,
        event: Result<RendererEvent, EventError>,
    ) -> Result<(), Ending> {
        self.send_blocking(Request::Event(Submission {
            origin,
            event,
            circumstances: Circumstances::default(),
            queued: Queued::new(&self.reports),
            turn: None,
            is_foreign: false,
            answer: None,
        }))
    }

    /// Reports from a thread that may block that the source has ended, or at which event it failed.
    ///
    /// # Errors
    ///
    /// If the agent does not take events any more.
    pub fn end_blocking(&self, end: Result<(), (Origin, io::Error)>) -> Result<(), Ending> {
        self.send_blocking(Request::Ended(end))
    }

    /// Sets the addresses that the host's interfaces have now.
    ///
    /// # Errors
    ///
    /// If the agent does not take it any more.
    pub async fn host_addresses(&self, addresses: BTreeSet<IpAddr>) -> Result<(), Ending> {
        let request = Request::HostAddresses(addresses);
        self.requests.send(request).await.map_err(|_| Ending)
    }

    /// Reports that much was read of which little is kept: its memory is given back to the system when
    /// nothing else is to be done.
    ///
    /// # Errors
    ///
    /// If the agent does not take events any more.
    pub async fn has_slack(&self) -> Result<(), Ending> {
        self.requests.send(Request::Slack).await.map_err(|_| Ending)
    }

    fn send_blocking(&self, request: Request) -> Result<(), Ending> {
        self.requests.blocking_send(request).map_err(|_| Ending)
    }

    /// The answer to the request that `request` makes, for a thread that may block.
    pub(super) fn ask_blocking<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, Ending> {
        let (answer, answered) = oneshot::channel();
        self.send_blocking(request(answer))?;
        answered.blocking_recv().map_err(|_| Ending)
    }

    /// The answer to the request that `request` makes.
    pub(super) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, Ending> {
        let (answer, answered) = oneshot::channel();
        let request = request(answer);
        let way = if request.is_look() {
            &self.looks
        } else {
            &self.requests
        };
        way.send(request).await.map_err(|_| Ending)?;
        answered.await.map_err(|_| Ending)
    }
}

impl Requests {
    /// Returns the next request; `None` when there is no sender any more.
    pub(super) async fn next(&mut self) -> Option<Request> {
        if self.in_a_row >= IN_A_ROW
            && let Ok(look) = self.looks.try_recv()
        {
            self.in_a_row = 0;
            return Some(look);
        }
        tokio::select! {
            biased;
            request = self.receiver.recv() => {
                self.in_a_row = self.in_a_row.saturating_add(1);
                request
            }
            Some(look) = self.looks.recv() => {
                self.in_a_row = 0;
                Some(look)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        thread,
        time::{Duration, Instant},
    };

    use shunt_model::ServiceId;

    use super::*;
    use crate::health::{ByFamily, Pending};

    fn slack() -> Request {
        Request::Slack
    }

    fn look() -> Request {
        Request::Figures(oneshot::channel().0)
    }

    #[tokio::test]
    async fn an_event_waits_for_no_look_and_looks_have_their_turn() {
        let (queue, mut requests) = queue();
        for _ in 0..2 {
            queue.looks.send(look()).await.unwrap();
        }
        for _ in 0..AHEAD {
            queue.requests.send(slack()).await.unwrap();
        }
        for number in 0..IN_A_ROW {
            let next = requests.next().await.unwrap();
            assert!(!next.is_look(), "look before request {number}");
        }
        queue.requests.send(slack()).await.unwrap();
        let are_looks = [
            requests.next().await.unwrap().is_look(),
            requests.next().await.unwrap().is_look(),
            requests.next().await.unwrap().is_look(),
        ];
        assert_eq!(are_looks, [true, false, true]);
    }

    /// Neither the end of another change nor a new one makes a change younger.
    #[test]
    fn the_oldest_change_has_waited_since_it_came() {
        let (queue, mut requests) = queue();
        let reports = Arc::clone(queue.reports());
        let deliver = || {
            let origin = Origin {
                unit: "call",
                number: 1,
            };
            let event = RendererEvent::DeleteService(ServiceId::new("default", "web"));
            queue.deliver_blocking(origin, Ok(event)).unwrap();
        };
        let none = ByFamily {
            v4: Duration::ZERO,
            v6: Duration::ZERO,
        };
        assert_eq!(reports.oldest_change(), none);
        deliver();
        let before = Instant::now();
        deliver();
        let after = Instant::now();
        thread::sleep(Duration::from_millis(20));
        drop(requests.receiver.blocking_recv());
        deliver();
        let least = after.elapsed();
        let waited = reports.oldest_change().v4;
        assert!(
            waited >= least && waited <= before.elapsed(),
            "{waited:?}, not the {least:?} of the second"
        );
        for _ in 0..2 {
            drop(requests.receiver.blocking_recv());
        }
        assert_eq!(reports.oldest_change(), none);
        // What a source has not delivered yet waits as well, for the families that it concerns.
        let oldest = ByFamily {
            v4: None,
            v6: Some(after),
        };
        reports.set_pending(Pending {
            oldest,
            ..Pending::default()
        });
        let ByFamily { v4, v6 } = reports.oldest_change();
        assert!(v4 == Duration::ZERO && v6 >= least, "{v4:?}, {v6:?}");
    }
}
