//! Questions and answers.

use std::{
    collections::HashSet,
    error::Error as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, Version,
    body::{Bytes, Incoming},
    header::{CONNECTION, HeaderName, HeaderValue},
};
use hyper_util::{
    client::legacy::Client as Pool,
    rt::{TokioExecutor, TokioTimer},
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use crate::consul::http::{
    address::ConsulAddress,
    connector::Connector,
    error::AskError,
    life::Life,
    tls::{Tls, TlsError, TlsFiles},
    token::{Token, TokenSource},
};

/// Largest number of open sockets where each blocked query has one of its own. Consul takes 200 of an address, which
/// are not all ours, and resets the others without a word.
pub(in crate::consul) const SOCKETS: usize = 64;

/// Number of them that are left for questions that do not block.
pub(in crate::consul) const BESIDE: usize = 4;

/// Number of queries that share a connection of HTTP/2. Consul takes 250.
pub(in crate::consul) const STREAMS: usize = 200;

/// An answer is at most so long: the checks of a whole catalog are one.
const LONGEST: usize = 256 * 1024 * 1024;

/// Interval of the probes of a connection of HTTP/2, and longest time for their answer.
const PROBE: Duration = Duration::from_secs(10);

const TOKEN: HeaderName = HeaderName::from_static("x-consul-token");

/// A Consul agent that can be asked. Clones ask the same one.
#[derive(Debug, Clone)]
pub(in crate::consul) struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    base: String,
    token: Token,
    /// With TLS, a connection each; otherwise one pool of connections.
    pools: Vec<Pool<Connector, Full<Bytes>>>,
    /// Room for questions at the same time, where each has a connection of its own.
    room: Option<Room>,
    /// Paths where Consul has answered that ACLs are off, since contact was last lost.
    without_acls: Mutex<HashSet<String>>,
}

/// Room for questions at the same time.
#[derive(Debug)]
struct Room {
    all: Semaphore,
    /// For those of them that block: others always find room, soon.
    blocked: Semaphore,
}

impl Room {
    fn new(sockets: usize) -> Self {
        Self {
            all: Semaphore::new(sockets),
            blocked: Semaphore::new(sockets - BESIDE),
        }
    }
}

/// A good answer.
#[derive(Debug, Clone)]
pub(in crate::consul) struct Answer {
    /// `X-Consul-Index`.
    pub(in crate::consul) index: Option<u64>,
    /// True if the server that answered has a leader; `None`: it does not report that.
    pub(in crate::consul) known_leader: Option<bool>,
    /// True if the server reports that it left out something that the token may not read.
    pub(in crate::consul) is_filtered: bool,
    /// The answer's body.
    pub(in crate::consul) body: Bytes,
    /// The connection that it came through, unless it was to end with this answer.
    pub(in crate::consul) connection: Option<Life>,
}

impl Client {
    /// Of the agent at this address. With TLS, it makes connections for so many blocked `queries`.
    ///
    /// # Errors
    ///
    /// The files of TLS do not have what they should.
    pub(in crate::consul) fn new(
        address: &ConsulAddress,
        token: TokenSource,
        files: TlsFiles,
        queries: usize,
    ) -> Result<Self, TlsError> {
        let has_tls = address.has_tls();
        let tls = has_tls.then(|| Tls::new(files, &host_of(address)));
        let limit = (!has_tls).then_some(SOCKETS);
        let connector = Connector::new(address.place.clone(), tls.transpose()?, limit);
        // One more for what is asked besides.
        let count = if has_tls {
            queries.div_ceil(STREAMS) + 1
        } else {
            1
        };
        let mut builder = Pool::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            // What is asked again may be asked of another Consul, and has to be asked in another way.
            .retry_canceled_requests(false)
            .http2_only(has_tls)
            .http2_keep_alive_interval(PROBE)
            .http2_keep_alive_timeout(PROBE);
        let pools = (0..count).map(|_| builder.build(connector.clone()));
        Ok(Self(Arc::new(Inner {
            base: format!("http://{}", address.authority()),
            token: Token::new(token),
            pools: pools.collect(),
            room: limit.map(Room::new),
            without_acls: Mutex::default(),
        })))
    }

    /// Requests the object at `path`, which is encoded, and waits at most so long. Questions with the same `lane` may
    /// share a connection.
    ///
    /// # Errors
    ///
    /// There is no answer, or it is an error.
    pub(in crate::consul) async fn get(
        &self,
        lane: usize,
        path: &str,
        limit: Duration,
    ) -> Result<Answer, AskError> {
        self.ask(lane, Method::GET, path, Bytes::new(), limit).await
    }

    /// As [`Self::get`], of a question that Consul may hold back for long.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub(in crate::consul) async fn block(
        &self,
        lane: usize,
        path: &str,
        limit: Duration,
    ) -> Result<Answer, AskError> {
        let begin = Instant::now();
        let Self(inner) = self;
        let blocked = inner.room.as_ref().map(|room| &room.blocked);
        let _blocked = permit(blocked, limit).await?;
        let left = limit.saturating_sub(begin.elapsed());
        self.get(lane, path, left).await
    }

    /// Sends a request, and returns the answer.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub(in crate::consul) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<Answer, AskError> {
        self.ask(0, method, path, body.into(), limit).await
    }

    /// Requests rights at `path`; `None`: ACLs are off there. That is remembered while contact lasts.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub(in crate::consul) async fn authorize(
        &self,
        path: &str,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<Option<Answer>, AskError> {
        let Self(inner) = self;
        if inner.without_acls().contains(path) {
            return Ok(None);
        }
        match self.send(Method::POST, path, body, limit).await {
            Ok(answer) => Ok(Some(answer)),
            Err(AskError::Status { code: 401, .. }) => {
                inner.without_acls().insert(path.to_owned());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn ask(
        &self,
        lane: usize,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Answer, AskError> {
        let Self(inner) = self;
        let begin = Instant::now();
        let all = inner.room.as_ref().map(|room| &room.all);
        let _socket = permit(all, limit).await?;
        let left = limit.saturating_sub(begin.elapsed());
        let asked = timeout(left, inner.exchange(lane, method, path, body)).await;
        let answer = asked.unwrap_or(Err(AskError::Slow(limit)));
        if let Err(error) = &answer {
            let is_refused = error.code() == Some(403);
            if is_refused {
                inner.token.refused();
            }
            if is_refused || error.is_lost_contact() {
                inner.without_acls().clear();
            }
        }
        answer
    }
}

impl Inner {
    fn without_acls(&self) -> MutexGuard<'_, HashSet<String>> {
        let paths = self.without_acls.lock();
        paths.unwrap_or_else(PoisonError::into_inner)
    }

    async fn exchange(
        &self,
        lane: usize,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Answer, AskError> {
        let unreadable = |error: &dyn std::error::Error| AskError::Unreadable(error.to_string());
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .body(Full::new(body))
            .map_err(|error| unreadable(&error))?;
        if let Some(token) = self.token.current() {
            let mut token = HeaderValue::try_from(token).map_err(|error| unreadable(&error))?;
            token.set_sensitive(true);
            request.headers_mut().insert(TOKEN, token);
        }
        let pool = &self.pools[lane % self.pools.len()];
        let response = pool.request(request).await;
        let response = response.map_err(|error| AskError::Unreachable(in_words(&error)))?;
        let (head, body) = response.into_parts();
        let body = read(body).await?;
        if head.status.as_u16() != 200 {
            return Err(AskError::status(head.status.as_u16(), &body));
        }
        let is_last = head.version < Version::HTTP_11
            || text(&head.headers, CONNECTION.as_str())
                .is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let connection = head.extensions.get::<Life>().filter(|_| !is_last);
        Ok(Answer {
            connection: connection.cloned(),
            index: number(&head.headers, "x-consul-index"),
            known_leader: known_leader(&head.headers),
            is_filtered: text(&head.headers, "x-consul-results-filtered-by-acls") == Some("true"),
            body,
        })
    }
}

/// Waits for room, if there is a limit.
async fn permit(
    room: Option<&Semaphore>,
    limit: Duration,
) -> Result<Option<SemaphorePermit<'_>>, AskError> {
    let Some(room) = room else {
        return Ok(None);
    };
    let permit = timeout(limit, room.acquire()).await;
    // The semaphore is never closed.
    permit.map_or(Err(AskError::Crowded(limit)), |permit| Ok(permit.ok()))
}

async fn read(body: Incoming) -> Result<Bytes, AskError> {
    let body = Limited::new(body, LONGEST).collect().await;
    let body =
        body.map_err(|error| AskError::Unreachable(format!("its answer broke off: {error}")))?;
    Ok(body.to_bytes())
}

/// Returns whether the server that answered has a leader, if it reports that. An answer that an agent streams comes
/// from no server, and has `false` in any case (hashicorp/consul#9776).
fn known_leader(headers: &HeaderMap) -> Option<bool> {
    if text(headers, "x-consul-query-backend") == Some("streaming") {
        return None;
    }
    text(headers, "x-consul-knownleader").map(|text| text == "true")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    text(headers, name)?.parse().ok()
}

/// The host that a certificate is to name.
fn host_of(address: &ConsulAddress) -> String {
    let authority = address.authority();
    let host = authority.rsplit_once(':').map(|(host, _)| host.to_owned());
    host.unwrap_or(authority)
}

/// Returns the error and its causes: the first alone shows only that there was one.
fn in_words(error: &hyper_util::client::legacy::Error) -> String {
    let mut words = if error.is_connect() {
        "no connection".to_owned()
    } else {
        "the connection broke".to_owned()
    };
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        cause = next.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
        time::sleep,
    };

    use super::*;

    /// The connections that a server has now, and the most that it ever had.
    #[derive(Debug, Default)]
    struct Open {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    #[tokio::test]
    async fn questions_that_do_not_block_find_room_and_a_wait_for_it_counts() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let open = Arc::<Open>::default();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let open = Arc::clone(&open);
                tokio::spawn(async move {
                    let mut question = [0; 4096];
                    let count = stream.peek(&mut question).await.unwrap();
                    if question[..count].starts_with(b"GET /blocks") {
                        // Until the other end has gone.
                        while stream
                            .read(&mut question)
                            .await
                            .is_ok_and(|count| count > 0)
                        {}
                    } else {
                        answer(stream, open).await;
                    }
                });
            }
        });
        let address = address.parse().unwrap();
        let client = Client::new(&address, TokenSource::None, TlsFiles::default(), 1).unwrap();
        let long = Duration::from_secs(1000);
        for _ in 0..SOCKETS - BESIDE {
            let client = client.clone();
            tokio::spawn(async move { client.block(0, "/blocks", long).await });
        }
        let Client(inner) = &client;
        while inner.room.as_ref().unwrap().blocked.available_permits() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        client.get(0, "/", Duration::from_secs(20)).await.unwrap();
        let short = Duration::from_millis(10);
        let crowded = client.block(0, "/blocks", short).await.unwrap_err();
        assert_eq!(crowded, AskError::Crowded(short));
        assert!(!crowded.is_lost_contact(), "the agent is there");
    }

    #[test]
    fn what_is_streamed_says_nothing_of_a_leader() {
        for (backend, leader, expected) in [
            (None, Some("true"), Some(true)),
            (None, Some("false"), Some(false)),
            (Some("blocking-query"), Some("false"), Some(false)),
            (Some("streaming"), Some("false"), None),
            (None, None, None),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [
                ("x-consul-query-backend", backend),
                ("x-consul-knownleader", leader),
            ] {
                if let Some(value) = value {
                    headers.insert(name, HeaderValue::from_static(value));
                }
            }
            assert_eq!(known_leader(&headers), expected, "{backend:?} {leader:?}");
        }
    }

    /// Answers each question of a connection after a moment.
    async fn answer(mut stream: TcpStream, open: Arc<Open>) {
        let now = open.now.fetch_add(1, Ordering::SeqCst) + 1;
        open.most.fetch_max(now, Ordering::SeqCst);
        let mut question = [0; 4096];
        while stream
            .read(&mut question)
            .await
            .is_ok_and(|count| count > 0)
        {
            sleep(Duration::from_millis(1)).await;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]";
            if stream.write_all(answer).await.is_err() {
                break;
            }
        }
        open.now.fetch_sub(1, Ordering::SeqCst);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn there_are_never_more_sockets_than_allowed() {
        const ASKING: usize = 4 * SOCKETS;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let open = Arc::<Open>::default();
        let served = Arc::clone(&open);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&served)));
            }
        });
        let address = address.parse().unwrap();
        let client = Client::new(&address, TokenSource::None, TlsFiles::default(), 1).unwrap();
        let asking = (0..ASKING).map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..100 {
                    client.get(0, "/", Duration::from_secs(20)).await.unwrap();
                }
            })
        });
        for asked in asking.collect::<Vec<_>>() {
            asked.await.unwrap();
        }
        let most = open.most.load(Ordering::SeqCst);
        assert!(most <= SOCKETS, "{most} sockets");
    }
}
