//! One event a changed service.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use shunt_model::{RendererEvent, ServiceId};
use shunt_runtime::{Consequences, Refusal};

use crate::instances::{
    configuration::parse::parse,
    engine::{About, Engine, Work},
    query::{Query, QueryKind},
    tests::world::{instance, place},
    tier::{Datacenter, Tier},
};

const TWO: &str = r#"
[[frontend]]
service = "api"
vip = "10.200.0.2"
port = 80

[[frontend]]
service = "web"
vip = "10.200.0.1"
port = 80
"#;

fn full() -> Refusal {
    Refusal {
        reason: "full".to_owned(),
        wants_room: true,
    }
}

fn engine() -> (Engine, Query, Query) {
    let mut engine = Engine::new(parse(TWO).unwrap());
    engine.set_place(place(), ["10.1.0.1".parse().unwrap()].into());
    let queries: Vec<Query> = engine.queries().cloned().collect();
    let [api, web] = &queries[..] else {
        panic!("{queries:?}")
    };
    let (api, web) = (api.clone(), web.clone());
    (engine, api, web)
}

/// Returns the next event, which takes effect.
fn told(engine: &mut Engine) -> Option<String> {
    told_at(engine, Instant::now())
}

/// Does as [`told`], at this time.
fn told_at(engine: &mut Engine, now: Instant) -> Option<String> {
    let Work { event, about, .. } = engine.next(now)?;
    engine.done(about, Ok(Consequences::default()));
    Some(event.subject().to_string())
}

/// The services that a Resync has.
fn in_snapshot(work: &Work) -> Vec<String> {
    let RendererEvent::Resync(snapshot) = &work.event else {
        panic!("{work:?}")
    };
    let services = snapshot.services.iter();
    services.map(|service| service.id.to_string()).collect()
}

/// The services that it leaves as they are.
fn undecided(work: &Work) -> Vec<String> {
    let services = work.undecided.iter();
    services
        .map(|service| {
            assert!(service.ports[0].endpoints.is_empty());
            service.id.to_string()
        })
        .collect()
}

#[test]
fn everything_is_told_once_all_is_known() {
    let (mut engine, api, web) = engine();
    assert_eq!(told(&mut engine), None);
    engine.set_instances(&web, vec![instance("10.1.1.1")]);
    assert_eq!(told(&mut engine), None);
    engine.set_instances(&api, vec![]);
    let Some(Work { event, about, .. }) = engine.next(Instant::now()) else {
        panic!("nothing is told")
    };
    let RendererEvent::Resync(snapshot) = event else {
        panic!("{event:?}")
    };
    assert_eq!(snapshot.services.len(), 2);
    assert_eq!(snapshot.node_ips.len(), 1);
    // Alone.
    engine.set_instances(&web, vec![]);
    assert!(engine.next(Instant::now()).is_none());
    engine.done(about, Ok(Consequences::default()));
    assert_eq!(
        told(&mut engine).as_deref(),
        Some("UpdateService consul/web")
    );
    assert_eq!(told(&mut engine), None);
}

#[test]
fn what_may_not_be_read_keeps_back_no_others_and_stays_as_it_is() {
    let (mut engine, api, web) = engine();
    let start = Instant::now();
    let late = start + Duration::from_secs(31);
    engine.deny(&api);
    engine.deny(&web);
    assert!(engine.next(start).is_none(), "nothing is known at all");
    assert!(engine.next(late).is_none(), "nor later");
    engine.set_instances(&web, vec![instance("10.1.1.1")]);
    let work = engine.next(start).unwrap();
    assert_eq!(in_snapshot(&work), ["consul/web"]);
    assert_eq!(undecided(&work), ["consul/api"]);
    engine.done(work.about, Ok(Consequences::default()));
    // Time alone is no reason to take from anybody what the kernel has.
    assert_eq!(told_at(&mut engine, late), None);
    engine.set_instances(&api, vec![]);
    let expected = Some("UpdateService consul/api");
    assert_eq!(told(&mut engine).as_deref(), expected);
    // What was read stays.
    engine.deny(&web);
    assert_eq!(told(&mut engine), None);
}

#[test]
fn what_makes_no_difference_is_not_told() {
    let (mut engine, api, web) = engine();
    engine.set_instances(&api, vec![]);
    engine.set_instances(&web, vec![instance("10.1.1.1").checked("c", "passing")]);
    assert_eq!(told(&mut engine).as_deref(), Some("Resync"));
    for same in [
        vec![instance("10.1.1.1").checked("c", "passing")],
        vec![instance("10.1.1.1").checked("other", "passing")],
        vec![{
            let mut tagged = instance("10.1.1.1");
            tagged.tags.push("new".into());
            tagged
        }],
        // An instance that is skipped is no backend.
        vec![instance("10.1.1.1"), instance("db.example")],
    ] {
        engine.set_instances(&web, same);
        assert_eq!(told(&mut engine), None);
    }
    assert_eq!(engine.problems().len(), 1);
    engine.set_instances(&web, vec![instance("10.1.1.1").checked("c", "critical")]);
    assert!(told(&mut engine).is_some());
    assert_eq!(engine.problems().len(), 0);
}

#[test]
fn what_changes_twice_is_one_event_and_what_failed_is_tried_again() {
    let (mut engine, api, web) = engine();
    engine.set_instances(&api, vec![]);
    engine.set_instances(&web, vec![]);
    let work = engine.next(Instant::now()).unwrap();
    assert!(matches!(work.about, About::All { .. }));
    engine.done(work.about, Err(full()));
    assert!(engine.next(Instant::now()).is_none(), "until the next try");
    engine.retry();
    assert_eq!(told(&mut engine).as_deref(), Some("Resync"));

    engine.set_instances(&web, vec![instance("10.1.1.1")]);
    engine.set_instances(&web, vec![instance("10.1.1.2")]);
    let work = engine.next(Instant::now()).unwrap();
    assert!(engine.next(Instant::now()).is_none());
    // Changed while its event is under way: sent afterwards.
    engine.set_instances(&web, vec![instance("10.1.1.3")]);
    assert!(engine.next(Instant::now()).is_none());
    engine.done(work.about, Err(full()));
    assert_eq!(
        engine.problems()["consul/web"],
        ["its last change: full"],
        "it is shown"
    );
    assert!(told(&mut engine).is_some());
    assert_eq!(engine.problems().len(), 0);
    engine.retry();
    assert_eq!(told(&mut engine), None);
}

#[test]
fn a_service_that_gives_way_to_node_addresses_is_tried_again() {
    let (mut engine, api, web) = engine();
    engine.set_instances(&api, vec![]);
    engine.set_instances(&web, vec![]);
    assert_eq!(told(&mut engine).as_deref(), Some("Resync"));
    engine.set_place(place(), ["10.1.0.2".parse().unwrap()].into());
    let work = engine.next(Instant::now()).unwrap();
    let refused = BTreeMap::from([(ServiceId::new("consul", "web"), "no room".to_owned())]);
    let without_web = Consequences {
        refused,
        ..Consequences::default()
    };
    engine.done(work.about, Ok(without_web));
    assert_eq!(
        engine.problems()["consul/web"],
        ["its last change: it is left out: no room"]
    );
    assert_eq!(told(&mut engine), None, "until the next try");
    engine.retry();
    assert_eq!(
        told(&mut engine).as_deref(),
        Some("UpdateService consul/web"),
        "the addresses took effect"
    );
    assert_eq!(told(&mut engine), None);
}

/// One frontend with another datacenter, and the queries for both.
fn of_two(lines: &str) -> (Engine, Query, Query) {
    let text =
        format!("[[frontend]]\nservice = \"web\"\nvip = \"10.200.0.1\"\nport = 80\n{lines}\n");
    let mut engine = Engine::new(parse(&text).unwrap());
    engine.set_place(place(), ["10.1.0.1".parse().unwrap()].into());
    let query = |datacenter| Query {
        service: "web".into(),
        kind: QueryKind::Service,
        datacenter,
        filter: None,
    };
    let other = Datacenter::Other("dc2".into());
    (engine, query(Datacenter::Own), query(other))
}

#[test]
fn another_datacenter_is_waited_for_only_where_it_is_needed() {
    let failover = "failover = [\"dc2\"]";
    let start = Instant::now();
    // The own one serves.
    let (mut engine, near, _) = of_two(failover);
    engine.set_instances(&near, vec![instance("10.1.1.1")]);
    let work = engine.next(start).unwrap();
    assert_eq!(in_snapshot(&work), ["consul/web"]);
    assert_eq!(undecided(&work).len(), 0);
    // It does not, and the other one answers, or is silent for long: others do not wait for that.
    for far_says in [true, false] {
        let (mut engine, near, far) = of_two(failover);
        engine.set_instances(&near, vec![]);
        let work = engine.next(start).unwrap();
        assert_eq!(in_snapshot(&work).len(), 0);
        assert_eq!(undecided(&work), ["consul/web"]);
        engine.done(work.about, Ok(Consequences::default()));
        assert_eq!(told_at(&mut engine, start), None);
        let update = Some("UpdateService consul/web");
        if far_says {
            engine.set_instances(&far, vec![]);
            assert_eq!(told_at(&mut engine, start).as_deref(), update);
        } else {
            let late = start + Duration::from_secs(31);
            assert_eq!(told_at(&mut engine, late).as_deref(), update);
            assert!(!engine.is_waiting());
        }
    }
}

#[test]
fn what_this_datacenter_says_is_waited_for_at_the_start_and_not_for_ever() {
    let (mut engine, api, web) = engine();
    let start = Instant::now();
    engine.set_instances(&web, vec![instance("10.1.1.1")]);
    assert!(engine.next(start).is_none());
    let work = engine.next(start + Duration::from_secs(31)).unwrap();
    assert_eq!(in_snapshot(&work), ["consul/web"]);
    assert_eq!(undecided(&work), ["consul/api"]);
    engine.done(work.about, Ok(Consequences::default()));
    engine.set_instances(&api, vec![instance("10.1.1.2")]);
    let expected = Some("UpdateService consul/api");
    assert_eq!(told(&mut engine).as_deref(), expected);
}

#[test]
fn a_frontend_stays_as_it_is_until_its_new_tiers_are_known() {
    let (mut engine, near, far) = of_two("failover = \"resolver\"");
    let start = Instant::now();
    let late = start + Duration::from_secs(31);
    let id = engine.tiered().next().unwrap().id.clone();
    let own = Tier::of("web", Datacenter::Own);
    let other = Tier::of("web", Datacenter::Other("dc2".into()));
    engine.set_tiers(&id, vec![own.clone()], start);
    engine.set_instances(&near, vec![instance("10.1.1.1")]);
    assert_eq!(told_at(&mut engine, start).as_deref(), Some("Resync"));
    let update = Some("UpdateService consul/web");
    // The first one answers.
    engine.set_tiers(&id, vec![other.clone(), own.clone()], start);
    assert_eq!(told_at(&mut engine, start), None);
    engine.set_instances(&far, vec![instance("10.2.1.1").in_datacenter("dc2")]);
    assert_eq!(told_at(&mut engine, start).as_deref(), update);
    // It does not: after a while the next one counts.
    engine.set_tiers(&id, vec![own.clone()], start);
    assert_eq!(told_at(&mut engine, start).as_deref(), update);
    engine.set_tiers(&id, vec![other.clone(), own], start);
    assert_eq!(told_at(&mut engine, start), None);
    assert_eq!(told_at(&mut engine, late), None, "it is the same");
    engine.set_instances(&near, vec![]);
    assert_eq!(told_at(&mut engine, late).as_deref(), update);
    // There is no next one: it stays.
    engine.set_tiers(&id, vec![other], start);
    assert_eq!(told_at(&mut engine, start), None);
    assert_eq!(told_at(&mut engine, late), None);
    engine.set_instances(&far, vec![]);
    assert_eq!(told_at(&mut engine, late), None, "it is the same");
    engine.set_instances(&far, vec![instance("10.2.1.1").in_datacenter("dc2")]);
    assert_eq!(told_at(&mut engine, late).as_deref(), update);
}

#[test]
fn new_connections_go_where_somebody_is_and_back_at_once() {
    let (mut engine, near, far) = of_two("failover = [\"dc2\"]");
    engine.set_instances(&near, vec![instance("10.1.1.1")]);
    engine.set_instances(&far, vec![instance("10.2.1.1").in_datacenter("dc2")]);
    told(&mut engine).unwrap();
    let serving = |engine: &Engine| {
        let failed_over = engine.failed_over();
        failed_over.map(|(_, name)| name.to_owned()).next()
    };
    assert_eq!(serving(&engine), None);
    engine.set_instances(&near, vec![]);
    told(&mut engine).unwrap();
    assert_eq!(serving(&engine).as_deref(), Some("dc2"));
    engine.set_instances(&near, vec![instance("10.1.1.1")]);
    told(&mut engine).unwrap();
    assert_eq!(serving(&engine), None);
}

#[test]
fn tiers_that_somebody_says_are_asked_for_and_no_others() {
    let (mut engine, near, far) = of_two("failover = \"resolver\"");
    assert_eq!(engine.queries().collect::<Vec<_>>(), [&near]);
    engine.set_instances(&near, vec![]);
    let start = Instant::now();
    let work = engine.next(start).unwrap();
    assert_eq!(
        undecided(&work),
        ["consul/web"],
        "nobody has said the tiers"
    );
    engine.done(work.about, Ok(Consequences::default()));
    let id = engine.tiered().next().unwrap().id.clone();
    let other = |name: &str| Tier::of("web", Datacenter::Other(name.into()));
    let own = Tier::of("web", Datacenter::Own);
    assert!(engine.set_tiers(&id, vec![own.clone(), other("dc2")], start));
    assert!(!engine.set_tiers(&id, vec![own.clone(), other("dc2")], start));
    assert_eq!(engine.queries().collect::<Vec<_>>(), [&near, &far]);
    assert!(engine.next(start).is_none());
    engine.set_instances(&far, vec![instance("10.2.1.1").in_datacenter("dc2")]);
    assert_eq!(engine.count_instances(), 1);
    assert!(engine.next(start).is_some());
    // What is no tier any more is forgotten, and what was on its way is not taken.
    assert!(engine.set_tiers(&id, vec![own], start));
    assert_eq!(engine.count_instances(), 0);
    assert!(!engine.set_instances(&far, vec![instance("10.2.1.1")]));
    assert!(!engine.wants(&far));
}
