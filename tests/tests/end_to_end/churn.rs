//! Cost of the way through this node: connections that are opened, used once and closed by the
//! server first, so that its TIME_WAIT holds every port that they went on from.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use shunt_tests::{Namespace, Table, Transport, addresses};
use socket2::{Domain, Socket, Type};

use crate::{service::Service, world::World};

/// The port of a server that does nothing else.
const PORT: u16 = 9090;
/// Connections a round; the range has 28,961 ports, and a client fewer.
const CONNECTIONS: u32 = 20_000;
/// Rounds of each path, in turn.
const ROUNDS: usize = 5;
/// Threads that serve, and threads that ask.
const THREADS: u8 = 4;
/// Longer than a lost SYN takes to be sent again.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest time of an answer if no SYN had to be sent again: Linux repeats one at the earliest
/// after two ticks (`TCP_TIMEOUT_MIN`), when a backend in TIME_WAIT has refused it.
const SLOW: Duration = Duration::from_millis(8);
const MESSAGE: [u8; 100] = [7; 100];

/// Result of a round.
struct Round {
    /// Connections a second.
    rate: f64,
    /// Connections that took longer than [`SLOW`].
    slow: usize,
}

/// Serves in a namespace for as long as the process lives.
fn serve(namespace: &Namespace, at: SocketAddr) {
    namespace.enter(|| {
        let listener = Arc::new(TcpListener::bind(at).unwrap());
        for _ in 0..THREADS {
            let listener = Arc::clone(&listener);
            thread::spawn(move || {
                for stream in listener.incoming() {
                    // The client sees what is wrong.
                    drop(stream.and_then(|stream| answer(&stream)));
                }
            });
        }
    });
}

/// One request, one answer, and the first FIN.
fn answer(mut stream: &TcpStream) -> io::Result<()> {
    let mut request = MESSAGE;
    stream.read_exact(&mut request)?;
    stream.write_all(&request)
}

/// One connection.
fn ask(target: SocketAddr) -> io::Result<Duration> {
    let since = Instant::now();
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, None)?;
    socket.connect_timeout(&target.into(), PATIENCE)?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&MESSAGE)?;
    let mut reply = Vec::with_capacity(MESSAGE.len());
    stream.read_to_end(&mut reply)?;
    assert_eq!(reply, MESSAGE);
    Ok(since.elapsed())
}

/// A round; every connection must be answered.
fn round(outside: &Namespace, target: SocketAddr) -> Round {
    let begin = Instant::now();
    let slow = outside.enter(|| {
        thread::scope(|scope| {
            let threads = (0..THREADS).map(|_| {
                scope.spawn(move || {
                    let asked = (0..CONNECTIONS / u32::from(THREADS)).map(|_| ask(target).unwrap());
                    asked.filter(|took| *took > SLOW).count()
                })
            });
            let threads: Vec<_> = threads.collect();
            let slow = threads.into_iter().map(|thread| thread.join().unwrap());
            slow.sum()
        })
    });
    Round {
        rate: f64::from(CONNECTIONS) / begin.elapsed().as_secs_f64(),
        slow,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
#[ignore = "a measurement, for a machine that does nothing else"]
fn a_node_port_of_a_remote_backend_is_nearly_as_fast_as_the_routed_path() {
    let Some(mut world) = World::new() else {
        return;
    };
    let backend = SocketAddr::new(addresses::POD_D, PORT);
    serve(world.sandbox.pod("pod-d").namespace(), backend);
    let service = Service::new(Transport::Tcp).backend(backend);
    world.add(&service);
    let outside = world.sandbox.outside();
    let node_port = service.node_port().address();

    let mut table = Table::new(&[
        ">round",
        ">routed/s",
        ">NodePort/s",
        ">ratio",
        ">slow: routed",
        ">NodePort",
    ]);
    let (mut routed, mut translated) = (Vec::new(), Vec::new());
    for number in 1..=ROUNDS {
        let direct = round(outside, backend);
        let through = round(outside, node_port);
        table.row([
            number.to_string(),
            format!("{:.0}", direct.rate),
            format!("{:.0}", through.rate),
            format!("{:.2}", through.rate / direct.rate),
            direct.slow.to_string(),
            through.slow.to_string(),
        ]);
        routed.push(direct.rate);
        translated.push(through.rate);
    }
    let (routed, translated) = (median(routed), median(translated));
    let ratio = translated / routed;
    table.row([
        "median".to_owned(),
        format!("{routed:.0}"),
        format!("{translated:.0}"),
        format!("{ratio:.2}"),
        String::new(),
        String::new(),
    ]);
    println!(
        "{CONNECTIONS} connections a round: connect, request, answer, closed by the server\n\n{table}"
    );
    assert!(ratio >= 0.9, "NodePort to routed: {ratio:.2}");
}
