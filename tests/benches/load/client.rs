//! Clients as processes of their own, each in a cgroup: that is what decides whether its sockets are
//! translated, and a thread cannot change it alone.

use std::{
    env,
    io::{self, Write as _},
    net::SocketAddrV4,
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;
use shunt_tests::{Cgroup, Namespace};

use super::{Exchange, Served, Server, Times, ask, pin, play};

/// The first argument of a process that asks, which is this program once more.
const ASK: &str = "ask-load";

/// The place of a client's process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client<'a> {
    pub(crate) cgroup: &'a Cgroup,
    pub(crate) namespace: &'a Namespace,
}

impl Client<'_> {
    /// Does `exchange` with `target` `times` times, which `served` answers. Half of the exchanges took
    /// at most the first number of nanoseconds, and 99 of 100 at most the second.
    ///
    /// # Errors
    ///
    /// When anything fails on either side, or nothing comes for a long time.
    pub(crate) fn run(
        self,
        exchange: Exchange,
        times: usize,
        target: SocketAddrV4,
        served: &Served,
    ) -> Result<(f64, f64)> {
        let Self { cgroup, namespace } = self;
        let warm_up = exchange.warm_up(times);
        let this = env::current_exe().context("cannot find this program")?;
        let value = exchange.to_possible_value();
        let name = value.as_ref().map_or("", |value| value.get_name());
        let (warm, counted) = (warm_up.to_string(), times.to_string());
        let arguments = [ASK, name, &warm, &counted, &target.to_string()];
        let server = Server::start(exchange, times + warm_up, served)?;
        let asked = cgroup.run(namespace, &this, &arguments);
        // A server whose client failed waits for it for a while: the client's error is the reason.
        let answered = server.end();
        let said = asked.with_context(|| format!("the client of {target} in {namespace:?}"))?;
        answered.with_context(|| format!("the server of {target}"))?;
        let (p50, p99) = said
            .trim()
            .split_once(' ')
            .context("a client said nothing")?;
        Ok((p50.parse()?, p99.parse()?))
    }
}

/// Asks, if that is what this process was started for.
pub(crate) fn ask_if_told() -> Option<ExitCode> {
    play(ASK, |arguments| {
        let [exchange, warm_up, times, target] = arguments else {
            bail!("not what, how often and whom");
        };
        let exchange = Exchange::from_str(exchange, false).map_err(io::Error::other)?;
        pin()?;
        let times = Times::with_room(warm_up.parse()?, times.parse()?);
        let (p50, p99) = ask(exchange, target.parse()?, times)?.p50_and_p99();
        writeln!(io::stdout(), "{p50} {p99}")?;
        Ok(())
    })
}
