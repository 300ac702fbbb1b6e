//! A gRPC connection to an agent, through its pod.

use std::{
    io::{self, Cursor},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{AttachParams, AttachedProcess},
};
use shunt_api::view::Malformed;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, join},
    task::JoinHandle,
    time::timeout,
};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint, Uri},
};
use tower::service_fn;

use crate::{
    cluster::{CONTAINER, reason},
    process::{End, UntilEnd},
};

/// Path of the agent's binary in its image.
const BINARY: &str = "/shunt";

/// Bytes that wait on the way, in each direction.
const BUFFER: usize = 256 << 10;

/// Bytes of an error's text that are kept.
const KEPT: usize = 4096;

/// Time for an error's text that comes after the end of the connection.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Begin of the error of a `shunt` without the command `proxy`.
const NO_PROXY: &str = "unrecognized subcommand";

/// A failed call.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The agent, or the connection to it, has returned an error.
    Status(Status),
    /// The answer makes no sense.
    Malformed(Malformed),
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// A connection to an agent. Dropping it ends the process in the pod.
pub(crate) struct Tunnel {
    pub(crate) channel: Channel,
    /// Text of the error with which the process has ended, if there is any.
    last_words: Option<JoinHandle<String>>,
    _process: AttachedProcess,
}

impl Tunnel {
    /// Runs `shunt proxy` in the pod, and speaks gRPC with it.
    ///
    /// # Errors
    ///
    /// The reason, for people.
    pub(crate) async fn open(
        client: &Client,
        namespace: &str,
        pod: &str,
        socket: Option<&str>,
    ) -> Result<Self, String> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let mut command = vec![BINARY, "proxy"];
        command.extend(socket.iter().flat_map(|socket| ["--socket", socket]));
        let params = AttachParams::default()
            .container(CONTAINER)
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .max_stdin_buf_size(BUFFER)
            .max_stdout_buf_size(BUFFER);
        let mut process = pods
            .exec(pod, command, &params)
            .await
            .map_err(|error| format!("cannot run `shunt proxy` in {pod}: {}", reason(&error)))?;
        let streams = (process.stdout(), process.stdin(), process.stderr());
        let (Some(output), Some(input), Some(error)) = streams else {
            return Err(format!("the process in {pod} has no streams"));
        };
        let status = process.take_status();
        let end = End::of(async { status?.await });
        let last_words = tokio::spawn(last_words(UntilEnd::new(error, &end), end.clone()));
        let mut output = UntilEnd::new(output, &end);
        // The agent speaks first. Until then nothing is sent: if the process has ended at once, kube would fail to
        // send, and lose the reason.
        let mut begin = vec![0; KEPT];
        let length = output.read(&mut begin).await.unwrap_or(0);
        if length == 0 {
            let text = last_words.await.unwrap_or_default();
            let line = first_line(&text);
            return Err(line.unwrap_or_else(|| format!("`shunt proxy` in {pod} has ended at once")));
        }
        begin.truncate(length);
        let output = Cursor::new(begin).chain(output);
        let mut stream = Some(TokioIo::new(join(output, input)));
        let connector = service_fn(move |_: Uri| {
            // There is one stream. Another would need another process.
            let taken = stream.take();
            async move { taken.ok_or_else(|| io::Error::other("the connection has ended")) }
        });
        // The name means nothing: the connector has the stream already.
        let channel = Endpoint::from_static("http://agent")
            .connect_with_connector(connector)
            .await
            .map_err(|error| format!("no connection through {pod}: {error}"))?;
        Ok(Self {
            channel,
            last_words: Some(last_words),
            _process: process,
        })
    }

    /// Returns the reason of a fault, for people.
    pub(crate) async fn explain(&mut self, fault: Fault) -> String {
        let status = match fault {
            Fault::Malformed(error) => {
                return format!(
                    "the answer makes no sense (is the agent of this version?): {error}"
                );
            }
            Fault::Status(status) if status.code() == Code::Unimplemented => {
                return "the agent is of an earlier version, and does not have this".to_owned();
            }
            Fault::Status(status) => status,
        };
        let is_broken = matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal
        );
        if let Some(reading) = self.last_words.take().filter(|_| is_broken)
            && let Ok(Ok(text)) = timeout(LAST_WORDS, reading).await
            && let Some(line) = first_line(&text)
        {
            return line;
        }
        status.message().to_owned()
    }
}

/// Reads the error of a process to its end, so that the process never waits. If it has written none, the text is that
/// of the status with which it has ended.
async fn last_words(mut error: impl AsyncRead + Unpin, end: End) -> String {
    let mut text = Vec::new();
    let mut piece = vec![0; KEPT];
    while let Ok(length @ 1..) = error.read(&mut piece).await {
        let room = KEPT - text.len();
        text.extend_from_slice(&piece[..length.min(room)]);
    }
    if text.is_empty() {
        return end.wait().await.unwrap_or_default();
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the first line of a process' error, in the words of this program.
fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line = line.strip_prefix("error: ").unwrap_or(line);
    Some(if line.starts_with(NO_PROXY) {
        "the agent is of an earlier version, without `shunt proxy`".to_owned()
    } else {
        line.to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_first_line_of_the_processs_error() {
        assert_eq!(first_line("\n \n"), None);
        assert_eq!(
            first_line("error: no agent answers at /a: No such file\nmore"),
            Some("no agent answers at /a: No such file".to_owned())
        );
        let old = "error: unrecognized subcommand 'proxy'\n\nUsage: shunt <COMMAND>\n";
        let text = first_line(old).unwrap();
        assert!(text.contains("earlier version"), "{text}");
    }
}
