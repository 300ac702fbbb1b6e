//! One event a changed service.

use std::time::{Duration, Instant};

use shunt_model::RendererEvent;

use crate::source::instances::{
    configuration::parse::parse,
    engine::{About, Engine, Work},
    frontend::Query,
    tests::world::{instance, place},
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

/// What is told next, and takes effect.
fn told(engine: &mut Engine) -> Option<String> {
    let Work { event, about } = engine.next(Instant::now())?;
    engine.done(about, Ok(Vec::new()));
    Some(event.subject())
}

#[test]
fn everything_is_told_once_all_is_known() {
    let (mut engine, api, web) = engine();
    assert_eq!(told(&mut engine), None);
    engine.set_instances(&web, vec![instance("10.1.1.1")]);
    assert_eq!(told(&mut engine), None);
    engine.set_instances(&api, vec![]);
    let Some(Work { event, about }) = engine.next(Instant::now()) else {
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
    engine.done(about, Ok(Vec::new()));
    assert_eq!(
        told(&mut engine).as_deref(),
        Some("UpdateService consul/web")
    );
    assert_eq!(told(&mut engine), None);
}

#[test]
fn what_may_not_be_read_keeps_back_others_for_a_while_and_alone_for_ever() {
    let (mut engine, api, web) = engine();
    let start = Instant::now();
    let late = start + Duration::from_secs(31);
    engine.deny(&api, start);
    engine.deny(&web, start);
    assert!(engine.next(late).is_none(), "nothing is known at all");
    engine.set_instances(&web, vec![instance("10.1.1.1")]);
    assert!(engine.next(start).is_none());
    let work = engine.next(late).unwrap();
    let RendererEvent::Resync(snapshot) = &work.event else {
        panic!("{work:?}")
    };
    assert_eq!(snapshot.services.len(), 1);
    engine.done(work.about, Ok(Vec::new()));
    engine.set_instances(&api, vec![]);
    let expected = Some("UpdateService consul/api");
    assert_eq!(told(&mut engine).as_deref(), expected);
    // What was read stays.
    engine.deny(&web, late);
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
        // An instance that is skipped is nobody's backend.
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
    engine.done(work.about, Err("full".to_owned()));
    assert!(engine.next(Instant::now()).is_none(), "until the next try");
    engine.retry();
    assert_eq!(told(&mut engine).as_deref(), Some("Resync"));

    engine.set_instances(&web, vec![instance("10.1.1.1")]);
    engine.set_instances(&web, vec![instance("10.1.1.2")]);
    let work = engine.next(Instant::now()).unwrap();
    assert!(engine.next(Instant::now()).is_none());
    // Changed while its event is under way: told afterwards.
    engine.set_instances(&web, vec![instance("10.1.1.3")]);
    assert!(engine.next(Instant::now()).is_none());
    engine.done(work.about, Err("full".to_owned()));
    assert!(engine.has_failures());
    assert_eq!(
        engine.problems()["consul/web"],
        ["its last change: full"],
        "it is shown"
    );
    assert!(told(&mut engine).is_some());
    assert!(!engine.has_failures());
    assert_eq!(engine.problems().len(), 0);
    engine.retry();
    assert_eq!(told(&mut engine), None);
}
