//! Programs of other projects, as processes of the node.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, UdpSocket},
    path::Path,
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{has_program, patience};
use socket2::SockRef;

use crate::host_world::{HostWorld, service, with_node_port};

/// Port of the servers of this file.
const SERVERS: u16 = 9000;

/// Time that a server waits for a request: longer than the programs do.
const PATIENCE: Duration = Duration::from_secs(10);

/// A world whose services have one backend, pod-b: `web` its servers of the tests, and `own` those
/// of this file.
fn world() -> Option<HostWorld> {
    let mut host = HostWorld::new("host")?;
    let pod = host.world.sandbox.pod("pod-b");
    let own = [pod.at(SERVERS), pod.at_v6(SERVERS)];
    let tests = [host.world.backend("pod-b"), host.world.backend_v6("pod-b")];
    host.know_nodes();
    host.update(&[
        with_node_port(service("own", "10.96.0.10", &own), 30080),
        service("web", "10.96.0.11", &tests),
    ]);
    Some(host)
}

/// Returns the output of the program, run as a process of the node.
fn run(host: &HostWorld, program: &str, arguments: &[&str]) -> String {
    let node = host.world.sandbox.node();
    let said = host.cgroup.run(node, Path::new(program), arguments);
    said.unwrap()
}

#[test]
fn curl_gets_a_page_of_a_service() {
    if !has_program("curl") {
        return;
    }
    let Some(host) = world() else { return };
    let urls = [
        "http://10.96.0.10/",
        "http://[fd00:10:96::10]/",
        "http://localhost:30080/",
    ];
    let listener = host.world.sandbox.pod("pod-b").namespace();
    let listener = listener.enter(|| TcpListener::bind(("::", SERVERS)).unwrap());
    SockRef::from(&listener)
        .set_read_timeout(Some(patience(PATIENCE)))
        .unwrap();
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            for _ in urls {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    request.push(byte[0]);
                }
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npage: ")
                    .unwrap();
            }
        });
        for (url, peer) in urls
            .into_iter()
            .zip(["10.96.0.10 80", "fd00:10:96::10 80", "::1 30080"])
        {
            let format = "%{remote_ip} %{remote_port}";
            let said = run(
                &host,
                "curl",
                &["-sS", "--max-time", "5", "-w", format, url],
            );
            // It may take either address of localhost.
            let same = said.replace("127.0.0.1", "::1");
            assert_eq!(same, format!("page: {peer}"), "{url}");
        }
        server.join().unwrap();
    });
    assert_eq!(host.count("connection"), 0, "no packet is translated");
}

#[test]
fn curl_is_refused_at_once_by_a_service_without_a_backend() {
    if !has_program("curl") {
        return;
    }
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    host.update(&[service("none", "10.96.0.10", &[])]);
    let node = host.world.sandbox.node();
    let arguments = ["-sS", "--max-time", "5", "http://10.96.0.10/"];
    let refused = host
        .cgroup
        .run(node, Path::new("curl"), &arguments)
        .unwrap_err();
    // 7: failed to connect; 28 would be that it has waited.
    assert!(refused.to_string().contains("exit status: 7"), "{refused}");
    assert_eq!(host.count("socket_reject"), 1);
}

#[test]
fn asyncio_of_python_sees_the_frontends() {
    if !has_program("python3") {
        return;
    }
    let Some(host) = world() else { return };
    let said = run(&host, "python3", &["-c", ASYNCIO]);
    let said: Value = serde_json::from_str(&said).unwrap();
    let expected = json!({
        "stream": ["10.96.0.11", 80, "pod-b", "hello"],
        "stream_v6": ["fd00:10:96::11", 80, "pod-b", "hello"],
        "connected": ["10.96.0.11", 80, "10.96.0.11", 80, "pod-b"],
        "unconnected": ["10.96.0.11", 80, "pod-b"],
    });
    assert_eq!(said, expected);
}

/// Asks a service by streams and by datagrams; prints the pod that answered, by its answer.
const ASYNCIO: &str = r"
import asyncio, json

class Asking(asyncio.DatagramProtocol):
    def __init__(self, answer):
        self.answer = answer
    def datagram_received(self, data, sender):
        self.answer.set_result((data, sender))
    def error_received(self, error):
        self.answer.set_exception(error)

async def stream(address):
    reader, writer = await asyncio.open_connection(address, 80)
    peer = writer.get_extra_info('peername')
    writer.write(b'echo 5\nhello')
    name = (await reader.readline()).split()[0].decode()
    echo = (await reader.readexactly(5)).decode()
    writer.close()
    await writer.wait_closed()
    return [*peer[:2], name, echo]

async def datagram(loop, to, **how):
    answer = loop.create_future()
    transport, _ = await loop.create_datagram_endpoint(lambda: Asking(answer), **how)
    transport.sendto(b'hello', to)
    data, sender = await asyncio.wait_for(answer, 5)
    peer = transport.get_extra_info('peername') or ()
    transport.close()
    return [*peer, *sender, data.split()[0].decode()]

async def main():
    loop = asyncio.get_running_loop()
    frontend = ('10.96.0.11', 80)
    print(json.dumps({
        'stream': await stream('10.96.0.11'),
        'stream_v6': await stream('fd00:10:96::11'),
        'connected': await datagram(loop, None, remote_addr=frontend),
        'unconnected': await datagram(loop, frontend, local_addr=('0.0.0.0', 0)),
    }))

asyncio.run(main())
";

#[test]
fn nc_talks_to_a_service() {
    if !has_program("nc") {
        return;
    }
    let Some(host) = world() else { return };
    for (options, frontend) in [
        ("-w2", "10.96.0.11"),
        ("-uw2", "10.96.0.11"),
        ("-w2", "fd00:10:96::11"),
    ] {
        let script = format!("printf 'bye 0\\n' | nc {options} {frontend} 80");
        let said = run(&host, "sh", &["-c", &script]);
        assert!(said.starts_with("pod-b "), "{options} {frontend}: {said:?}");
    }
}

/// The answer of a DNS server: the question, and after it the address 192.0.2.1 for it (RFC 1035, 4.1).
fn dns_answer(question: &[u8]) -> Vec<u8> {
    // The header, the name, type and class; what may follow is of EDNS.
    let name = question[12..].iter().position(|byte| *byte == 0).unwrap();
    let mut answer = question[..12 + name + 5].to_vec();
    // A response to a query, authoritative, without an error; one question, one answer, nothing else.
    answer[2..12].copy_from_slice(&[0x85, 0, 0, 1, 0, 1, 0, 0, 0, 0]);
    // The name of the question, A, IN, 60 seconds, 4 bytes.
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    answer
}

#[test]
fn dig_believes_the_answer_of_a_service() {
    if !has_program("dig") {
        return;
    }
    let Some(host) = world() else { return };
    let socket = host.world.sandbox.pod("pod-b").namespace();
    let socket = socket.enter(|| UdpSocket::bind(("::", SERVERS)).unwrap());
    socket.set_read_timeout(Some(patience(PATIENCE))).unwrap();
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            for _ in 0..3 {
                let mut question = [0; 512];
                let (length, from) = socket.recv_from(&mut question).unwrap();
                socket
                    .send_to(&dns_answer(&question[..length]), from)
                    .unwrap();
            }
        });
        // It takes an answer from no address but the one that it has sent to.
        for (server, port) in [
            ("10.96.0.10", "80"),
            ("fd00:10:96::10", "80"),
            ("127.0.0.1", "30080"),
        ] {
            let server = format!("@{server}");
            let said = run(
                &host,
                "dig",
                &[&server, "-p", port, "+short", "+tries=1", "web.example."],
            );
            assert_eq!(said.trim(), "192.0.2.1", "{server}");
        }
        server.join().unwrap();
    });
}
