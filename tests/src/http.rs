//! One question over HTTP, for what answers it to the point.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::patience::patience;

/// Time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// An HTTP answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The header's lines, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl HttpAnswer {
    /// The value of a header, named in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(known, _)| known == name)?;
        Some(value)
    }
}

/// Asks for a path with these further header lines (`Name: value`), from the namespace that the thread
/// is in.
///
/// # Errors
///
/// If there is no listener, or the answer is none.
pub fn http_get(address: SocketAddr, path: &str, headers: &[&str]) -> Result<HttpAnswer> {
    let host = format!("Host: {address}");
    http_ask(
        connected(address)?,
        "GET",
        path,
        &[&[&*host], headers].concat(),
        "",
    )
}

/// Sends a request over a connection, with these header lines (`Name: value`) and this body, and reads
/// the answer to its end.
///
/// # Errors
///
/// The connection breaks, or the answer is none.
pub fn http_ask(
    stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> Result<HttpAnswer> {
    let begin = format!("{method} {path} HTTP/1.1\r\nConnection: close");
    exchange(stream, &begin, headers, body)
}

/// Sends a request with this method and a body, and waits for an answer of whatever length.
///
/// # Errors
///
/// As [`http_get`].
pub fn http_send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> Result<HttpAnswer> {
    // An answer to an older client comes in one piece.
    let begin = format!("{method} {path} HTTP/1.0\r\nHost: {address}");
    exchange(connected(address)?, &begin, headers, body)
}

fn connected(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, patience(PATIENCE))?;
    stream.set_read_timeout(Some(patience(PATIENCE)))?;
    Ok(stream)
}

/// Sends a request that begins so, and reads the answer to its end.
fn exchange(
    mut stream: impl Read + Write,
    begin: &str,
    headers: &[&str],
    body: &str,
) -> Result<HttpAnswer> {
    let lines: Vec<String> = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let (lines, length) = (lines.concat(), body.len());
    let request = format!("{begin}\r\nContent-Length: {length}\r\n{lines}\r\n{body}");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    parse(&answer).with_context(|| format!("no answer of HTTP: {answer:?}"))
}

fn parse(answer: &str) -> Option<HttpAnswer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(": "));
    Some(HttpAnswer {
        status,
        headers: headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect(),
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_status_headers_and_a_body() {
        let answer = parse("HTTP/1.1 503 No\r\nContent-Type: a/b\r\nX-Y: z: 1\r\n\r\nbody\r\n");
        let answer = answer.unwrap();
        assert_eq!(answer.status, 503);
        assert_eq!(answer.header("content-type"), Some("a/b"));
        assert_eq!(answer.header("x-y"), Some("z: 1"));
        assert_eq!(answer.body, "body\r\n");
        assert_eq!(parse("HTTP/1.1 200"), None);
    }
}
