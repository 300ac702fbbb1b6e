//! Looks at all workloads that ask for it, each by a task of its own.

use std::{
    collections::HashMap,
    hash::BuildHasher as _,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use foldhash::quality::RandomState;
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::AbortHandle,
    time::{MissedTickBehavior, interval, sleep},
};
use tracing::{debug, info};

use crate::{
    controllers::{
        meters::ControllerMeters,
        workloads::{
            options::ProbeOptions,
            probes::{
                health::Health,
                look::{Look, look},
                places::Places,
            },
        },
    },
    objects::{
        external_workload::{ExternalWorkload, Group, WorkloadKey},
        readiness_probe::Probe,
    },
};

/// The time that a look may wait for a place before it counts as late.
const LATE: Duration = Duration::from_secs(1);

/// Number of looks that may wait to be noted.
const AHEAD: usize = 256;

/// Conclusion from the looks at a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Verdict {
    /// True if it takes connections.
    pub(in super::super) is_ready: bool,
    /// The event, for its users.
    pub(in super::super) message: &'static str,
}

/// A look that has come to an end.
struct Looked {
    key: Arc<WorkloadKey>,
    /// Of which task it is.
    task: u64,
    look: Look,
}

/// A workload that is looked at. It is not any more when this is dropped.
struct Probed {
    probe: Arc<Probe>,
    ip: IpAddr,
    health: Health,
    verdict: Option<Verdict>,
    number: u64,
    task: AbortHandle,
}

impl Drop for Probed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Looks at workloads.
pub(in super::super) struct Prober {
    options: ProbeOptions,
    meters: Arc<ControllerMeters>,
    probed: HashMap<Arc<WorkloadKey>, Probed>,
    tasks: u64,
    looked: Sender<Looked>,
    looks: Receiver<Looked>,
    places: Arc<Places>,
    random: RandomState,
}

impl Prober {
    /// Looks at none yet.
    pub(in super::super) fn new(options: ProbeOptions, meters: Arc<ControllerMeters>) -> Self {
        let (looked, looks) = mpsc::channel(AHEAD);
        Self {
            options,
            meters,
            probed: HashMap::new(),
            tasks: 0,
            looked,
            looks,
            places: Places::new(options.limits),
            random: RandomState::default(),
        }
    }

    /// Looks at a workload from now on as it asks for, or not any more. One that asks for the same as before
    /// keeps what is known of it.
    pub(in super::super) fn follow(&mut self, workload: &ExternalWorkload) {
        let is_wanted = match workload.key.group {
            Group::Shunt => self.options.shunt,
            Group::Linkerd => self.options.linkerd,
        };
        let probe = workload.probe.as_ref().filter(|_| is_wanted);
        let probe = probe.and_then(|probe| probe.as_ref().ok());
        // As a kubelet, which asks the first address of a Pod.
        let ip = workload
            .body
            .as_ref()
            .ok()
            .and_then(|body| body.ips.first());
        let Some((probe, ip)) = probe.zip(ip) else {
            self.forget(&workload.key);
            return;
        };
        let known = self.probed.get(&workload.key);
        if known.is_some_and(|known| known.probe == *probe && known.ip == *ip) {
            return;
        }
        self.begin(Arc::clone(&workload.key), Arc::clone(probe), *ip);
    }

    fn begin(&mut self, key: Arc<WorkloadKey>, probe: Arc<Probe>, ip: IpAddr) {
        self.tasks += 1;
        let number = self.tasks;
        let task = Task {
            key: Arc::clone(&key),
            number,
            probe: Arc::clone(&probe),
            ip,
            looked: self.looked.clone(),
            places: Arc::clone(&self.places),
            meters: Arc::clone(&self.meters),
            delay: spread(self.random.hash_one(number), probe.period),
        };
        let task = tokio::spawn(task.run()).abort_handle();
        let probed = Probed {
            probe,
            ip,
            health: Health::default(),
            verdict: None,
            number,
            task,
        };
        self.probed.insert(key, probed);
        self.meters.set_probed(self.probed.len());
    }

    /// Looks at a workload no more.
    pub(in super::super) fn forget(&mut self, key: &WorkloadKey) {
        self.probed.remove(key);
        self.meters.set_probed(self.probed.len());
    }

    /// Looks at no workload.
    pub(in super::super) fn stop(&mut self) {
        self.probed.clear();
        self.meters.set_probed(0);
    }

    /// Returns the verdict of the looks at a workload.
    pub(in super::super) fn verdict(&self, key: &WorkloadKey) -> Option<&Verdict> {
        self.probed.get(key)?.verdict.as_ref()
    }

    /// Waits until a workload's verdict changes, and returns its key. Nothing is lost if there is no caller.
    pub(in super::super) async fn next(&mut self) -> Option<Arc<WorkloadKey>> {
        loop {
            let looked = self.looks.recv().await?;
            if let Some(key) = self.take(looked) {
                return Some(key);
            }
        }
    }

    /// Takes note of a look; returns the key of the workload if its verdict has changed.
    fn take(&mut self, looked: Looked) -> Option<Arc<WorkloadKey>> {
        let Looked { key, task, look } = looked;
        let probed = self.probed.get_mut(&key)?;
        // A look of before it was asked for something else.
        if probed.number != task {
            return None;
        }
        let (result, is_good, message, detail) = match look {
            Look::Good => ("success", true, "it answers", String::new()),
            Look::Bad(failure, what) => ("failure", false, failure.words(), format!(" ({what})")),
            Look::Unknown(what) => {
                debug!("{key}: it could not be looked at: {what}");
                self.meters.probed("unknown");
                return None;
            }
        };
        self.meters.probed(result);
        let is_ready = probed.health.add(is_good, probed.probe.thresholds)?;
        info!(
            "{key}: it is {}ready: {message}{detail}",
            if is_ready { "" } else { "not " }
        );
        probed.verdict = Some(Verdict { is_ready, message });
        Some(key)
    }
}

/// Task that looks at one workload.
struct Task {
    key: Arc<WorkloadKey>,
    number: u64,
    probe: Arc<Probe>,
    ip: IpAddr,
    looked: Sender<Looked>,
    places: Arc<Places>,
    meters: Arc<ControllerMeters>,
    /// Delay between the first look and those that follow in their period.
    delay: Duration,
}

impl Task {
    async fn run(self) {
        let mut is_heard = self.look().await;
        sleep(self.delay).await;
        let mut looks = interval(self.probe.period);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while is_heard {
            looks.tick().await;
            is_heard = self.look().await;
        }
    }

    /// Looks once. Returns whether the result has a receiver.
    async fn look(&self) -> bool {
        let due = Instant::now();
        let place = self.places.take(&self.key.namespace).await;
        if due.elapsed() > LATE {
            self.meters.probed_late();
        }
        let look = look(self.ip, &self.probe).await;
        drop(place);
        let looked = Looked {
            key: Arc::clone(&self.key),
            task: self.number,
            look,
        };
        self.looked.send(looked).await.is_ok()
    }
}

/// A part of the period, the same for the same number: one that begins with many others does not go on with
/// them.
fn spread(number: u64, period: Duration) -> Duration {
    let part = f64::from((number >> 32) as u32) / f64::from(u32::MAX);
    period.mul_f64(part)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::{net::TcpListener, runtime::Builder, time::timeout};

    use super::*;
    use crate::controllers::workloads::probes::{look::Failure, places::ProbeLimits};
    use crate::objects::external_workload::{RawLinkerd, RawOwn};

    const BOTH: ProbeOptions = ProbeOptions {
        shunt: true,
        linkerd: true,
        limits: ProbeLimits {
            of_namespace: 1,
            of_all: 2,
        },
    };

    fn object(probe: &Value) -> Value {
        json!({
            "metadata": { "namespace": "a", "name": "vm" },
            "spec": {
                "workloadIPs": [{ "ip": "192.0.2.1" }], "readinessProbe": probe,
            },
        })
    }

    fn own(probe: &Value) -> ExternalWorkload {
        serde_json::from_value::<RawOwn>(object(probe))
            .unwrap()
            .into()
    }

    fn linkerds(annotation: &str) -> ExternalWorkload {
        let mut object = object(&json!(null));
        object["metadata"]["annotations"] =
            json!({ "workload.shunt.io/readiness-probe": annotation });
        serde_json::from_value::<RawLinkerd>(object).unwrap().into()
    }

    fn in_runtime(test: impl Future<Output = ()>) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test);
    }

    #[test]
    fn those_are_looked_at_that_ask_for_it_and_that_somebody_wants() {
        in_runtime(async {
            let tcp = json!({ "tcpSocket": { "port": 80 } });
            let annotation = r#"{"tcpSocket":{"port":80}}"#;
            for (what, options, workload, expected) in [
                ("it asks", BOTH, own(&tcp), 1),
                ("it does not ask", BOTH, own(&json!(null)), 0),
                ("what it asks for cannot be", BOTH, own(&json!({})), 0),
                ("nobody wants it", ProbeOptions::default(), own(&tcp), 0),
                ("linkerd's asks", BOTH, linkerds(annotation), 1),
                ("that cannot be read", BOTH, linkerds("{"), 0),
                (
                    "of linkerd's nobody wants it",
                    ProbeOptions {
                        linkerd: false,
                        ..BOTH
                    },
                    linkerds(annotation),
                    0,
                ),
            ] {
                let mut prober = Prober::new(options, Arc::default());
                prober.follow(&workload);
                assert_eq!(prober.probed.len(), expected, "{what}");
            }
        });
    }

    #[test]
    fn what_is_known_stays_until_something_else_is_asked_for() {
        in_runtime(async {
            let of = |port: u16| own(&json!({ "tcpSocket": { "port": port } }));
            let mut prober = Prober::new(BOTH, Arc::default());
            let workload = of(80);
            prober.follow(&workload);
            let looked = |task, look: &Look| Looked {
                key: Arc::clone(&workload.key),
                task,
                look: look.clone(),
            };
            let bad = Look::Bad(Failure::Refused, "it is away".to_owned());
            assert!(
                prober
                    .take(looked(1, &Look::Unknown(String::new())))
                    .is_none()
            );
            assert!(prober.take(looked(1, &Look::Good)).is_some());
            assert!(prober.take(looked(1, &Look::Good)).is_none(), "it is known");
            prober.follow(&workload);
            assert!(prober.verdict(&workload.key).unwrap().is_ready);
            for count in 1..=3 {
                assert_eq!(prober.take(looked(1, &bad)).is_some(), count == 3);
            }
            let verdict = prober.verdict(&workload.key).unwrap();
            let words = Failure::Refused.words();
            assert_eq!((verdict.is_ready, verdict.message), (false, words));
            // Of another port nothing is known yet, also if a look at the old one ends.
            prober.follow(&of(81));
            assert_eq!(prober.verdict(&workload.key), None);
            assert!(prober.take(looked(1, &Look::Good)).is_none());
            prober.stop();
            assert!(prober.take(looked(2, &Look::Good)).is_none());
        });
    }

    #[test]
    fn looks_are_made_again_and_again() {
        in_runtime(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            let mut workload = own(&json!({
                "tcpSocket": { "port": at.port() }, "periodSeconds": 1, "failureThreshold": 1,
            }));
            // Of a server no workload may have this address.
            workload.body.as_mut().unwrap().ips = [at.ip()].into();
            let mut prober = Prober::new(BOTH, Arc::default());
            prober.follow(&workload);
            let patience = Duration::from_secs(10);
            timeout(patience, prober.next()).await.unwrap().unwrap();
            assert!(prober.verdict(&workload.key).unwrap().is_ready);
            drop(listener);
            timeout(patience, prober.next()).await.unwrap().unwrap();
            assert!(!prober.verdict(&workload.key).unwrap().is_ready);
        });
    }

    #[test]
    fn a_silent_server_of_one_namespace_holds_up_no_other_namespace() {
        in_runtime(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            let of = |namespace: &str, name: &str, probe: Value| {
                let mut object = object(&probe);
                object["metadata"] = json!({ "namespace": namespace, "name": name });
                let workload = serde_json::from_value::<RawOwn>(object).unwrap();
                let mut workload = ExternalWorkload::from(workload);
                workload.body.as_mut().unwrap().ips = [at.ip()].into();
                workload
            };
            // It takes a connection, and answers no request.
            let silent = json!({ "httpGet": { "port": at.port() }, "timeoutSeconds": 3600 });
            let mut prober = Prober::new(BOTH, Arc::default());
            for name in ["one", "two"] {
                prober.follow(&of("loud", name, silent.clone()));
            }
            let (_stream, _) = listener.accept().await.unwrap();
            let tcp = json!({ "tcpSocket": { "port": at.port() } });
            let quiet = of("quiet", "vm", tcp);
            prober.follow(&quiet);
            let looked = timeout(Duration::from_mins(1), prober.next()).await;
            assert_eq!(looked.unwrap().unwrap(), quiet.key);
        });
    }

    #[test]
    fn many_are_spread_over_their_period() {
        let period = Duration::from_secs(10);
        assert_eq!(spread(0, period), Duration::ZERO);
        assert_eq!(spread(u64::MAX, period), period);
        assert!(spread(1 << 63, period) > Duration::from_secs(4));
    }
}
