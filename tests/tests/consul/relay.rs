//! A relay before Consul, which keeps from it what a test wants it not to hear.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use shunt_tests::Namespace;

/// Address of Consul.
const CONSUL: &str = "127.0.0.1:8500";

/// Address of the relay.
const HERE: &str = "127.0.0.1:8599";

type Rule = Box<dyn Fn(&str) -> bool + Send>;

/// A relay in a namespace. It goes on until the test ends.
pub(crate) struct Relay {
    rule: Arc<Mutex<Rule>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    /// Passes those questions on whose path `passes`; connections with others are closed without an answer.
    pub(crate) fn start(
        namespace: &Namespace,
        passes: impl Fn(&str) -> bool + Send + 'static,
    ) -> Self {
        let rule: Arc<Mutex<Rule>> = Arc::new(Mutex::new(Box::new(passes)));
        let open = Arc::<Mutex<Vec<TcpStream>>>::default();
        let address: SocketAddr = HERE.parse().unwrap();
        let listener = namespace.enter(|| TcpListener::bind(address)).unwrap();
        let relay = Self { rule, open };
        let (rule, open) = (Arc::clone(&relay.rule), Arc::clone(&relay.open));
        namespace.enter(|| {
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let (rule, open) = (Arc::clone(&rule), Arc::clone(&open));
                    thread::spawn(move || {
                        open.lock().unwrap().extend(stream.try_clone());
                        // Either end may go at any time.
                        drop(pass(stream, &rule));
                    });
                }
            });
        });
        relay
    }

    /// Returns the environment of an agent that uses the relay.
    pub(crate) fn environment() -> Vec<(String, String)> {
        vec![("CONSUL_HTTP_ADDR".to_owned(), HERE.to_owned())]
    }

    /// Passes on what `passes` selects from now on. All that is open is closed.
    pub(crate) fn change(&self, passes: impl Fn(&str) -> bool + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(passes);
        for stream in self.open.lock().unwrap().drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Passes everything on from now on.
    pub(crate) fn pass_all(&self) {
        *self.rule.lock().unwrap() = Box::new(|_| true);
    }
}

/// Passes one question on, and its answer back.
fn pass(mut client: TcpStream, rule: &Mutex<Rule>) -> std::io::Result<()> {
    let mut question = Vec::new();
    let (head, length) = loop {
        let mut piece = [0; 4096];
        let count = client.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        question.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&question);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let lines = head.to_lowercase();
        let mut lengths = lines
            .lines()
            .filter_map(|line| line.strip_prefix("content-length: "));
        let length: usize = lengths.next().map_or(0, |length| length.parse().unwrap());
        if body.len() >= length {
            break (head.to_owned(), length);
        }
    };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    if !rule.lock().unwrap()(&path) {
        return client.shutdown(Shutdown::Both);
    }
    let mut consul = TcpStream::connect(CONSUL)?;
    // One question a connection.
    let body = &question[question.len() - length..];
    let head = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    consul.write_all(format!("{head}\r\n\r\n").as_bytes())?;
    consul.write_all(body)?;
    std::io::copy(&mut consul, &mut client)?;
    client.shutdown(Shutdown::Both)
}
