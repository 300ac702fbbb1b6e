//! Programs that the kernel verifies in a thread, while the agent applies events.
//!
//! An object of aya's keeps its programs, so the thread cannot have them. They change places with those of a spare
//! object instead, which goes to the thread and comes back.

use std::{
    collections::BTreeMap,
    future::pending,
    io, mem,
    sync::mpsc,
    thread::Builder,
    time::{Duration, Instant},
};

use aya::{Ebpf, EbpfLoader, programs::Program};
use tokio::sync::oneshot;
use tracing::{info, warn};

use crate::{
    error::DatapathError,
    object::{
        programs::{SPARE_OBJECT, SPARES},
        verified::{Explain, verify_at},
    },
    sys::slow_verifier,
};

/// The time after a refusal until the kernel is asked again. The same program meets another answer only if the kernel
/// lacked memory.
const AGAIN: Duration = Duration::from_mins(10);

/// Readiness of a program to be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It can.
    Ready,
    /// The kernel verifies it, or another one before it.
    Loading,
    /// The kernel refused it, for this reason.
    Refused(String),
}

/// Programs that are verified together: at most as many as the spare object has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Batch {
    /// The number of their object.
    pub(crate) object: u64,
    pub(crate) names: &'static [&'static str],
}

/// The thread's results.
#[derive(Debug)]
struct Verified {
    spare: Ebpf,
    outcome: Result<(), DatapathError>,
}

#[derive(Debug)]
struct UnderWay {
    batch: Batch,
    since: Instant,
    back: oneshot::Receiver<Verified>,
}

#[derive(Debug)]
struct Refusal {
    reason: String,
    at: Instant,
}

/// The verification beside the agent's other work, one batch at a time.
#[derive(Debug)]
pub(crate) struct Aside {
    /// `None` while a batch is under way, or if its thread has panicked.
    spare: Option<Ebpf>,
    under_way: Option<UnderWay>,
    ended: Option<(UnderWay, Option<Verified>)>,
    refusals: BTreeMap<Batch, Refusal>,
}

impl Aside {
    /// Loads the spare object.
    ///
    /// # Errors
    ///
    /// If it is damaged.
    pub(crate) fn new() -> Result<Self, DatapathError> {
        let spare = EbpfLoader::new().btf(None).load(&SPARE_OBJECT.bytes()?)?;
        Ok(Self {
            spare: Some(spare),
            under_way: None,
            ended: None,
            refusals: BTreeMap::new(),
        })
    }

    /// Begins to verify a batch, whose programs are in `object`, unless another one is under way or the kernel has
    /// refused it before.
    pub(crate) fn begin(&mut self, batch: Batch, object: &mut Ebpf, explain: Explain) -> Readiness {
        if let Some(refusal) = self.refusals.get(&batch)
            && refusal.at.elapsed() < AGAIN
        {
            return Readiness::Refused(refusal.reason.clone());
        }
        if self.under_way.is_some() || self.ended.is_some() {
            return Readiness::Loading;
        }
        let Some(mut spare) = self.spare.take() else {
            return self.refuse(batch, "the thread that verifies programs has panicked");
        };
        let (job, jobs) = mpsc::channel();
        let (send, back) = oneshot::channel();
        let verifying = Builder::new().name("verifier".to_owned()).spawn(move || {
            if let Ok(spare) = jobs.recv() {
                // The agent may have ended.
                drop(send.send(verify(spare, batch, explain)));
            }
        });
        if let Err(error) = verifying {
            self.spare = Some(spare);
            return self.refuse(batch, &DatapathError::Threads(error).to_string());
        }
        info!(programs = %batch.names.join(", "), "the kernel verifies programs");
        exchange(object, &mut spare, batch.names);
        // The thread waits for it.
        drop(job.send(spare));
        self.under_way = Some(UnderWay {
            batch,
            since: Instant::now(),
            back,
        });
        Readiness::Loading
    }

    /// Waits until a batch is verified or refused; for ever if none is under way. Nothing is lost if it is not waited
    /// for to the end.
    pub(crate) async fn ended(&mut self) {
        if self.ended.is_some() {
            return;
        }
        let Some(under_way) = &mut self.under_way else {
            return pending().await;
        };
        // A thread that panics has logged it.
        let verified = (&mut under_way.back).await.ok();
        self.ended = (self.under_way.take()).map(|under_way| (under_way, verified));
    }

    /// Puts the programs back that were verified last, into the one of the objects that `object_of` returns for their
    /// number. Returns their batch; `None` if none [has ended](Self::ended).
    pub(crate) fn take_back<'a>(
        &mut self,
        object_of: impl FnOnce(u64) -> Option<&'a mut Ebpf>,
    ) -> Option<Batch> {
        let (UnderWay { batch, since, .. }, verified) = self.ended.take()?;
        let took = since.elapsed();
        let programs = batch.names.join(", ");
        let outcome = match verified {
            Some(Verified { mut spare, outcome }) => {
                if let Some(object) = object_of(batch.object) {
                    exchange(object, &mut spare, batch.names);
                }
                self.spare = Some(spare);
                outcome.map_err(|error| error.to_string())
            }
            None => Err("the thread that verified it has panicked".to_owned()),
        };
        match outcome {
            Ok(()) => info!(%programs, ?took, "programs loaded"),
            Err(reason) => {
                warn!(%programs, ?took, error = %reason, "programs are not loaded");
                self.refuse(batch, &reason);
            }
        }
        Some(batch)
    }

    fn refuse(&mut self, batch: Batch, reason: &str) -> Readiness {
        let refusal = Refusal {
            reason: reason.to_owned(),
            at: Instant::now(),
        };
        self.refusals.insert(batch, refusal);
        Readiness::Refused(reason.to_owned())
    }
}

/// Verifies the programs that stand in the spare object, in the thread.
fn verify(mut spare: Ebpf, batch: Batch, explain: Explain) -> Verified {
    let Batch { object: _, names } = batch;
    slow_verifier::wait();
    let outcome = match slow_verifier::refuses(names) {
        Some(name) => Err(DatapathError::Program {
            name,
            source: io::Error::from_raw_os_error(libc::EACCES).into(),
        }),
        None => {
            let outcomes = verify_at(&mut spare, &SPARES, names, explain);
            outcomes.into_iter().try_for_each(|(_, outcome)| outcome)
        }
    };
    Verified { spare, outcome }
}

/// Has the programs of these names and those of the spare object change places.
fn exchange(object: &mut Ebpf, spare: &mut Ebpf, names: &[&'static str]) {
    for (place, name) in SPARES.into_iter().zip(names) {
        let programs = (object.program_mut(name), spare.program_mut(place));
        if let (Some(program), Some(spare)) = programs {
            mem::swap::<Program>(program, spare);
        }
    }
}
