//! Queries against a server that follows a script.

mod rights;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use shunt_runtime::ConsulMonitor;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{
    consul::{
        exports::keep_registered,
        http::{client::Client, error::AskError, tls::TlsFiles, token::TokenSource},
        watch::{
            pace::Pace,
            path::{Heard, Taken, follow},
            told::{News, Reason, Told, Topic},
            watcher::{Wake, Watcher},
        },
    },
    instances::{
        query::{Query, QueryKind},
        tier::Datacenter,
    },
};

/// Longer than anything takes here, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reaction of the server to a question.
#[derive(Debug, Clone)]
enum Step {
    /// It answers: status, index, body.
    Say(u16, Option<u64>, String),
    /// It answers from a server that knows no leader.
    Leaderless(u64, String),
    /// It answers, keeps the connection, and closes it soon, as one does that is killed.
    Leave(u64, String),
    /// It sends nothing.
    Hang,
    /// It closes the connection.
    Break,
    /// It answers, and has left something out that the token may not read.
    Filtered(u64, String),
    /// It returns the rights of the token.
    Rights(u16, String),
}

use Step::{Break, Filtered, Hang, Leaderless, Leave, Rights, Say};

/// One instance of this address.
fn one(address: &str) -> String {
    format!("[{}]", at(address, "n1"))
}

/// An instance of this address on a node.
fn at(address: &str, node: &str) -> String {
    format!(
        r#"{{"Node":{{"Node":"{node}","Datacenter":"dc1"}},"Service":{{"ID":"w","Service":"web","Address":"{address}","Port":80}},"Checks":[]}}"#
    )
}

fn good(index: u64, address: &str) -> Step {
    Say(200, Some(index), one(address))
}

fn empty(index: u64) -> Step {
    Say(200, Some(index), "[]".to_owned())
}

fn rights(allowed: bool) -> Step {
    verdicts(&[true, allowed])
}

fn verdicts(allowed: &[bool]) -> Step {
    let right =
        |allow| format!(r#"{{"Resource":"x","Access":"read","Segment":"y","Allow":{allow}}}"#);
    let rights: Vec<String> = allowed.iter().map(right).collect();
    Rights(200, format!("[{}]", rights.join(",")))
}

/// A query that is followed, the server that it asks, and its news.
struct World {
    asked: Arc<Mutex<Vec<String>>>,
    told: mpsc::Receiver<Told>,
}

impl World {
    /// The server does one thing after the other, and then hangs.
    async fn new(steps: Vec<Step>) -> Self {
        Self::with_pauses(Duration::ZERO, steps).await
    }

    /// As [`Self::new`], with such a pause after each answer.
    async fn with_pauses(between: Duration, steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        tokio::spawn(serve(listener, steps.into(), Arc::clone(&asked)));
        let address = address.to_string().parse().unwrap();
        let client = Client::new(&address, TokenSource::None, TlsFiles::default(), 1).unwrap();
        let query = Arc::new(Query {
            service: "web".into(),
            kind: QueryKind::Service,
            datacenter: Datacenter::Own,
            filter: None,
        });
        let (tell, told) = mpsc::channel(64);
        let watcher = Watcher::new(client, 1, query, "n1".into(), Wake::Blocking, tell);
        let watcher = watcher.at(Pace {
            wait: Duration::from_secs(16),
            hidden: Duration::from_secs(8),
            answer: Duration::from_millis(300),
            first: Duration::from_millis(2),
            longest: Duration::from_millis(5),
            between,
            burst: 0,
            ..Pace::default()
        });
        tokio::spawn(watcher.run(Duration::ZERO));
        Self { asked, told }
    }

    /// Returns the next news, in short.
    async fn next(&mut self) -> String {
        let told = timeout(PATIENCE, self.told.recv()).await;
        let Told { topic, news } = told.expect("nothing is told").unwrap();
        assert!(matches!(topic, Topic::Instances(_)));
        match news {
            News::Instances {
                instances,
                is_back,
                hidden,
                ..
            } => {
                let addresses: Vec<&str> = instances.iter().map(|found| &*found.address).collect();
                let back = if is_back { " back" } else { "" };
                let hidden = match hidden.map(|trouble| trouble.reason) {
                    Some(Reason::Denied(lacks)) => format!(" without {lacks}"),
                    _ => String::new(),
                };
                format!("[{}]{back}{hidden}", addresses.join(","))
            }
            News::UpToDate => "up to date".to_owned(),
            News::Stale(trouble) => match trouble.reason {
                Reason::Failed(AskError::Status { code, .. }) => code.to_string(),
                Reason::Failed(error) => error.name().to_owned(),
                Reason::Denied(missing) => format!("denied {missing}"),
                Reason::NoLeader => "no leader".to_owned(),
            },
        }
    }

    /// Checks that all of this is reported, and that these requests are sent for it.
    async fn holds(mut self, told: &[&str], asked: &[&str]) {
        for expected in told {
            assert_eq!(self.next().await, *expected, "of {told:?}");
        }
        let count = asked.len();
        let all = || {
            let known = self.asked.lock().unwrap();
            (known.len() >= count).then(|| known.clone())
        };
        let found = timeout(PATIENCE, async {
            loop {
                if let Some(found) = all() {
                    return found;
                }
                sleep(Duration::from_millis(1)).await;
            }
        });
        let found = found.await.expect("not all is asked");
        let expected: Vec<String> = asked.iter().map(|path| full(path)).collect();
        assert_eq!(found[..count], expected);
    }
}

/// A question, of which the usual parts are left out.
fn full(short: &str) -> String {
    const PATH: &str = "/v1/health/service/web";
    match short {
        "default" => PATH.to_owned(),
        "stale" => format!("{PATH}?stale"),
        "rights" => "/v1/internal/acl/authorize".to_owned(),
        hidden if hidden.ends_with('h') => {
            let index = hidden.trim_end_matches('h');
            format!("{PATH}?stale&index={index}&wait=8000ms")
        }
        index => format!("{PATH}?stale&index={index}&wait=16000ms"),
    }
}

async fn serve(listener: TcpListener, mut steps: VecDeque<Step>, asked: Arc<Mutex<Vec<String>>>) {
    let mut hanging = Vec::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        let Some(path) = question(&mut stream).await else {
            continue;
        };
        let is_of_rights = path.starts_with("/v1/internal");
        asked.lock().unwrap().push(path);
        let step = steps.pop_front().unwrap_or(Hang);
        assert_eq!(matches!(step, Rights(..)), is_of_rights, "{step:?}");
        let connection = match step {
            Leave(..) => "keep-alive",
            _ => "close",
        };
        let filtered = matches!(step, Filtered(..));
        let (status, index, leader, body) = match step {
            Say(status, index, body) => (status, index, true, body),
            Leave(index, body) | Filtered(index, body) => (200, Some(index), true, body),
            Leaderless(index, body) => (200, Some(index), false, body),
            Rights(status, body) => (status, None, true, body),
            Break => continue,
            Hang => {
                hanging.push(stream);
                continue;
            }
        };
        let index = index.map_or_else(String::new, |index| format!("X-Consul-Index: {index}\r\n"));
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} X\r\nConnection: {connection}\r\nContent-Length: {length}\r\n\
             X-Consul-Knownleader: {leader}\r\n\
             X-Consul-Results-Filtered-By-ACLs: {filtered}\r\n{index}\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        drop(stream.shutdown().await);
    }
}

/// The path of a question, which is read to its end.
async fn question(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    loop {
        let mut piece = [0; 1024];
        let count = stream
            .read(&mut piece)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        text.extend_from_slice(&piece[..count]);
        let read = String::from_utf8_lossy(&text);
        let Some((head, body)) = read.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then_some(value)
        });
        let length: usize = length.map_or(0, |value| value.parse().unwrap());
        if body.len() >= length {
            return head.split(' ').nth(1).map(str::to_owned);
        }
    }
}

/// Returns the time until four answers with this result have been read, each for 10 ms.
async fn four_answers(said: Taken) -> Duration {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let steps = (1..=4).map(|index| Say(200, Some(index), index.to_string()));
    tokio::spawn(serve(listener, steps.collect(), Arc::default()));
    let address = address.parse().unwrap();
    let client = Client::new(&address, TokenSource::None, TlsFiles::default(), 1).unwrap();
    let (tell, _told) = mpsc::channel(1);
    let (read, mut answers) = mpsc::unbounded_channel();
    let take = move |_: &[u8]| {
        std::thread::sleep(Duration::from_millis(10));
        read.send(()).unwrap();
        Ok(said)
    };
    let begin = Instant::now();
    let path = "/v1/health/state/any";
    let topic = Topic::Datacenters;
    tokio::spawn(follow(client, path, topic, tell, take, Heard::Nothing));
    for _ in 0..4 {
        let answer = timeout(PATIENCE, answers.recv()).await;
        answer.expect("no further answer").unwrap();
    }
    begin.elapsed()
}

#[tokio::test]
async fn who_has_nothing_to_offer_is_up_to_date_once_the_agent_has_answered() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let steps = [
        Break,
        Say(500, None, "no".to_owned()),
        Say(200, None, "{}".to_owned()),
    ];
    tokio::spawn(serve(listener, steps.into(), Arc::default()));
    let parsed = address.parse().unwrap();
    let client = Client::new(&parsed, TokenSource::None, TlsFiles::default(), 1).unwrap();
    let monitor = ConsulMonitor::new(address, 1);
    monitor.update(|state| state.synced = true);
    let (tell, mut told) = mpsc::channel(4);
    keep_registered(client, "n1".into(), Vec::new(), monitor, tell).await;
    let mut news = Vec::new();
    while let Some(next) = told.recv().await {
        news.push(next.news);
    }
    assert!(
        matches!(news[..], [News::Stale(_), News::Stale(_), News::UpToDate]),
        "{news:?}"
    );
}

#[tokio::test]
async fn after_an_answer_that_says_nothing_there_is_a_rest() {
    let rest = Duration::from_millis(3 * 20 * 10);
    let taken = four_answers(Taken::Nothing).await;
    assert!(taken >= rest, "{taken:?}");
}

#[tokio::test]
async fn answers_are_followed_by_their_index() {
    let world = World::new(vec![good(7, "a"), good(8, "a"), good(9, "b")]).await;
    world
        .holds(&["[a]", "[a]", "[b]"], &["default", "7", "8", "9"])
        .await;
}

#[tokio::test]
async fn an_answer_counts_though_its_index_is_known() {
    // As it came so early, it is followed by a read without index.
    let steps = vec![good(7, "a"), good(7, "b"), good(7, "b"), good(9, "c")];
    let world = World::new(steps).await;
    let asked = ["default", "7", "stale", "7", "9"];
    world.holds(&["[a]", "[b]", "[b]", "[c]"], &asked).await;
    // The same answer again is no news.
    let steps = vec![good(7, "a"), good(7, "a"), good(7, "a"), good(9, "c")];
    let world = World::new(steps).await;
    world.holds(&["[a]", "[a]", "[c]"], &asked).await;
}

#[tokio::test]
async fn the_index_of_an_error_does_not_count_and_after_one_there_is_none() {
    for status in [403, 429, 500, 502] {
        let error = Say(status, Some(1), "no".to_owned());
        let world = World::new(vec![good(7, "a"), error, good(7, "a")]).await;
        let code = status.to_string();
        let told = ["[a]", &code, "[a]", "up to date"];
        world.holds(&told, &["default", "7", "stale", "7"]).await;
    }
}

#[tokio::test]
async fn a_broken_or_a_silent_agent_is_back_later() {
    let world = World::new(vec![good(7, "a"), Break, Break, good(9, "b")]).await;
    let told = [
        "[a]",
        "unreachable",
        "unreachable",
        "[b] back",
        "up to date",
    ];
    world
        .holds(&told, &["default", "7", "stale", "stale", "9"])
        .await;
    let world = World::new(vec![Hang, good(7, "a")]).await;
    let told = ["slow", "[a] back", "up to date"];
    world.holds(&told, &["default", "default", "7"]).await;
}

#[tokio::test]
async fn an_agent_that_is_another_one_after_a_pause_is_not_asked_for_an_index() {
    let leave = |index, address| Leave(index, one(address));
    let steps = vec![leave(7, "a"), leave(3, "older"), leave(3, "b"), empty(4)];
    let pause = Duration::from_millis(200);
    let world = World::with_pauses(pause, steps).await;
    // Its word is that of the leader by the third answer.
    let asked = ["default", "stale", "default", "stale"];
    world.holds(&["[a]", "[b] back"], &asked).await;
}

#[tokio::test]
async fn what_is_no_answer_is_not_believed() {
    for bad in [
        Say(200, Some(9), "<html>".to_owned()),
        Say(200, Some(9), "{}".to_owned()),
        Say(200, Some(9), "[".to_owned()),
        Say(200, None, one("b")),
    ] {
        let world = World::new(vec![good(7, "a"), bad, good(9, "b")]).await;
        let told = ["[a]", "unreadable", "[b]", "up to date"];
        world.holds(&told, &["default", "7", "stale", "9"]).await;
    }
}

#[tokio::test]
async fn an_index_that_goes_back_is_confirmed_by_the_leader() {
    // A server that lags behind.
    let world = World::new(vec![good(7, "a"), good(3, "old"), good(8, "b")]).await;
    world
        .holds(&["[a]", "[b]"], &["default", "7", "default", "8"])
        .await;
    // Another Consul.
    let steps = vec![
        good(7, "a"),
        Break,
        good(3, "x"),
        good(3, "b"),
        good(4, "c"),
    ];
    let world = World::new(steps).await;
    let told = ["[a]", "unreachable", "[b] back", "up to date", "[c]"];
    let asked = ["default", "7", "stale", "default", "3", "4"];
    world.holds(&told, &asked).await;
    // The leader does not answer: what is known stays.
    let no_leader = Say(500, Some(1), "No cluster leader".to_owned());
    let world = World::new(vec![good(7, "a"), good(3, "x"), no_leader, good(3, "b")]).await;
    let told = ["[a]", "500", "[b]", "up to date"];
    world
        .holds(&told, &["default", "7", "default", "default", "3"])
        .await;
}

#[tokio::test]
async fn a_server_without_a_leader_is_followed_and_shown() {
    let world = World::new(vec![good(7, "a"), Leaderless(8, one("b")), good(9, "c")]).await;
    let told = ["[a]", "[b]", "no leader", "[c]", "up to date"];
    world.holds(&told, &["default", "7", "8", "9"]).await;
}
