//! Services that are written (rules S1 to S7 of linkerd's controller), and the retries of those that were
//! given up (Q2), against a server in this process.

mod mutants;

use std::{
    convert::Infallible,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use hyper::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tower::service_fn;

use super::*;
use crate::{
    controllers::{
        options::LeaseOptions,
        workloads::{
            allowed::RangeOptions,
            options::ProbeOptions,
            packing::plan,
            probes::places::ProbeLimits,
            service::Service,
            slice::Slice,
            tests::world::{confirmed, desired, web, workload},
            write::Write,
        },
    },
    objects::{custom::Definition, external_workload::ExternalWorkload, node::Node},
    watch::step::Step,
};

fn options() -> WorkloadOptions {
    WorkloadOptions {
        shunt: true,
        linkerd: false,
        in_kube_system: false,
        probes: ProbeOptions {
            shunt: false,
            linkerd: false,
            limits: ProbeLimits {
                of_namespace: 1,
                of_all: 1,
            },
        },
        ranges: RangeOptions::default(),
    }
}

/// The Lease is this process's, and slices are answered for one after the other with these statuses; later
/// ones are taken.
#[derive(Debug, Default)]
struct Server {
    statuses: Mutex<Vec<u16>>,
    asked: AtomicUsize,
}

impl Server {
    fn answer(&self, method: &Method, path: &str) -> (u16, Value) {
        if path.contains("/leases/") {
            let metadata = json!({ "name": "l", "resourceVersion": "1" });
            let spec = json!({ "holderIdentity": "me" });
            return (200, json!({ "metadata": metadata, "spec": spec }));
        }
        assert_eq!(*method, Method::POST, "{path}");
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let statuses = self.statuses.lock().unwrap();
        match statuses.get(number) {
            Some(code) => (
                *code,
                json!({ "kind": "Status", "status": "Failure", "code": code, "message": "m" }),
            ),
            None => (
                201,
                json!({
                    "metadata": {
                        "namespace": "a", "name": "s1", "uid": "u", "generation": 1,
                        "resourceVersion": "1",
                        "labels": { "kubernetes.io/service-name": "web" },
                    },
                    "addressType": "IPv4", "endpoints": [],
                }),
            ),
        }
    }
}

fn work(server: &Arc<Server>) -> (WorkloadWork, Receiver<Notice>) {
    work_with(server, options())
}

fn work_with(server: &Arc<Server>, options: WorkloadOptions) -> (WorkloadWork, Receiver<Notice>) {
    let server = Arc::clone(server);
    let service = service_fn(move |request: Request<Body>| {
        let (code, body) = server.answer(request.method(), request.uri().path());
        let mut response = Response::new(Body::from(body.to_string().into_bytes()));
        *response.status_mut() = code.try_into().unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    let client = Client::new(service, "default");
    let lease = LeaseOptions {
        namespace: None,
        name: "l".to_owned(),
        identity: "me".to_owned(),
        duration: Duration::from_secs(15),
        grace: Duration::from_secs(5),
    };
    let (_, term) = watch::channel(Term::of(Duration::from_hours(1)));
    let ballot = Ballot::new(client.clone(), "kube-system", &lease, term);
    let (notices, told) = channel();
    let work = WorkloadWork::new(options, client, ballot, Arc::default(), notices);
    (work, told)
}

/// One that leads, with the Service `a/web` and its workload `vm`, and no slice of it.
fn work_with_vm() -> (WorkloadWork, Receiver<Notice>) {
    let (mut work, told) = work(&Arc::default());
    let vm = workload("vm", "192.0.2.1", &[]);
    let changes = changes(vec![web(&[])], vec![vm], vec![]);
    changes.into_iter().for_each(|change| work.take(change));
    work.start_anew();
    (work, told)
}

/// All that is there, as the watches report it.
fn changes(
    services: Vec<Service>,
    workloads: Vec<ExternalWorkload>,
    slices: Vec<Slice>,
) -> Vec<Change> {
    let defined = Definition {
        kind: Some(CustomKind::ExternalWorkload),
    };
    vec![
        Change::Definition(Step::listed(vec![defined])),
        Change::Service(Step::listed(services)),
        Change::Slice(Step::listed(slices)),
        Change::Node(Step::Absent("403".to_owned())),
        Change::ServiceCidr(Step::listed(Vec::new())),
        Change::ApiServer(Step::listed(Vec::new())),
        Change::Workload(Group::Shunt, Step::listed(workloads)),
    ]
}

fn in_runtime<T>(test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test)
}

/// The slice that `a/web` has with the workload `vm`.
fn slice() -> Slice {
    let (service, workload) = (web(&[]), workload("vm", "192.0.2.1", &[]));
    let lists = plan(&service, &[], &desired(&service, &[workload]));
    let Write::Create(content) = &lists[0][0] else {
        panic!("{lists:?}");
    };
    (*confirmed(content.new_slice(&service), "s1", 1)).clone()
}

#[test]
fn a_service_is_written_if_it_may_have_endpoints_and_has_others() {
    let vm = || vec![workload("vm", "192.0.2.1", &[])];
    let spec = |field: &str, value| vec![web(&[(&*format!("/spec/{field}"), value)])];
    let other = ("/metadata/namespace", json!("b"));
    let labels = ("/metadata/labels", json!({ "app": "other" }));
    let mut terminating = slice();
    terminating.is_terminating = true;
    let mut theirs = slice();
    theirs.owner = Some("another".into());
    for (what, services, workloads, slices, is_written) in [
        (
            "S7: it has no slice yet",
            vec![web(&[])],
            vm(),
            vec![],
            true,
        ),
        (
            "S7: it is right",
            vec![web(&[])],
            vm(),
            vec![slice()],
            false,
        ),
        ("S1: it is gone", vec![], vm(), vec![slice()], false),
        (
            "S2: an alias of the DNS",
            spec("type", json!("ExternalName")),
            vm(),
            vec![],
            false,
        ),
        (
            "S3: it selects nothing",
            spec("selector", json!(null)),
            vm(),
            vec![],
            false,
        ),
        (
            "S3: it selects everything",
            spec("selector", json!({})),
            vm(),
            vec![],
            true,
        ),
        (
            "S4: a workload of another namespace",
            vec![web(&[])],
            vec![workload("vm", "192.0.2.1", &[other])],
            vec![],
            false,
        ),
        (
            "S4: one of other labels",
            vec![web(&[])],
            vec![workload("vm", "192.0.2.1", &[labels])],
            vec![],
            false,
        ),
        (
            "S5: a slice that is being deleted counts as none",
            vec![web(&[])],
            vm(),
            vec![terminating],
            true,
        ),
        (
            "K1: one of an earlier Service of that name is replaced",
            vec![web(&[])],
            vm(),
            vec![theirs],
            true,
        ),
        (
            "A5: nothing without workloads",
            vec![web(&[])],
            vec![],
            vec![],
            false,
        ),
    ] {
        in_runtime(async {
            let (mut work, _told) = work(&Arc::default());
            let changes = changes(services, workloads, slices);
            changes.into_iter().for_each(|change| work.take(change));
            assert!(work.is_complete(), "{what}");
            work.start_anew();
            work.write_what_is_due();
            assert_eq!(!work.writing.is_empty(), is_written, "{what}");
            assert_eq!(work.queue.next_at(), None, "{what}: nothing has failed");
        });
    }
}

#[test]
fn a_service_whose_slices_are_known_as_they_were_is_tried_again_later() {
    in_runtime(async {
        let (mut work, _told) = work_with_vm();
        // S6: what was written is not in the list that comes after it.
        let now = Instant::now();
        work.store.written(Arc::new(slice()), now);
        work.take(Change::Slice(Step::listed(vec![])));
        work.write_what_is_due();
        assert!(work.writing.is_empty());
        assert!(work.queue.next_at().is_some(), "it counts as a failure");
    });
}

#[test]
fn a_family_that_fails_does_not_stop_the_other() {
    let server = Arc::new(Server {
        statuses: Mutex::new(vec![422]),
        ..Server::default()
    });
    in_runtime(async {
        let (mut work, _told) = work(&server);
        let both = json!([{ "ip": "192.0.2.1" }, { "ip": "fd00::1" }]);
        let vm = workload("vm", "", &[("/spec/workloadIPs", both)]);
        let service = web(&[("/spec/ipFamilies", json!(["IPv4", "IPv6"]))]);
        let changes = changes(vec![service], vec![vm], vec![]);
        changes.into_iter().for_each(|change| work.take(change));
        work.start_anew();
        work.write_what_is_due();
        let (_, outcome) = written(&mut work).await;
        assert_eq!(server.asked.load(Ordering::Relaxed), 2);
        assert_eq!(outcome.counts.created, 1);
        assert_eq!(outcome.failure.unwrap().name(), "invalid");
    });
}

#[test]
fn what_the_watch_tells_of_a_write_before_its_answer_is_no_reason_to_look_again() {
    // The server's answer has the version 1; another one has written version 2 after it.
    for (versions, is_looked_at) in [(&["1"][..], false), (&["1", "2"], true)] {
        in_runtime(async {
            let (mut work, _told) = work_with_vm();
            work.write_what_is_due();
            for (version, generation) in versions.iter().zip(1..) {
                let mut told = slice();
                (told.uid, told.generation) = ("u".into(), generation);
                told.version = (*version).into();
                work.take(Change::Slice(Step::Applied(told)));
            }
            let done = work.writing.join_next().await.unwrap().unwrap();
            let Finished::Slices(id, outcome) = done else {
                panic!("it is no status");
            };
            work.slices_done(&id, outcome);
            assert_eq!(
                work.queue.take(Instant::now()).is_some(),
                is_looked_at,
                "{versions:?}"
            );
        });
    }
}

/// Returns the work on one Service with a workload, of which nothing is written yet.
fn work_on_one(server: &Arc<Server>) -> (WorkloadWork, Receiver<Notice>) {
    let (mut work, told) = work(server);
    let vm = workload("vm", "192.0.2.1", &[]);
    let changes = changes(vec![web(&[])], vec![vm], vec![]);
    changes.into_iter().for_each(|change| work.take(change));
    work.start_anew();
    (work, told)
}

/// Has the Service fail until it is given up (Q2).
fn give_up(work: &mut WorkloadWork) {
    let mut now = Instant::now();
    while work.queue.dropped() == 0 {
        let id = work.queue.take(now).unwrap();
        let failure = Some(WriteError::Conflict);
        work.slices_done(
            &id,
            Outcome {
                failure,
                ..Outcome::default()
            },
        );
        // Longer than any pause.
        now += Duration::from_hours(1);
    }
}

async fn written(work: &mut WorkloadWork) -> (ServiceId, Outcome) {
    let done = work.writing.join_next().await.unwrap().unwrap();
    let Finished::Slices(id, outcome) = done else {
        panic!("it is no status");
    };
    (id, outcome)
}

#[test]
fn one_that_was_given_up_is_tried_again_after_a_while() {
    assert_eq!(REVIVE, Duration::from_mins(10));
    in_runtime(async {
        let (mut work, mut told) = work_on_one(&Arc::default());
        give_up(&mut work);
        assert_eq!(work.meters.workloads.drops.get(), 1);
        let notice = format!("{:?}", told.try_recv().unwrap());
        assert!(notice.contains("FailedToPublish"), "{notice}");
        work.write_what_is_due();
        assert!(work.writing.is_empty());
        work.revive();
        work.write_what_is_due();
        let (_, outcome) = written(&mut work).await;
        assert!(outcome.failure.is_none());
    });
}

#[test]
fn what_the_server_refuses_is_tried_again_and_reported_once() {
    for status in [400, 403, 413, 415, 422] {
        let server = Arc::new(Server {
            statuses: Mutex::new(vec![status; 20]),
            ..Server::default()
        });
        in_runtime(async {
            let (mut work, mut told) = work_on_one(&server);
            let mut now = Instant::now();
            for _ in 0..20 {
                let id = work.queue.take(now).unwrap();
                work.sync(id, now);
                let (id, outcome) = written(&mut work).await;
                assert!(outcome.failure.is_some());
                work.slices_done(&id, outcome);
                now += Duration::from_mins(1);
            }
            assert_eq!(work.queue.dropped(), 0);
            let notice = format!("{:?}", told.try_recv().unwrap());
            assert!(notice.contains("FailedToPublish"), "{notice}");
            told.try_recv().expect_err("one is enough");
            let id = work.queue.take(now).unwrap();
            work.sync(id, now);
            let (_, outcome) = written(&mut work).await;
            assert!(outcome.failure.is_none(), "{status}");
        });
    }
}

#[test]
fn one_that_was_given_up_is_tried_again_when_the_server_is_back() {
    in_runtime(async {
        let (mut work, _told) = work_on_one(&Arc::default());
        give_up(&mut work);
        // That the server answers is nothing new, as long as it was not away.
        work.take(Change::Service(Step::Alive));
        assert_eq!(work.queue.dropped(), 1);
        work.take(Change::Slice(Step::Lost("it is away".to_owned())));
        assert_eq!(work.queue.dropped(), 1);
        work.take(Change::Slice(Step::Alive));
        assert_eq!(work.queue.dropped(), 0);
        work.write_what_is_due();
        let (_, outcome) = written(&mut work).await;
        assert!(outcome.failure.is_none());
    });
}

#[test]
fn none_is_looked_at_before_it_is_known_what_is_the_clusters_own() {
    in_runtime(async {
        let (mut work, _told) = work(&Arc::default());
        let probes = ProbeOptions {
            shunt: true,
            ..options().probes
        };
        work.prober = Prober::new(probes, Arc::clone(&work.meters));
        work.leads = true;
        let probe = json!({ "tcpSocket": { "port": 9 } });
        let vm = workload("vm", "192.0.2.1", &[("/spec/readinessProbe", probe)]);
        let changes = changes(vec![web(&[])], vec![vm], vec![]);
        let is_of_nodes = |change: &Change| matches!(change, Change::Node(_));
        let (nodes, others): (Vec<_>, Vec<_>) = changes.into_iter().partition(is_of_nodes);
        others.into_iter().for_each(|change| work.take(change));
        let probed = |work: &WorkloadWork| work.meters.workloads.probed.get();
        assert!(!work.is_complete());
        assert_eq!(probed(&work), 0);
        // The server returns no Nodes: it goes on without.
        nodes.into_iter().for_each(|change| work.take(change));
        assert!(work.is_complete());
        assert_eq!(probed(&work), 1);
        // It returns them now, and one has the address.
        let node = json!({
            "metadata": { "name": "n" },
            "status": { "addresses": [{ "type": "InternalIP", "address": "192.0.2.1" }] },
        });
        let node: Node = serde_json::from_value(node).unwrap();
        work.take(Change::Node(Step::listed(vec![node.clone()])));
        assert_eq!((probed(&work), work.refused.len()), (0, 1));
        work.take(Change::Node(Step::Deleted(node)));
        assert_eq!((probed(&work), work.refused.len()), (1, 0));
    });
}
