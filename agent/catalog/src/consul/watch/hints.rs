//! More services than there may be connections: two queries show which of them to look at.
//!
//! The checks of the whole catalog show at once which services' health has changed. The list of its services
//! wakes with each registration and shows no more than that there was one: then all services are looked at, at
//! a bounded rate.

use std::{
    borrow::Cow,
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use serde::Deserialize;
use tokio::sync::mpsc;

use crate::{
    consul::{
        http::client::Client,
        objects::{read, within},
        watch::{
            hinted::Hinted,
            path::{Heard, Taken, follow},
            told::{Told, Topic},
        },
    },
    instances::tier::Datacenter,
};

/// Path of all checks, and that of all services.
const CHECKS: &str = "/v1/health/state/any";
const SERVICES: &str = "/v1/catalog/services";

/// A check of the catalog, of whose answer it is a part.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Check<'a> {
    #[serde(borrow)]
    node: Text<'a>,
    #[serde(borrow, default, rename = "CheckID")]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    status: Option<Text<'a>>,
    #[serde(borrow, default)]
    service_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    service_name: Option<Text<'a>>,
}

/// A text where it stands in the answer. `serde` borrows a field of its own so, and not one that may be `null`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Object that a check belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Concerned {
    Service(Box<str>),
    Node(Box<str>),
}

/// A check as it last was.
#[derive(Debug)]
struct Known {
    status: u64,
    concerned: Concerned,
    /// In which answer it was last.
    answer: u64,
}

/// The checks as they last were. There are many, and most of them stay: only what is another one takes
/// memory anew.
#[derive(Debug, Default)]
struct Checks {
    known: HashMap<u64, Known>,
    hasher: RandomState,
    answers: u64,
}

impl Checks {
    /// Returns the objects whose checks differ from before.
    fn changed(&mut self, checks: &[Check<'_>]) -> Vec<Concerned> {
        self.answers += 1;
        let answer = self.answers;
        let mut changed = Vec::<Concerned>::new();
        for check in checks {
            let key = (&check.node, &check.id, &check.service_id);
            let key = self.hasher.hash_one(key);
            let status = self.hasher.hash_one(&check.status);
            if let Some(known) = self.known.get_mut(&key)
                && known.status == status
                && check.is_of(&known.concerned)
            {
                known.answer = answer;
                continue;
            }
            let concerned = check.concerned();
            changed.push(concerned.clone());
            let known = Known {
                status,
                concerned,
                answer,
            };
            let before = self.known.insert(key, known);
            // The service may have another name under its id: the one of before has lost it.
            let before = before.map(|before| before.concerned);
            changed.extend(before.filter(|before| !check.is_of(before)));
        }
        let gone = self.known.extract_if(|_, known| known.answer != answer);
        changed.extend(gone.map(|(_, known)| known.concerned));
        changed
    }
}

impl Check<'_> {
    /// The service that it is of; one of a node is of none.
    fn service(&self) -> Option<&str> {
        let name = self.service_name.as_ref().map(|name| &*name.0);
        name.filter(|name| !name.is_empty())
    }

    fn concerned(&self) -> Concerned {
        match self.service() {
            Some(name) => Concerned::Service(name.into()),
            None => Concerned::Node((&*self.node.0).into()),
        }
    }

    fn is_of(&self, concerned: &Concerned) -> bool {
        match (self.service(), concerned) {
            (Some(name), Concerned::Service(service)) => *name == **service,
            (None, Concerned::Node(node)) => *self.node.0 == **node,
            _ => false,
        }
    }
}

/// Sends hints by the checks of a datacenter, for ever.
pub(in crate::consul) async fn by_checks(
    client: Client,
    datacenter: Datacenter,
    hinted: Arc<Hinted>,
    told: mpsc::Sender<Told>,
) {
    let mut checks = Checks::default();
    let changed = |body: &[u8]| {
        let found: Option<Vec<Check<'_>>> = read(body)?;
        let changed = checks.changed(&found.unwrap_or_default());
        let is_new = !changed.is_empty();
        for concerned in changed {
            match concerned {
                Concerned::Service(name) => hinted.hint(&name.to_lowercase()),
                Concerned::Node(node) => hinted.hint_node(&node),
            }
        }
        Ok(if is_new { Taken::News } else { Taken::Nothing })
    };
    let path = within(CHECKS, &datacenter);
    let heard = Heard::Losses(&hinted);
    let topic = Topic::Hints(datacenter);
    follow(client, &path, topic, told, changed, heard).await;
}

/// Sends hints by the services of a datacenter, for ever. After each answer, also one without news, all are
/// looked at: changes that wake no query are seen then.
pub(in crate::consul) async fn by_services(
    client: Client,
    datacenter: Datacenter,
    hinted: Arc<Hinted>,
    told: mpsc::Sender<Told>,
) {
    let path = within(SERVICES, &datacenter);
    let topic = Topic::Hints(datacenter);
    follow(
        client,
        &path,
        topic,
        told,
        |_| Ok(Taken::News),
        Heard::All(&hinted),
    )
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<'a>(node: &'a str, id: &'a str, status: &'a str, service: &'a str) -> Check<'a> {
        let text = |text: &'a str| Text(text.into());
        Check {
            node: text(node),
            id: Some(text(id)),
            status: Some(text(status)),
            service_id: Some(text(service)),
            service_name: Some(text(service)),
        }
    }

    #[test]
    fn a_check_that_comes_goes_or_turns_is_of_a_service_or_of_a_node() {
        let mut checks = Checks::default();
        let service = |name: &str| Concerned::Service(name.into());
        let first = || {
            vec![
                check("n1", "c", "passing", "web"),
                check("n1", "s", "passing", ""),
            ]
        };
        assert_eq!(checks.changed(&first()).len(), 2);
        assert_eq!(checks.changed(&first()), []);
        let turned = vec![
            check("n1", "c", "critical", "web"),
            check("n1", "s", "passing", ""),
        ];
        assert_eq!(checks.changed(&turned), [service("web")]);
        let gone = vec![check("n1", "c", "critical", "web")];
        assert_eq!(checks.changed(&gone), [Concerned::Node("n1".into())]);
        let come = vec![
            check("n1", "c", "critical", "web"),
            check("n2", "c", "passing", "api"),
        ];
        assert_eq!(checks.changed(&come), [service("api")]);
        let moved = vec![
            check("n1", "c", "critical", "web"),
            Check {
                service_name: Some(Text("other".into())),
                ..come[1].clone()
            },
        ];
        assert_eq!(checks.changed(&moved), [service("other"), service("api")]);
        assert_eq!(checks.known.len(), 2, "nothing is kept of what is gone");
    }

    #[test]
    fn answers_with_other_node_names_leave_nothing_behind() {
        let mut checks = Checks::default();
        for number in 0..10_000 {
            let (node, service) = (format!("node-{number}"), format!("service-{number}"));
            let come = [
                check(&node, "c", "passing", &service),
                check(&node, "serfHealth", "passing", ""),
            ];
            checks.changed(&come);
            assert_eq!(checks.known.len(), 2);
        }
        assert!(checks.known.capacity() < 100, "{}", checks.known.capacity());
    }

    #[test]
    fn an_answer_is_read_where_it_is_and_what_is_empty_may_be_null() {
        let body = br#"[{ "Node": "n1", "CheckID": "a\u0062", "Status": "passing", "Output": "x",
            "ServiceID": null, "ServiceName": "" }]"#;
        let read: Vec<Check<'_>> = read(body).unwrap();
        let [check] = &*read else { panic!("{read:?}") };
        assert!(matches!(check.node.0, Cow::Borrowed("n1")));
        assert_eq!(check.id, Some(Text("ab".into())), "written in another way");
        assert_eq!(check.service_id, None);
        assert_eq!(check.concerned(), Concerned::Node("n1".into()));
    }
}
