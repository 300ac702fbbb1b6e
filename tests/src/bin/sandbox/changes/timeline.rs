//! The backends in force at each time.

use std::{collections::BTreeMap, net::SocketAddr, time::Instant};

use anyhow::Result;
use shunt_tests::{Sample, Tally};

use crate::{
    cluster::Cluster,
    event::EventLine,
    model::{Client, Frontend, Model},
    progress::Progress,
    report::Report,
};

/// A state of the services. It begins to show at some instant between sending its event and the
/// agent's answer, so two neighbours overlap by that much.
#[derive(Debug)]
struct Epoch {
    begin: Instant,
    end: Option<Instant>,
    model: Model,
}

impl Epoch {
    /// Returns whether a connection could have met it.
    fn overlaps(&self, sample: &Sample) -> bool {
        self.begin <= sample.ended && self.end.is_none_or(|end| sample.started <= end)
    }
}

/// All states, in order.
#[derive(Debug)]
pub(super) struct Timeline(Vec<Epoch>);

impl Timeline {
    /// Begins with the state that is in force.
    pub(super) fn start(model: &Model) -> Self {
        Self(vec![Epoch {
            begin: Instant::now(),
            end: None,
            model: model.clone(),
        }])
    }

    /// Makes a change and notes when it happened.
    pub(super) fn apply(
        &mut self,
        progress: &Progress,
        cluster: &mut Cluster,
        event: &EventLine,
    ) -> Result<()> {
        let begin = Instant::now();
        cluster.apply(progress, event)?;
        if let Some(last) = self.0.last_mut() {
            last.end = Some(Instant::now());
        }
        self.0.push(Epoch {
            begin,
            end: None,
            model: cluster.model().clone(),
        });
        Ok(())
    }

    /// Compares every connection with the states that it could have met.
    pub(super) fn judge(
        &self,
        client: Client,
        frontend: &Frontend,
        samples: &[Sample],
        report: &mut Report,
    ) -> Tally {
        let sets: Vec<_> = self
            .0
            .iter()
            .map(|epoch| {
                (
                    epoch,
                    epoch
                        .model
                        .weights(client, frontend.address, frontend.transport),
                )
            })
            .collect();
        let mut tally = Tally::default();
        let mut strangers = BTreeMap::<SocketAddr, u64>::new();
        for sample in samples {
            tally.add(&sample.outcome);
            let Ok(answer) = &sample.outcome else {
                continue;
            };
            let mut met = sets.iter().filter(|(epoch, _)| epoch.overlaps(sample));
            if !met.any(|(_, weights)| weights.contains_key(&answer.backend)) {
                *strangers.entry(answer.backend).or_default() += 1;
            }
        }
        for (backend, times) in strangers {
            report.problem(format!(
                "{backend} answered {times} times at {frontend} when it was no backend of it"
            ));
        }
        tally
    }
}
