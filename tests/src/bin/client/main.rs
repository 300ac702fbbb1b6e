//! A client as a process of its own, for what depends on who the process is and where it runs. Sends
//! one request of the tests' protocol and prints what came back as a line of JSON.

#![forbid(unsafe_code)]

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use shunt_tests::{Answer, Target, patience};

/// Size of a request, in bytes.
const REQUEST: usize = 100;

/// Time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The pause between two of many.
const PAUSE: Duration = Duration::from_millis(1);

/// A reply is one line.
const LONGEST_REPLY: usize = 512;

/// Asks one server.
#[derive(Debug, Parser)]
struct Options {
    /// Kind of socket.
    #[arg(value_enum)]
    way: Way,
    /// Target: an address and a port.
    target: SocketAddr,
    /// Again and again, until standard input ends. Prints a line each time: `ok`, or what is wrong.
    #[arg(long)]
    repeat: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// A TCP connection
    Tcp,
    /// A connected UDP socket
    Udp,
    /// A UDP socket that is not connected
    Sendto,
}

fn main() -> Result<()> {
    let Options {
        way,
        target,
        repeat,
    } = Options::parse();
    if repeat {
        return ask_until_end(way, target);
    }
    let said = match way {
        Way::Sendto => send_to(&unconnected(target)?, target)?,
        Way::Tcp | Way::Udp => ask(way, target)?,
    };
    println!("{said}");
    Ok(())
}

/// Asks once by a new connection.
fn ask(way: Way, target: SocketAddr) -> Result<Value> {
    if way == Way::Tcp {
        let mut connection = Target::tcp(target).within(PATIENCE).connect()?;
        let answer = connection.echo(REQUEST)?;
        Ok(said(&answer, connection.peer()?))
    } else {
        let flow = Target::udp(target).within(PATIENCE).flow()?;
        Ok(said(&flow.ask(REQUEST)?, flow.peer()?))
    }
}

/// Asks again and again, by new connections or by one socket that is not connected. Each answer has to
/// come from the target.
fn ask_until_end(way: Way, target: SocketAddr) -> Result<()> {
    static ENDS: AtomicBool = AtomicBool::new(false);
    thread::spawn(|| {
        drop(io::copy(&mut io::stdin(), &mut io::sink()));
        ENDS.store(true, Ordering::Relaxed);
    });
    let socket = unconnected(target)?;
    let expected = json!(target);
    while !ENDS.load(Ordering::Relaxed) {
        let said = match way {
            Way::Sendto => send_to(&socket, target),
            Way::Tcp | Way::Udp => ask(way, target),
        };
        match said {
            Ok(said) if said["from"] == expected => println!("ok"),
            Ok(said) => println!("{said}"),
            Err(error) => println!("{error:#}"),
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Returns the name of the backend that answered, its peer, the client that it saw, and the other end of our socket.
fn said(answer: &Answer, other_end: SocketAddr) -> Value {
    json!({ "name": answer.name, "peer": answer.peer, "client": answer.client, "from": other_end })
}

/// A UDP socket for servers with an address of this family.
fn unconnected(target: SocketAddr) -> Result<UdpSocket> {
    let socket = match target {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    }?;
    socket.set_read_timeout(Some(patience(PATIENCE)))?;
    Ok(socket)
}

fn send_to(socket: &UdpSocket, target: SocketAddr) -> Result<Value> {
    socket.send_to(&[b'x'; REQUEST], target)?;
    let mut buffer = [0; LONGEST_REPLY];
    let (size, from) = socket.recv_from(&mut buffer)?;
    let line = String::from_utf8_lossy(&buffer[..size]);
    let name = line.split_whitespace().next().context("an empty reply")?;
    Ok(json!({ "name": name, "from": from }))
}
