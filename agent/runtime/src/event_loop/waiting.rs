//! Decides which requests wait aside, and which go by.

use std::{collections::HashSet, time::Instant};

use shunt_datapath::MaglevRecipe;

use crate::{
    agent::Foresight,
    aside::{Needs, Waiting},
    event_loop::{EventLoop, Preparation},
    request::{Request, Submission},
};

impl EventLoop {
    /// Does what is asked now, or has it wait aside.
    pub(super) fn accept(&mut self, request: Request) {
        let Some(request) = self.but_foreign(request) else {
            return;
        };
        let Some(request) = self.behind_removal(request) else {
            return;
        };
        let Some(foresight) = self.foresee(&request) else {
            self.handle(request, &Preparation::default());
            return;
        };
        let Foresight { footprint, lacking } = foresight;
        let concern = request.concern(footprint);
        let needs = if self.aside.holds_up(&concern) {
            Needs::Unknown
        } else if lacking.is_empty() {
            self.handle(request, &Preparation::default());
            return;
        } else {
            self.order(lacking)
        };
        self.aside.push(Waiting {
            item: request.set_aside(),
            concern,
            needs,
        });
        // It may be there already, for another event.
        self.resume();
    }

    /// Returns the conditions that the request meets, if it may have to wait; `None`: it does not, like nearly all.
    fn foresee(&self, request: &Request) -> Option<Foresight> {
        // Before the first Resync nothing waits here.
        if !self.agent.renderer().is_synced() {
            return None;
        }
        let is_way_free = self.aside.is_empty();
        match request {
            Request::Event(Submission {
                event: Ok(event), ..
            }) => {
                let has_to_look = !is_way_free || self.agent.may_take_long(event);
                has_to_look.then(|| self.agent.foresee(event))
            }
            // Their log lines have their place among the events.
            Request::Event(_) | Request::Ended(_) => (!is_way_free).then(Foresight::default),
            Request::HostAddresses(_)
            | Request::Slack
            | Request::Read(..)
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
            | Request::Status(_) => None,
        }
    }

    /// Has tables made.
    fn order(&mut self, recipes: HashSet<MaglevRecipe>) -> Needs<MaglevRecipe> {
        self.tables.order(&recipes);
        Needs::Known {
            keys: recipes,
            since: Instant::now(),
        }
    }

    /// Does what waited aside and need not any more.
    pub(super) fn resume(&mut self) {
        while let Some((place, waiting)) = self.aside.take_free(|table| self.tables.is_done(table))
        {
            let Waiting {
                item,
                mut concern,
                needs,
            } = waiting;
            let preparation = match needs {
                Needs::Known { keys, since } => Preparation {
                    ready: self.tables.tables(&keys).collect(),
                    since: Some(since),
                    is_confirmed: false,
                },
                Needs::Unknown => {
                    let Foresight { footprint, lacking } = self.foresee(&item).unwrap_or_default();
                    if !lacking.is_empty() {
                        concern.footprint = footprint;
                        let needs = self.order(lacking);
                        self.aside.put_back(
                            place,
                            Waiting {
                                item,
                                concern,
                                needs,
                            },
                        );
                        continue;
                    }
                    Preparation::default()
                }
            };
            // One that was released before it may have to wait for a decision.
            if let Some(item) = self.behind_removal(item) {
                self.handle(item, &preparation);
            }
        }
        self.tables.keep(|recipe| self.aside.needs(recipe));
    }
}
