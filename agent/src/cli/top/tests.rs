//! The model with time that is injected, and pictures of the screen at several sizes.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

use ratatui::{Terminal, backend::TestBackend, buffer::Cell};
use shunt_api::view::{End, FlowEvent, FlowKind, FrontendKey, ProtocolNumber, TableUse};

use super::{
    model::{Key, Model, Page, Sort},
    sample::{BackendUse, Counted, Sample, ServicePort},
    view::{Colours, draw},
};

fn id(service: &str) -> ServicePort {
    ServicePort {
        service: service.to_owned(),
        port: "http".to_owned(),
    }
}

fn counted(number: u8, connections: u64, errors: u64, active: u64) -> Counted {
    let backends = [3, 4].map(|host| {
        let use_of = BackendUse {
            weight: if host == 3 { 3 } else { 1 },
            local: host == 3,
            connections: connections / if host == 3 { 2 } else { 4 },
            active: Some(active / 2),
        };
        (
            format!("10.1.{number}.{host}:8080").parse().unwrap(),
            use_of,
        )
    });
    Counted {
        frontends: vec![FrontendKey {
            address: [10, 96, 0, number].into(),
            port: 80,
            protocol: ProtocolNumber(6),
        }],
        connections,
        errors,
        active: Some(active),
        backends: backends.into(),
        differs: false,
    }
}

/// After so many seconds: `web` has 10 connections a second, `api` 2 and an error, `idle` none.
fn sample(begin: Instant, seconds: u64) -> Sample {
    let mut idle = counted(3, 5, 0, 0);
    idle.backends.clear();
    Sample {
        at: begin + Duration::from_secs(seconds),
        version: "0.1.0".to_owned(),
        uptime_seconds: 3_600 + seconds,
        services: BTreeMap::from([
            (id("default/web"), counted(1, 100 + 10 * seconds, 0, 40)),
            (id("shop/api"), counted(2, 7 + 2 * seconds, seconds, 600)),
            (id("shop/idle"), idle),
        ]),
        tables: vec![
            table("frontends_v4", 3, 65_536),
            table("conntrack_v4", 640, 131_072),
            table("conntrack_v6", 0, 131_072),
        ],
        counters: BTreeMap::from([
            ("connection".to_owned(), 112 + 12 * seconds),
            ("reject_no_backend".to_owned(), seconds),
            ("drop_mtu".to_owned(), 0),
        ]),
        troubles: Vec::new(),
    }
}

fn table(name: &str, used: u64, capacity: u64) -> TableUse {
    TableUse {
        name: name.to_owned(),
        used,
        retired: 0,
        capacity,
    }
}

/// After two looks, two seconds apart.
fn model() -> (Model, Instant) {
    let (mut model, begin) = (Model::new(), Instant::now());
    model.take(sample(begin, 0));
    model.take(sample(begin, 2));
    (model, begin)
}

fn names(model: &Model) -> Vec<String> {
    let rows = model.services().into_iter();
    rows.map(|row| row.id.service).collect()
}

/// The screen at this size, a line each, without blanks at the end.
fn screen(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let drawn = terminal
        .draw(|frame| draw(model, Colours::Off, frame))
        .unwrap();
    let lines = drawn.buffer.content.chunks(width.into()).map(|line| {
        let line: String = line.iter().map(Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

#[test]
fn rates_come_of_two_looks_and_the_time_between() {
    let (mut model, begin) = (Model::new(), Instant::now());
    model.take(sample(begin, 0));
    assert!(model.services().iter().all(|row| row.new.is_none()));
    assert_eq!(model.totals(), (None, None));
    model.take(sample(begin, 2));
    let rates: Vec<_> = model
        .services()
        .iter()
        .map(|row| (row.new, row.errors))
        .collect();
    let expected = [(10.0, 0.0), (2.0, 1.0), (0.0, 0.0)];
    assert_eq!(
        rates,
        expected.map(|(new, errors)| (Some(new), Some(errors)))
    );
    assert_eq!(model.totals(), (Some(12.0), Some(1.0)));

    // Another agent, or other tables: what is counted begins anew.
    let mut anew = sample(begin, 3);
    anew.services.insert(id("default/web"), counted(1, 4, 0, 1));
    model.take(anew);
    let web = model
        .services()
        .into_iter()
        .find(|row| row.id == id("default/web"));
    assert_eq!(web.unwrap().new, None);
}

#[test]
fn services_are_sorted_and_filtered_and_the_cursor_stays_on_its_service() {
    let (mut model, begin) = model();
    assert_eq!(names(&model), ["default/web", "shop/api", "shop/idle"]);
    let cursor = |model: &Model| {
        let rows = model.services();
        rows[model.cursor(&rows).unwrap()].id.service.clone()
    };
    model.press(Key::Down);
    assert_eq!(cursor(&model), "shop/api");
    for (sort, first) in [
        (Sort::Errors, "shop/api"),
        (Sort::Active, "shop/api"),
        (Sort::Name, "default/web"),
        (Sort::New, "default/web"),
    ] {
        model.press(Key::Char('s'));
        assert_eq!(model.sort, sort);
        assert_eq!(names(&model)[0], first, "{sort:?}");
        assert_eq!(cursor(&model), "shop/api");
    }
    for key in [
        Key::Char('/'),
        Key::Char('I'),
        Key::Char('d'),
        Key::Char('q'),
        Key::Backspace,
    ] {
        model.press(key);
    }
    assert!(model.is_typing && !model.is_over);
    assert_eq!(names(&model), ["shop/idle"]);
    assert_eq!(cursor(&model), "shop/idle");
    model.press(Key::Enter);
    assert_eq!((model.is_typing, model.filter.as_str()), (false, "Id"));
    model.press(Key::Escape);
    assert_eq!(names(&model).len(), 3);
    assert_eq!(cursor(&model), "shop/api", "it was there before");

    // Its service goes: the cursor stays in its place.
    let mut without = sample(begin, 3);
    without.services.remove(&id("shop/api"));
    model.take(without);
    assert_eq!(cursor(&model), "shop/idle");
    for key in [Key::End, Key::PageDown, Key::Home, Key::PageUp, Key::Up] {
        model.press(key);
    }
    assert_eq!(cursor(&model), "default/web");
}

#[test]
fn keys_lead_from_page_to_page_and_out() {
    let (mut model, _) = model();
    model.press(Key::Enter);
    assert_eq!(model.page, Page::Backends(id("default/web")));
    model.press(Key::Escape);
    assert_eq!(model.page, Page::Services);
    model.press(Key::Tab);
    assert_eq!(model.page, Page::Node);
    model.press(Key::Tab);
    assert_eq!(model.page, Page::Services);
    assert!(!model.is_over);
    model.press(Key::Escape);
    assert!(model.is_over);
    for key in [Key::Char('q'), Key::Interrupt] {
        let (mut model, _) = self::model();
        model.press(key);
        assert!(model.is_over, "{key:?}");
    }
    let (mut typing, _) = self::model();
    typing.press(Key::Char('/'));
    typing.press(Key::Interrupt);
    assert!(typing.is_over, "whatever is typed");
}

#[test]
fn a_paused_screen_stays_as_it_is() {
    let (mut model, begin) = model();
    model.press(Key::Char('p'));
    model.lose("no agent answers".to_owned());
    model.take(sample(begin, 9));
    assert_eq!(model.away, None, "that it is there again is said");
    assert_eq!(model.sample().unwrap().at, begin + Duration::from_secs(2));
    model.press(Key::Char('p'));
    model.take(sample(begin, 10));
    assert_eq!(model.services()[0].new, Some(10.0));
}

#[test]
fn an_agent_that_is_away_is_said_and_what_was_known_stays() {
    let (mut model, begin) = model();
    model.lose("no agent answers at /run/shunt/shunt.sock".to_owned());
    let shown = screen(&model, 80, 24);
    assert!(
        shown.contains("! no agent answers at /run/shunt/shunt.sock; asking again"),
        "{shown}"
    );
    assert!(shown.contains("default/web:http"), "{shown}");
    model.take(sample(begin, 4));
    assert!(!screen(&model, 80, 24).contains("no agent"));
}

#[test]
fn the_services_at_80x24() {
    let (model, _) = model();
    let bar = "█".to_owned() + &"░".repeat(49);
    let mut expected = format!(
        "\
shunt  12.0 new/s, 1.0 errors/s, 3 service ports, up 1h 0m
connections {bar} 0%, 640 of 262k
SERVICE                                          NEW/S ERRORS/S  ACTIVE BACKENDS
default/web:http                                  10.0        0      40        2
shop/api:http                                      2.0      1.0     600        2
shop/idle:http                                       0        0       0        0
"
    );
    expected += &"\n".repeat(17);
    expected += "q quit  ↵ open  s sort:new/s  e events  tab node  / filter  p pause  ↑↓ go\n";
    assert_eq!(screen(&model, 80, 24), expected);
}

#[test]
fn a_wide_screen_says_more_and_a_small_one_what_counts() {
    let (model, _) = model();
    let wide = screen(&model, 120, 40);
    for text in [
        "version 0.1.0",
        "TOTAL",
        "FRONTEND",
        "10.96.0.1:80/TCP",
        " 120 ",
    ] {
        assert!(wide.contains(text), "{text}\n{wide}");
    }
    let small = screen(&model, 40, 10);
    for text in ["12.0 new/s", "default/web:http", "10.0", "q quit"] {
        assert!(small.contains(text), "{text}\n{small}");
    }
    assert!(!small.contains("ACTIVE"), "{small}");
    // Whatever a terminal is.
    for (width, height) in [(1, 1), (2, 3), (10, 4), (300, 2)] {
        let (mut model, _) = self::model();
        for key in [Key::Tab, Key::Tab, Key::Enter] {
            screen(&model, width, height);
            model.press(key);
        }
        screen(&model, width, height);
    }
}

#[test]
fn the_backends_of_a_service_and_their_shares() {
    let (mut model, begin) = model();
    model.press(Key::Enter);
    let shown = screen(&model, 80, 24);
    for text in [
        "default/web:http: 10.0 new/s, 120 in all",
        "10.1.1.3:8080",
        "75%",
        "25%",
        "this node",
        // A half and a quarter of the service's.
        " 5.0 ",
        " 2.5 ",
    ] {
        assert!(shown.contains(text), "{text}\n{shown}");
    }
    let small = screen(&model, 40, 10);
    for text in ["10.1.1.4:8080", "2.5", "25%"] {
        assert!(small.contains(text), "{text}\n{small}");
    }
    let mut without = sample(begin, 3);
    without.services.remove(&id("default/web"));
    model.take(without);
    assert!(screen(&model, 80, 24).contains("is not there any more"));
}

#[test]
fn the_shares_of_a_dual_stack_service_are_those_of_each_family() {
    let (mut model, begin) = model();
    model.press(Key::Enter);
    let mut both = sample(begin, 3);
    let web = both.services.get_mut(&id("default/web")).unwrap();
    for (number, weight) in [(3, 3), (4, 1)] {
        let address = format!("[fd00:1234:5678:9abc:def0:1234:5678:{number}]:8080");
        let usage = BackendUse {
            weight,
            ..BackendUse::default()
        };
        web.backends.insert(address.parse().unwrap(), usage);
    }
    model.take(both);
    let shown = screen(&model, 120, 24);
    for (address, share) in [
        ("10.1.1.3:8080 ", " 75% "),
        ("10.1.1.4:8080 ", " 25% "),
        ("[fd00:1234:5678:9abc:def0:1234:5678:3]:8080 ", " 75% "),
        ("[fd00:1234:5678:9abc:def0:1234:5678:4]:8080 ", " 25% "),
    ] {
        let row = shown.lines().find(|line| line.contains(address));
        assert!(
            row.is_some_and(|row| row.contains(share)),
            "{address}\n{shown}"
        );
    }
}

#[test]
fn the_node_s_tables_and_counters() {
    let (mut model, _) = model();
    model.press(Key::Tab);
    let shown = screen(&model, 80, 24);
    for text in ["conntrack_v4", "131k", "reject_no_backend", "1.0"] {
        assert!(shown.contains(text), "{text}\n{shown}");
    }
    assert!(!shown.contains("drop_mtu"), "it never happened\n{shown}");
    assert!(!shown.contains("conntrack_v6"), "it is empty\n{shown}");
}

#[test]
fn a_list_that_is_longer_than_the_screen_follows_the_cursor() {
    let (mut model, begin) = (Model::new(), Instant::now());
    let mut many = sample(begin, 0);
    many.services = (0..200)
        .map(|number| (id(&format!("many/s{number:03}")), counted(1, 0, 0, 0)))
        .collect();
    model.take(many);
    model.press(Key::Char('s'));
    model.press(Key::End);
    let shown = screen(&model, 80, 24);
    assert!(
        shown.contains("many/s199") && !shown.contains("many/s000"),
        "{shown}"
    );
    model.press(Key::Home);
    assert!(screen(&model, 80, 24).contains("many/s000"));
}

fn event(kind: FlowKind, second: u64, service: &str, reason: &str) -> FlowEvent {
    let end = |ip: [u8; 4], port| {
        Some(End {
            ip: ip.into(),
            port,
        })
    };
    FlowEvent {
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(3_723 + second),
        kind,
        reason: reason.to_owned(),
        protocol: ProtocolNumber(6),
        client: end([10, 1, 1, 5], 40_000),
        frontend: end([10, 96, 0, 1], 80),
        service: Some(service.to_owned()),
        service_port: Some("http".to_owned()),
        backend: (kind == FlowKind::Opened)
            .then(|| end([10, 1, 1, 3], 8080))
            .flatten(),
        snat_source: None,
        duration: (kind == FlowKind::Ended).then_some(Duration::from_millis(1_500)),
        packet: None,
    }
}

#[test]
fn events_are_watched_while_they_are_looked_at() {
    let (mut model, begin) = model();
    assert_eq!(model.watched(), None);
    model.press(Key::Char('e'));
    assert_eq!(model.watched(), Some(1));
    assert!(screen(&model, 80, 24).contains("no event yet"));
    model.take_events(
        vec![
            event(FlowKind::Opened, 0, "default/web", ""),
            event(FlowKind::Ended, 1, "default/web", "finished"),
            event(FlowKind::Refused, 2, "shop/idle", "reject_no_backend"),
        ],
        7,
    );
    let shown = screen(&model, 80, 24);
    let at = |text: &str| {
        shown
            .find(text)
            .unwrap_or_else(|| panic!("{text}\n{shown}"))
    };
    assert!(at("01:02:05 refused") < at("01:02:04 ended"), "{shown}");
    for text in [
        "10.1.1.5:40000",
        "default/web:http",
        "10.1.1.3:8080",
        "finished",
        "reject_no_backend",
        "; 7 were lost",
    ] {
        at(text);
    }
    assert!(screen(&model, 120, 40).contains("1.5s"));

    for key in [Key::Char('/'), Key::Char('i'), Key::Char('d'), Key::Enter] {
        model.press(key);
    }
    let shown = screen(&model, 80, 24);
    assert!(
        shown.contains("shop/idle") && !shown.contains("default/web"),
        "{shown}"
    );

    model.press(Key::Char('p'));
    model.take_events(
        vec![event(FlowKind::Dropped, 9, "shop/idle", "drop_mtu")],
        7,
    );
    assert!(!screen(&model, 80, 24).contains("drop_mtu"), "it is paused");
    model.press(Key::Char('p'));
    model.lose_events("events cannot be watched without a pin directory".to_owned());
    assert!(screen(&model, 80, 24).contains("! events cannot be watched"));
    model.press(Key::Escape);
    assert_eq!((&model.page, model.watched()), (&Page::Services, None));

    // With 20,000 connections a second, one in 21 is shown.
    let mut busy = sample(begin, 3);
    busy.services
        .insert(id("default/web"), counted(1, 20_120, 0, 40));
    model.take(busy);
    model.press(Key::Char('e'));
    assert_eq!(model.watched(), Some(21));
}

#[test]
fn the_last_thousand_events_are_kept() {
    let (mut model, _) = model();
    model.press(Key::Char('e'));
    let many = (0..1_500).map(|second| event(FlowKind::Opened, second, "default/web", ""));
    model.take_events(many.collect(), 0);
    model.press(Key::End);
    assert_eq!(model.line, 999);
    assert!(
        screen(&model, 80, 24).contains("01:10:23"),
        "the 501st is the last"
    );
}
