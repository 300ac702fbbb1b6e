//! Servers as processes of their own, as pods are: each exchange has another address space on its other side.

use std::{
    env,
    io::{self, Write as _},
    net::{TcpListener, UdpSocket},
    os::fd::{AsFd as _, OwnedFd},
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;

use super::{Exchange, Served, bulk, pin, play, tcp, udp, user_time};

/// The first argument of a process that serves, which is this program once more.
const SERVE: &str = "serve-load";

/// A process that serves the socket that it finds as its standard input.
pub(super) struct Server(Child);

impl Server {
    /// Starts one for so many exchanges.
    pub(super) fn start(exchange: Exchange, count: usize, served: &Served) -> Result<Self> {
        let Served { tcp, udp } = served;
        let socket: OwnedFd = match exchange {
            Exchange::Datagram | Exchange::SendTo | Exchange::NewFlow => udp.as_fd(),
            _ => tcp.as_fd(),
        }
        .try_clone_to_owned()?;
        let this = env::current_exe().context("cannot find this program")?;
        let value = exchange.to_possible_value();
        let name = value.as_ref().map_or("", |value| value.get_name());
        let mut command = Command::new(this);
        command
            .args([SERVE, name, &count.to_string()])
            .stdin(socket)
            .stdout(Stdio::piped());
        Ok(Self(command.spawn().context("cannot start a server")?))
    }

    /// Waits for its end; returns the time that it has spent outside the kernel.
    pub(super) fn end(self) -> Result<Duration> {
        let output = self
            .0
            .wait_with_output()
            .context("cannot wait for a server")?;
        if !output.status.success() {
            bail!("a server failed: {}", output.status);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let microseconds = text.trim().parse().context("a server said nothing")?;
        Ok(Duration::from_micros(microseconds))
    }
}

/// Serves, if that is what this process was started for.
pub(crate) fn serve_if_told() -> Option<ExitCode> {
    play(SERVE, serve)
}

fn serve(arguments: &[String]) -> Result<()> {
    let [exchange, count] = arguments else {
        bail!("not what and how often");
    };
    let exchange = Exchange::from_str(exchange, false).map_err(io::Error::other)?;
    let count: usize = count.parse()?;
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    pin()?;
    match exchange {
        Exchange::Datagram | Exchange::SendTo | Exchange::NewFlow => {
            udp::echo(&UdpSocket::from(socket), count)?;
        }
        Exchange::Request => tcp::echo(&TcpListener::from(socket))?,
        Exchange::Connection => tcp::serve(&TcpListener::from(socket), count, tcp::Closes::Client)?,
        Exchange::ServerCloses => {
            tcp::serve(&TcpListener::from(socket), count, tcp::Closes::Server)?;
        }
        Exchange::Bulk => bulk::receive(&TcpListener::from(socket))?,
    }
    writeln!(io::stdout(), "{}", user_time::user_time()?.as_micros())?;
    Ok(())
}
