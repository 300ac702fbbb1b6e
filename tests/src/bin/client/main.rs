//! A client as a process of its own, for what depends on who the process is and where it runs. Sends
//! one request of the tests' protocol and prints what came back as a line of JSON.

#![forbid(unsafe_code)]

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use shunt_tests::{Answer, Target};

/// How many bytes a request has.
const REQUEST: usize = 100;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A reply is one line.
const LONGEST_REPLY: usize = 512;

/// Asks one server once.
#[derive(Debug, Parser)]
struct Options {
    /// How.
    #[arg(value_enum)]
    way: Way,
    /// Whom: an address and a port.
    target: SocketAddr,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Way {
    /// A TCP connection
    Tcp,
    /// A connected UDP socket
    Udp,
    /// A UDP socket that is not connected
    Sendto,
}

fn main() -> Result<()> {
    let Options { way, target } = Options::parse();
    let said = match way {
        Way::Tcp => {
            let mut connection = Target::tcp(target).within(PATIENCE).connect()?;
            let answer = connection.echo(REQUEST)?;
            said(&answer, connection.peer()?)
        }
        Way::Udp => {
            let flow = Target::udp(target).within(PATIENCE).flow()?;
            said(&flow.ask(REQUEST)?, flow.peer()?)
        }
        Way::Sendto => send_to(target)?,
    };
    println!("{said}");
    Ok(())
}

/// Who answered, whom that saw, and whom our socket takes for the other end.
fn said(answer: &Answer, other_end: SocketAddr) -> Value {
    json!({ "name": answer.name, "peer": answer.peer, "client": answer.client, "from": other_end })
}

fn send_to(target: SocketAddr) -> Result<Value> {
    let socket = match target {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    }?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send_to(&[b'x'; REQUEST], target)?;
    let mut buffer = [0; LONGEST_REPLY];
    let (size, from) = socket.recv_from(&mut buffer)?;
    let line = String::from_utf8_lossy(&buffer[..size]);
    let name = line.split_whitespace().next().context("an empty reply")?;
    Ok(json!({ "name": name, "from": from }))
}
