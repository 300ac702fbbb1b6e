//! One look at a workload: a connection, or a request.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
};

use http_body_util::Empty;
use hyper::{
    Request, StatusCode, Uri,
    body::Bytes,
    client::conn::http1::handshake,
    header::{ACCEPT, CONNECTION, HOST, HeaderMap, HeaderValue, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use nix::errno::Errno;
use tokio::{net::TcpStream, time::timeout};

use crate::objects::readiness_probe::{Action, Probe};

/// As what a request introduces itself.
const AGENT: &str = concat!("shunt-probe/", env!("CARGO_PKG_VERSION"));

/// Result of a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    /// Well.
    Good,
    /// It did not answer, or not well: in which way, and what happened.
    Bad(Failure, String),
    /// There was none, for a reason that lies here. It means nothing for the workload.
    Unknown(String),
}

/// The failures of a look that users see. A user that may write a workload must not learn more of a host by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Failure {
    /// There is no connection.
    Refused,
    /// There is no answer in time.
    TimedOut,
    /// There is another answer.
    WrongStatus,
}

impl Failure {
    pub(in super::super) const fn words(self) -> &'static str {
        match self {
            Self::Refused => "the connection is refused, or cannot be made",
            Self::TimedOut => "it timed out: there is no answer in time",
            Self::WrongStatus => {
                "it has a wrong status, or none: only an HTTP status of success or redirection counts"
            }
        }
    }
}

/// Looks at this address once. A redirect is as good as an answer, and is not followed.
pub(super) async fn look(ip: IpAddr, probe: &Probe) -> Look {
    let at = SocketAddr::new(ip, probe.port.get());
    let asked = async {
        let stream = match TcpStream::connect(at).await {
            Ok(stream) => stream,
            Err(error) if is_ours(&error) => {
                return Look::Unknown(format!("cannot connect to {at}: {error}"));
            }
            Err(error) => {
                let what = format!("cannot connect to {at}: {error}");
                return Look::Bad(Failure::Refused, what);
            }
        };
        match &probe.action {
            Action::Tcp => Look::Good,
            Action::Http { path, headers } => match get(stream, at, path, headers).await {
                Ok(status) if (200..400).contains(&status.as_u16()) => Look::Good,
                Ok(status) => {
                    let what = format!("http://{at}{path} answers {status}");
                    Look::Bad(Failure::WrongStatus, what)
                }
                Err(error) => {
                    Look::Bad(Failure::WrongStatus, format!("http://{at}{path}: {error}"))
                }
            },
        }
    };
    let answer = timeout(probe.timeout, asked).await;
    answer.unwrap_or_else(|_| {
        let what = format!("no answer of {at} within {:?}", probe.timeout);
        Look::Bad(Failure::TimedOut, what)
    })
}

/// Returns whether a connection could not be made for want of something here.
fn is_ours(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(
        errno,
        Some(
            Errno::EMFILE
                | Errno::ENFILE
                | Errno::ENOBUFS
                | Errno::ENOMEM
                | Errno::EADDRNOTAVAIL
                | Errno::EACCES
                | Errno::EPERM
        )
    )
}

async fn get(
    stream: TcpStream,
    at: SocketAddr,
    path: &Uri,
    headers: &HeaderMap,
) -> hyper::Result<StatusCode> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = path.clone();
    let own = request.headers_mut();
    own.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    own.insert(ACCEPT, HeaderValue::from_static("*/*"));
    own.insert(CONNECTION, HeaderValue::from_static("close"));
    if let Ok(host) = HeaderValue::from_str(&at.to_string()) {
        own.insert(HOST, host);
    }
    for (name, value) in headers {
        own.insert(name, value.clone());
    }
    let mut answer = pin!(sender.send_request(request));
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        // With the connection's end, the answer is there, or why there is none.
        _ = connection => answer.await,
    };
    Ok(answer?.status())
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU16, time::Duration};

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        runtime::Builder,
    };

    use super::*;
    use crate::objects::readiness_probe::Thresholds;

    fn probe(action: Action, port: u16) -> Probe {
        Probe {
            action,
            port: NonZeroU16::new(port).unwrap(),
            period: Duration::from_secs(1),
            timeout: Duration::from_millis(300),
            thresholds: Thresholds {
                success: 1,
                failure: 1,
            },
        }
    }

    /// Looks at a server that answers with this, and returns its request, too.
    async fn ask(answer: &'static str, headers: &[(&'static str, &'static str)]) -> (Look, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = vec![0; 4096];
            let length = stream.read(&mut asked).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            if answer.is_empty() {
                // It answers nothing at all.
                stream.read_to_end(&mut Vec::new()).await.unwrap();
            }
            String::from_utf8_lossy(&asked[..length]).into_owned()
        });
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        let action = Action::Http {
            path: "/ready?full=1".parse().unwrap(),
            headers: headers.collect(),
        };
        let found = look(at.ip(), &probe(action, at.port())).await;
        (found, served.await.unwrap())
    }

    #[test]
    fn an_answer_is_good_by_its_status() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for (answer, expected) in [
                ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", None),
                ("HTTP/1.0 204 No Content\r\n\r\n", None),
                ("HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n", None),
                ("HTTP/1.1 404 Not Found\r\n\r\n", Some(Failure::WrongStatus)),
                ("HTTP/1.1 503 Busy\r\n\r\n", Some(Failure::WrongStatus)),
                ("SSH-2.0-OpenSSH\r\n", Some(Failure::WrongStatus)),
                ("", Some(Failure::TimedOut)),
            ] {
                let (found, asked) = ask(answer, &[]).await;
                let failure = match &found {
                    Look::Good => None,
                    Look::Bad(failure, _) => Some(*failure),
                    Look::Unknown(what) => panic!("{answer:?}: {what}"),
                };
                assert_eq!(failure, expected, "{answer:?}: {found:?}");
                assert!(
                    asked.starts_with("GET /ready?full=1 HTTP/1.1\r\n"),
                    "{asked}"
                );
                assert!(asked.contains("host: 127.0.0.1:"), "{asked}");
            }
            let host = ("host", "db.example");
            let (_, asked) = ask("HTTP/1.1 200 OK\r\n\r\n", &[host]).await;
            assert!(asked.contains("host: db.example\r\n"), "{asked}");
            assert!(!asked.contains("127.0.0.1"), "{asked}");
        });
    }

    #[test]
    fn a_connection_is_good_and_none_is_not() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            let probe = probe(Action::Tcp, at.port());
            assert_eq!(look(at.ip(), &probe).await, Look::Good);
            drop(listener);
            let found = look(at.ip(), &probe).await;
            assert!(matches!(found, Look::Bad(Failure::Refused, _)), "{found:?}");
        });
    }

    #[test]
    fn what_is_wanting_here_says_nothing_of_the_workload() {
        for (errno, is_unknown) in [
            (Errno::EMFILE, true),
            (Errno::EPERM, true),
            (Errno::EADDRNOTAVAIL, true),
            (Errno::ECONNREFUSED, false),
            (Errno::EHOSTUNREACH, false),
            (Errno::ENETUNREACH, false),
            (Errno::ETIMEDOUT, false),
        ] {
            assert_eq!(is_ours(&errno.into()), is_unknown, "{errno}");
        }
    }
}
