//! Processes in containers: `exec` over WebSocket, as servers since Kubernetes 1.30 speak it: `v5.channel.k8s.io`
//! (KEP-4006; `pkg/util/remotecommand/constants.go` of apimachinery).

use std::{process, process::Stdio, sync::Arc, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::{HeaderMap, Request, body::Incoming, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{ChildStdin, Command},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};

use super::{Shared, query::query};

/// Name of the protocol.
pub(super) const PROTOCOL: &str = "v5.channel.k8s.io";

/// Channels: the first byte of each message.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// Its second byte names the channel that ends.
const CLOSE: u8 = 255;

/// Time that a process has to end by itself after its client.
const END: Duration = Duration::from_secs(5);

/// Makes a process of a command line, in place of a container.
pub(super) type Container = Arc<dyn Fn(&[String]) -> process::Command + Send + Sync>;

/// A request to run something.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) container: String,
    command: Vec<String>,
}

impl Asked {
    /// Reads `/api/v1/namespaces/NAMESPACE/pods/POD/exec` and its query.
    pub(super) fn of(path: &str, parameters: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let ["api", "v1", "namespaces", namespace, "pods", pod, "exec"] = &*parts else {
            return None;
        };
        let mut asked = Self {
            namespace: (*namespace).to_owned(),
            pod: (*pod).to_owned(),
            container: String::new(),
            command: Vec::new(),
        };
        for (key, value) in query(parameters) {
            match &*key {
                "command" => asked.command.push(value),
                "container" => asked.container = value,
                _ => {}
            }
        }
        Some(asked)
    }
}

/// Returns the answer to the client's key, if the request is one for this protocol.
pub(super) fn accepted(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is = |name, wanted: &str| {
        text(name).is_some_and(|found| {
            let mut words = found.split(',').map(str::trim);
            words.any(|word| word.eq_ignore_ascii_case(wanted))
        })
    };
    let is_right = is("upgrade", "websocket")
        && is("connection", "upgrade")
        && is("sec-websocket-version", "13")
        && is("sec-websocket-protocol", PROTOCOL);
    let key = text("sec-websocket-key").filter(|_| is_right)?;
    Some(derive_accept_key(key.as_bytes()))
}

/// Runs the command once the connection has changed its protocol.
pub(super) fn run(
    request: Request<Incoming>,
    asked: Asked,
    container: Container,
    shared: Arc<Shared>,
) {
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else {
            return;
        };
        let stream =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        let mut command = Command::from(container(&asked.command));
        serve(&mut command, stream, &shared).await;
    });
}

async fn serve(
    command: &mut Command,
    mut stream: WebSocketStream<TokioIo<Upgraded>>,
    shared: &Shared,
) {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            // As runc reports it.
            let text =
                format!("error executing command in container: OCI runtime exec failed: {error}");
            return end(&mut stream, &failed(&text, "InternalError", None)).await;
        }
    };
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return;
    };
    let (input, waiting) = unbounded_channel();
    tokio::spawn(write(waiting, stdin));
    if pass_on(&mut stream, input, stdout, stderr).await {
        let status = match child.wait().await.ok().and_then(|status| status.code()) {
            Some(0) => json!({ "metadata": {}, "status": "Success" }),
            code => {
                let code = code.unwrap_or(137).to_string();
                let text =
                    format!("command terminated with non-zero exit code: exit status {code}");
                failed(&text, "NonZeroExitCode", Some(&code))
            }
        };
        end(&mut stream, &status).await;
    } else if timeout(END, child.wait()).await.is_err() {
        // Its input is closed, and a real server does no more.
        *shared.stuck() += 1;
    }
}

/// Passes on input and output. Returns whether the process' output has ended, and not the client.
async fn pass_on(
    stream: &mut WebSocketStream<TokioIo<Upgraded>>,
    input: UnboundedSender<Vec<u8>>,
    mut stdout: impl AsyncRead + Unpin,
    mut stderr: impl AsyncRead + Unpin,
) -> bool {
    let mut input = Some(input);
    let (mut out, mut error) = (vec![STDOUT; 32 << 10], vec![STDERR; 4 << 10]);
    let (mut has_out, mut has_error) = (true, true);
    // A server's first message is empty: the connection is there.
    if stream.send(Message::binary(vec![STDOUT])).await.is_err() {
        return false;
    }
    while has_out || has_error {
        let message = tokio::select! {
            message = stream.next() => match message {
                Some(Ok(Message::Binary(bytes))) => {
                    match &bytes[..] {
                        [STDIN, data @ ..] => {
                            if let Some(input) = &input {
                                drop(input.send(data.to_vec()));
                            }
                        }
                        [CLOSE, STDIN] => input = None,
                        _ => {}
                    }
                    continue;
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return false,
                Some(Ok(_)) => continue,
            },
            read = stdout.read(&mut out[1..]), if has_out => {
                let length = read.unwrap_or(0);
                has_out = length > 0;
                out[..=length].to_vec()
            }
            read = stderr.read(&mut error[1..]), if has_error => {
                let length = read.unwrap_or(0);
                has_error = length > 0;
                error[..=length].to_vec()
            }
        };
        if message.len() > 1 && stream.send(Message::binary(message)).await.is_err() {
            return false;
        }
    }
    true
}

/// Writes what there is to a process, and closes its input at the end.
async fn write(mut waiting: UnboundedReceiver<Vec<u8>>, mut stdin: ChildStdin) {
    while let Some(data) = waiting.recv().await {
        if stdin.write_all(&data).await.is_err() {
            return;
        }
    }
}

/// Ends the connection with a status.
async fn end(stream: &mut WebSocketStream<TokioIo<Upgraded>>, status: &Value) {
    let mut message = vec![STATUS];
    message.extend(status.to_string().into_bytes());
    // The client may have gone.
    drop(stream.send(Message::binary(message)).await);
    drop(stream.close(None).await);
}

fn failed(message: &str, reason: &str, code: Option<&str>) -> Value {
    let mut status = json!({
        "metadata": {}, "status": "Failure", "message": message, "reason": reason,
    });
    if let Some(code) = code {
        status["details"] = json!({ "causes": [{ "reason": "ExitCode", "message": code }] });
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_container_and_a_command() {
        let path = "/api/v1/namespaces/kube-system/pods/shunt-x/exec";
        let asked = Asked::of(
            path,
            "command=%2Fshunt&command=proxy&container=agent&stdin=true",
        );
        let expected = Asked {
            namespace: "kube-system".to_owned(),
            pod: "shunt-x".to_owned(),
            container: "agent".to_owned(),
            command: vec!["/shunt".to_owned(), "proxy".to_owned()],
        };
        assert_eq!(asked, Some(expected));
        assert_eq!(Asked::of("/api/v1/namespaces/a/pods/b", ""), None);
    }
}
