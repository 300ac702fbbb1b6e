//! Hidden instances, and removed ones.

use crate::consul::watch::tests::{
    Step::{Break, Filtered, Rights, Say},
    World, at, empty, good, one, rights, verdicts,
};

/// Two instances, on nodes of their own.
fn two() -> String {
    format!("[{},{}]", at("a", "n1"), at("b", "n2"))
}

#[tokio::test]
async fn an_empty_answer_counts_only_with_the_right_to_see_more() {
    let steps = vec![
        good(7, "a"),
        empty(9),
        rights(false),
        empty(9),
        Rights(500, "no".to_owned()),
        empty(9),
        rights(true),
        // It was empty before: no rights are requested.
        empty(10),
    ];
    let world = World::new(steps).await;
    let told = [
        "[a]",
        "[a] without node:read on `n1`",
        "500",
        "[]",
        "up to date",
        "[]",
    ];
    let asked = [
        "default", "7", "rights", "9h", "rights", "stale", "rights", "9", "10",
    ];
    world.holds(&told, &asked).await;
}

#[tokio::test]
async fn an_instance_vanishes_only_with_the_right_to_see_it() {
    let rest = || format!("[{}]", at("b", "n2"));
    let say = |index, body| Say(200, Some(index), body);
    // It may be seen, and is gone; whether others are hidden does not matter.
    for filtered in [false, true] {
        let answer = |index, body| {
            if filtered {
                Filtered(index, body)
            } else {
                say(index, body)
            }
        };
        let steps = vec![answer(7, two()), answer(9, rest()), rights(true)];
        let asked = ["default", "7", "rights", "9"];
        World::new(steps)
            .await
            .holds(&["[a,b]", "[b]"], &asked)
            .await;
        // It may not, and stays, until it is seen again.
        let steps = vec![
            answer(7, two()),
            answer(9, rest()),
            rights(false),
            answer(9, two()),
            answer(10, rest()),
            rights(true),
        ];
        let told = [
            "[a,b]",
            "[b,a] without node:read on `n1`",
            "[a,b]",
            "up to date",
            "[b]",
        ];
        let asked = ["default", "7", "rights", "9h", "stale", "rights", "10"];
        World::new(steps).await.holds(&told, &asked).await;
    }
    // What is new beside it counts.
    let steps = vec![
        say(7, two()),
        say(9, rest()),
        rights(false),
        say(10, one("c").replace("\"w\"", "\"new\"")),
        verdicts(&[true, false, true]),
    ];
    let told = [
        "[a,b]",
        "[b,a] without node:read on `n1`",
        "[c,a] without node:read on `n1`",
    ];
    let asked = ["default", "7", "rights", "9h", "rights", "10h"];
    World::new(steps).await.holds(&told, &asked).await;
}

#[tokio::test]
async fn rights_are_asked_for_in_as_many_pieces_as_consul_takes() {
    let all: Vec<String> = (0..100)
        .map(|number| at("a", &format!("m{number}")))
        .collect();
    let steps = vec![
        Say(200, Some(7), format!("[{}]", all.join(","))),
        empty(9),
        verdicts(&[true; 64]),
        verdicts(&[true; 37]),
    ];
    let world = World::new(steps).await;
    let told = format!("[{}]", ["a"; 100].join(","));
    let asked = ["default", "7", "rights", "rights", "9"];
    world.holds(&[&told, "[]"], &asked).await;
}

#[tokio::test]
async fn nobody_is_asked_for_rights_again_where_acls_are_off() {
    let off = Rights(401, "ACL support disabled".to_owned());
    let steps = vec![
        good(7, "a"),
        empty(9),
        off.clone(),
        good(10, "a"),
        empty(11),
        good(12, "b"),
        // It may be another Consul after this.
        Break,
        empty(13),
        off,
    ];
    let told = [
        "[a]",
        "[]",
        "[a]",
        "[]",
        "[b]",
        "unreachable",
        "[] back",
        "up to date",
    ];
    let asked = [
        "default", "7", "rights", "9", "10", "11", "12", "stale", "rights",
    ];
    World::new(steps).await.holds(&told, &asked).await;
}

#[tokio::test]
async fn a_first_answer_that_hides_something_is_not_empty() {
    let nothing = || "[]".to_owned();
    let steps = vec![Filtered(5, nothing()), rights(true), good(6, "a")];
    let told = [
        "denied node:read on nodes of its instances, which Consul leaves out",
        "[a]",
        "up to date",
    ];
    let asked = ["default", "rights", "stale", "6"];
    World::new(steps).await.holds(&told, &asked).await;
}

#[tokio::test]
async fn the_first_answer_may_be_empty_for_want_of_rights_too() {
    let world = World::new(vec![empty(5), rights(false), empty(5), rights(true)]).await;
    let told = ["denied node:read on `n1`", "[]", "up to date"];
    let asked = ["default", "rights", "stale", "rights", "5"];
    world.holds(&told, &asked).await;
    // Where ACLs are off there are no rights to lack.
    let off = Rights(401, "ACL support disabled".to_owned());
    let world = World::new(vec![empty(5), off]).await;
    world.holds(&["[]"], &["default", "rights", "5"]).await;
    // What does not fit the questions is no answer.
    let odd = Rights(200, "[]".to_owned());
    let world = World::new(vec![empty(5), odd]).await;
    world
        .holds(&["unreadable"], &["default", "rights", "stale"])
        .await;
}
