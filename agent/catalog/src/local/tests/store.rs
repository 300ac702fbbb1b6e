//! The file, and changes that are written before they take effect.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
    process,
    time::Duration,
};

use serde_json::json;
use tokio::time::{sleep, timeout};

use super::world::{World, register};
use crate::local::{
    keeper::{KeepError, Keeper},
    limits::HttpChecks,
    options::LocalOptions,
    registrar::LocalNode,
    state::{effects::Subject, refusal::Refusal, status::Status},
    store::{Store, StoreError, content},
};

/// A folder that goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(env::temp_dir().join(format!("shunt-local-{}-{name}", process::id())))
    }

    fn file(&self) -> PathBuf {
        self.0.join("state/local.json")
    }

    fn options(&self, services: Option<PathBuf>) -> LocalOptions {
        LocalOptions {
            node: LocalNode {
                name: "n1".to_owned(),
                address: None,
            },
            state: self.file(),
            services,
            http_checks: HttpChecks::Limited,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn what_was_written_is_read() {
    let folder = Folder::new("read");
    let (store, stored) = Store::open(&folder.file()).unwrap();
    assert_eq!(stored.known.services().len(), 0);
    let mut world = World::default();
    world.change(&register(json!({
        "Name": "web", "ID": "web1", "Port": 80, "Tags": ["a"], "Meta": { "k": "v" },
        "Checks": [
            { "HTTP": "http://127.0.0.1:1/", "Interval": "10s", "Header": { "A": ["b"] } },
            { "TTL": "1s", "DeregisterCriticalServiceAfter": "2m" },
        ],
        "Connect": { "SidecarService": {} },
    })));
    world.tell("service:web1:2", Status::Warning);
    let known = world.registry.known();
    let text = content(known, world.registry.statuses()).unwrap();
    store.write(&text).unwrap();
    let mode = fs::metadata(folder.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(store);
    let (_store, stored) = Store::open(&folder.file()).unwrap();
    assert_eq!(stored.known, *known, "hashes and all");
    let expected = BTreeMap::from([
        ("service:web1-sidecar-proxy:1".to_owned(), Status::Critical),
        ("service:web1:1".to_owned(), Status::Critical),
        ("service:web1:2".to_owned(), Status::Warning),
    ]);
    assert_eq!(stored.statuses, expected);
}

#[test]
fn a_file_that_makes_no_sense_is_named_and_stays() {
    for (name, text, refused) in [
        ("empty", "", "is damaged"),
        ("half", r#"{"version":1,"services":[{"#, "is damaged"),
        (
            "other",
            r#"{"version":1,"services":[],"checks":[],"statuses":{},"x":1}"#,
            "is damaged",
        ),
        ("none", "[]", "is damaged"),
        ("newer", r#"{"version":2,"anything":1}"#, "has version 2"),
    ] {
        let folder = Folder::new(name);
        fs::create_dir_all(folder.file().parent().unwrap()).unwrap();
        fs::write(folder.file(), text).unwrap();
        let error = Store::open(&folder.file()).unwrap_err().to_string();
        assert!(
            error.contains(refused) && error.contains("nothing was changed"),
            "{error}"
        );
        assert!(error.contains("move"), "it says what to do: {error}");
        assert_eq!(fs::read_to_string(folder.file()).unwrap(), text);
    }
}

#[test]
fn a_file_is_for_one_agent() {
    let folder = Folder::new("one");
    let (store, _) = Store::open(&folder.file()).unwrap();
    let error = Store::open(&folder.file()).unwrap_err().to_string();
    let holder = format!("is another agent's, of process {} (", process::id());
    assert!(error.contains(&holder), "{error}");
    drop(store);
    drop(Store::open(&folder.file()).unwrap());
}

#[test]
fn what_was_left_half_written_is_nothing() {
    let folder = Folder::new("left");
    let (store, _) = Store::open(&folder.file()).unwrap();
    store
        .write(&content(World::default().registry.known(), BTreeMap::new()).unwrap())
        .unwrap();
    drop(store);
    // An agent was killed while it wrote, longer than the next one writes.
    fs::write(folder.0.join("state/local.json.new"), "x".repeat(10_000)).unwrap();
    let (store, _) = Store::open(&folder.file()).unwrap();
    store
        .write(&content(World::default().registry.known(), BTreeMap::new()).unwrap())
        .unwrap();
    drop(store);
    drop(Store::open(&folder.file()).unwrap());
}

#[test]
fn no_link_is_followed_by_a_write_or_a_lock() {
    let folder = Folder::new("link");
    let state = folder.0.join("state");
    fs::create_dir_all(&state).unwrap();
    let precious = folder.0.join("precious");
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, state.join("local.json.new")).unwrap();
    let (store, _) = Store::open(&folder.file()).unwrap();
    store
        .write(&content(World::default().registry.known(), BTreeMap::new()).unwrap())
        .unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    drop(store);

    let lock = state.join("local.json.lock");
    fs::remove_file(&lock).unwrap();
    symlink(&precious, &lock).unwrap();
    let error = Store::open(&folder.file()).unwrap_err();
    assert!(matches!(error, StoreError::Lock(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_and_verdicts_outlive_the_agent() {
    let folder = Folder::new("outlive");
    let web = || json!({ "Name": "web", "Check": { "TTL": "10s" } });
    {
        let keeper = Keeper::start(folder.options(None)).await.unwrap();
        let registrar = keeper.registrar();
        registrar.change(register(web())).await.unwrap();
        registrar.tell("service:web", Status::Passing, "well");
        // With the next change at the latest.
        registrar
            .change(register(json!({ "Name": "other" })))
            .await
            .unwrap();
        // What is the same is not written: it could not be.
        fs::create_dir(folder.0.join("state/local.json.new")).unwrap();
        registrar.change(register(web())).await.unwrap();
        fs::remove_dir(folder.0.join("state/local.json.new")).unwrap();
        keeper.stop();
    }
    let keeper = Keeper::start(folder.options(None)).await.unwrap();
    let registry = keeper.registrar().look();
    assert_eq!(registry.known().services().len(), 2);
    let check = registry.known().check("service:web").unwrap();
    assert_eq!(registry.status(check), Status::Passing);
}

/// Returns whether the file has the check of `web` as passing, which is waited for.
async fn has_passing(folder: &Folder) -> bool {
    let has = || {
        let text = fs::read_to_string(folder.file()).unwrap();
        let content: serde_json::Value = serde_json::from_str(&text).unwrap();
        content["statuses"]["service:web"]
            .to_string()
            .contains("assing")
    };
    let found = timeout(Duration::from_secs(20), async {
        while !has() {
            sleep(Duration::from_millis(5)).await;
        }
    });
    found.await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_is_written_though_the_same_is_registered_again_and_again() {
    let folder = Folder::new("again");
    let keeper = Keeper::start(folder.options(None)).await.unwrap();
    let web = || register(json!({ "Name": "web", "Check": { "TTL": "100s" } }));
    let registrar = keeper.registrar().clone();
    registrar.change(web()).await.unwrap();
    registrar.tell("service:web", Status::Passing, "well");
    let again = tokio::spawn(async move {
        loop {
            registrar.change(web()).await.unwrap();
            sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(has_passing(&folder).await);
    again.abort();
    drop(again.await);
    keeper.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_is_written_at_an_orderly_end_and_after_a_write_that_failed() {
    let folder = Folder::new("end");
    let web = || register(json!({ "Name": "web", "Check": { "TTL": "100s" } }));
    let keeper = Keeper::start(folder.options(None)).await.unwrap();
    keeper.registrar().change(web()).await.unwrap();
    let tell = |keeper: &Keeper, status| keeper.registrar().tell("service:web", status, "");
    tell(&keeper, Status::Passing);
    keeper.stop();
    assert!(has_passing(&folder).await);

    let keeper = Keeper::start(folder.options(None)).await.unwrap();
    let draft = folder.0.join("state/local.json.new");
    tell(&keeper, Status::Critical);
    drop(fs::remove_file(&draft));
    fs::create_dir(&draft).unwrap();
    tell(&keeper, Status::Passing);
    let failed = timeout(Duration::from_secs(20), async {
        while keeper.registrar().troubles().file.is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    });
    failed.await.unwrap();
    fs::remove_dir(&draft).unwrap();
    let kept = timeout(Duration::from_secs(20), async {
        while keeper.registrar().troubles().file.is_some() {
            sleep(Duration::from_millis(5)).await;
        }
    });
    kept.await.unwrap();
    assert!(has_passing(&folder).await);
    keeper.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_has_no_effect() {
    let folder = Folder::new("full");
    let keeper = Keeper::start(folder.options(None)).await.unwrap();
    // The draft cannot be made any more.
    fs::create_dir(folder.0.join("state/local.json.new")).unwrap();
    let registrar = keeper.registrar();
    let refused = registrar.change(register(json!({ "Name": "web" }))).await;
    let Err(Refusal::Failed(text)) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        text.starts_with("this cannot be kept, so it is not done: cannot remove the draft "),
        "{text}"
    );
    assert!(registrar.look().known().service("web").is_none());
    assert!(registrar.troubles().file.is_some(), "and it is shown");
    fs::remove_dir(folder.0.join("state/local.json.new")).unwrap();
    registrar
        .change(register(json!({ "Name": "web" })))
        .await
        .unwrap();
    assert_eq!(registrar.troubles().file, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_read_at_the_start_and_again() {
    let folder = Folder::new("defined");
    let file = folder.0.join("services.json");
    fs::create_dir_all(&folder.0).unwrap();
    let write = |text: &str| fs::write(&file, text).unwrap();
    write(r#"{"service":{"name":"a"}}"#);
    let keeper = Keeper::start(folder.options(Some(file.clone())))
        .await
        .unwrap();
    let registrar = keeper.registrar();
    let has = |id: &str| registrar.look().known().service(id).is_some();
    assert!(has("a"));
    write(r#"{"service":{"name":"#);
    let error = registrar.reload().await.unwrap_err().to_string();
    assert!(error.contains("EOF"), "{error}");
    assert!(has("a"), "what is wrong changes nothing");
    assert_eq!(registrar.troubles().definitions, Some(error));
    write(r#"{"service":{"name":"b"}}"#);
    registrar.reload().await.unwrap();
    assert!(has("b") && !has("a"));
    assert_eq!(registrar.troubles().definitions, None);
    keeper.stop();
    write("{");
    let refused = Keeper::start(folder.options(Some(file.clone()))).await;
    assert!(
        matches!(refused, Err(KeepError::Definitions(_))),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_an_earlier_agent_took_is_critical_and_named() {
    let folder = Folder::new("forbidden");
    let with = |http_checks| LocalOptions {
        http_checks,
        ..folder.options(None)
    };
    let check = json!({
        "HTTP": "http://127.0.0.1:1/", "Interval": "1h", "Method": "POST", "Status": "passing",
        "DeregisterCriticalServiceAfter": "1m",
    });
    let web = || register(json!({ "Name": "web", "Check": check }));
    let keeper = Keeper::start(with(HttpChecks::Any)).await.unwrap();
    keeper.registrar().change(web()).await.unwrap();
    assert_eq!(keeper.registrar().troubles().forbidden, None);
    keeper.stop();

    let keeper = Keeper::start(with(HttpChecks::Limited)).await.unwrap();
    let registrar = keeper.registrar();
    let (status, said) = {
        let registry = registrar.look();
        let check = registry.known().check("service:web").unwrap();
        (registry.status(check), registry.output(check))
    };
    assert_eq!(status, Status::Critical, "at once");
    assert!(said.contains("not \"POST\""), "{said}");
    let named = registrar.troubles().forbidden.unwrap();
    assert!(named.contains("service:web"), "{named}");
    assert!(matches!(
        registrar.change(web()).await,
        Err(Refusal::Bad(_))
    ));
    keeper.stop();

    let keeper = Keeper::start(with(HttpChecks::Any)).await.unwrap();
    assert_eq!(keeper.registrar().troubles().forbidden, None, "it is run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_of_a_file_sends_what_it_likes() {
    let folder = Folder::new("free");
    let file = folder.0.join("services.json");
    fs::create_dir_all(&folder.0).unwrap();
    let check = r#"{"http":"http://127.0.0.1:1/","interval":"1h","method":"POST","body":"x"}"#;
    let text = format!(r#"{{"service":{{"name":"web","check":{check}}}}}"#);
    fs::write(&file, text).unwrap();
    let keeper = Keeper::start(folder.options(Some(file))).await.unwrap();
    let registrar = keeper.registrar();
    let registry = registrar.look();
    let check = registry.known().check("service:web").unwrap();
    assert_eq!(registrar.forbids(check), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_goes_up_over_a_restart() {
    let folder = Folder::new("index");
    let index = |keeper: &Keeper| {
        let registry = keeper.registrar().look();
        let subjects = [Subject::Nodes, Subject::Services, Subject::name("web")];
        subjects.map(|subject| registry.indexes().of(&subject))
    };
    let keeper = Keeper::start(folder.options(None)).await.unwrap();
    let web = register(json!({ "Name": "web" }));
    keeper.registrar().change(web).await.unwrap();
    let before = index(&keeper);
    keeper.stop();
    let keeper = Keeper::start(folder.options(None)).await.unwrap();
    let after = index(&keeper);
    let latest = before.iter().max().unwrap();
    assert!(after.iter().all(|index| index > latest), "{after:?}");
}
