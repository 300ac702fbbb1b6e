//! Queries the agent again and again, in a thread of its own: the screen never waits for it.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    sync::mpsc::Sender,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use shunt_api::{
    proto::{ConntrackRequest, ConntrackResponse, MonitorRequest, StatusRequest},
    view::{Connection, FrontendFilter, Status},
};
use shunt_print::output::causes;
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::{sleep, timeout},
};
use tonic::transport::Channel;

use crate::cli::{
    client::{connect, inspection, refused, understood},
    listing::{Listed, list},
    monitor::events::Events,
    stop::Stop,
    top::{sample::Sample, screen::Input},
};

/// With more connections than this they are not listed: that takes the agent longer than a look should.
const LISTED: u64 = 100_000;

/// Time that listing them may take: a large table on a busy machine takes longer, and is not waited for.
const LISTING: Duration = Duration::from_secs(2);

/// Time after which an agent counts as away until it answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// Begins to query the agent at `socket` at this interval, and sends `screen` its answers, or the reason why there are
/// none; and also that a signal is to end the process. The result takes N if events are wanted, of one connection in N.
///
/// # Errors
///
/// There is no room for a thread.
pub(super) fn start(
    socket: PathBuf,
    interval: Duration,
    screen: Sender<Input>,
) -> Result<watch::Sender<Option<u32>>> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let (watched, wanted) = watch::channel(None);
    let asking = thread::Builder::new().name("ask".to_owned());
    asking
        .spawn(move || {
            runtime.block_on(async {
                tokio::spawn(follow_signals(screen.clone()));
                tokio::spawn(follow_events(socket.clone(), wanted, screen.clone()));
                ask(&socket, interval, &screen).await;
            });
        })
        .context("cannot start a thread")?;
    Ok(watched)
}

/// Notifies the screen that the process is to end, or that the terminal has another size.
async fn follow_signals(screen: Sender<Input>) {
    let sizes = signal(SignalKind::window_change());
    let (Ok(mut sizes), Ok(mut stop)) = (sizes, Stop::listen()) else {
        return;
    };
    loop {
        let input = tokio::select! {
            Some(()) = sizes.recv() => Input::Resize,
            () = stop.wait() => Input::Stop,
        };
        if screen.send(input).is_err() {
            return;
        }
    }
}

/// Sends events to the screen for as long as they are wanted.
async fn follow_events(
    socket: PathBuf,
    mut wanted: watch::Receiver<Option<u32>>,
    screen: Sender<Input>,
) {
    loop {
        let Some(one_in) = *wanted.borrow_and_update() else {
            if wanted.changed().await.is_err() {
                return;
            }
            continue;
        };
        tokio::select! {
            told = tell_events(&socket, one_in, &screen) => {
                if let Err(error) = told
                    && screen.send(Input::NoEvents(causes(&error))).is_err()
                {
                    return;
                }
                // Unless they are not wanted any more meanwhile.
                drop(timeout(PATIENCE, wanted.changed()).await);
            }
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

async fn tell_events(socket: &Path, one_in: u32, screen: &Sender<Input>) -> Result<()> {
    let request = MonitorRequest {
        filter: None,
        sample: one_in,
        packets: false,
    };
    let mut events = Events::ask(connect(socket).await?, request).await?;
    loop {
        let (told, lost) = events.next().await?;
        if screen.send(Input::Events(told, lost)).is_err() {
            return Ok(());
        }
    }
}

/// Queries the agent until the screen has ended. A connection that has failed is made anew.
async fn ask(socket: &Path, interval: Duration, screen: &Sender<Input>) {
    let mut channel = None;
    loop {
        let Some(looked) = wait_for(look(socket, &mut channel), screen).await else {
            return;
        };
        let input = match looked {
            Ok(sample) => Input::Sample(Box::new(sample)),
            Err(error) => {
                channel = None;
                Input::Away(causes(&error))
            }
        };
        if screen.send(input).is_err() {
            return;
        }
        sleep(interval).await;
    }
}

/// Waits for a look, however long it takes: a new one would take as long. Notifies the screen of the time that has
/// passed. `None`: the screen has ended.
async fn wait_for(
    look: impl Future<Output = Result<Sample>>,
    screen: &Sender<Input>,
) -> Option<Result<Sample>> {
    let mut look = pin!(look);
    let begun = Instant::now();
    loop {
        if let Ok(looked) = timeout(PATIENCE, &mut look).await {
            return Some(looked);
        }
        let away = format!(
            "the agent has not answered for {} s",
            begun.elapsed().as_secs()
        );
        screen.send(Input::Away(away)).ok()?;
    }
}

/// One look at the agent.
async fn look(socket: &Path, channel: &mut Option<Channel>) -> Result<Sample> {
    let channel = match channel {
        Some(channel) => channel.clone(),
        None => channel.insert(connect(socket).await?).clone(),
    };
    let status = inspection(channel.clone())
        .status(StatusRequest { brief: true })
        .await
        .map_err(|status| refused(&status))?;
    let status: Status = understood(status.into_inner().try_into())?;
    let Listed { live, missing } = list(channel.clone(), FrontendFilter::default()).await?;
    let at = Instant::now();
    let used = status
        .tables
        .iter()
        .filter(|table| table.name.starts_with("conntrack"));
    let used: u64 = used.map(|table| table.used).sum();
    let connections = if used <= LISTED {
        timeout(LISTING, connections_of(channel))
            .await
            .ok()
            .transpose()?
    } else {
        None
    };
    let connections = connections.as_deref();
    Ok(Sample::of(at, status, &live, missing.len(), connections))
}

async fn connections_of(channel: Channel) -> Result<Vec<Connection>> {
    let mut pieces = inspection(channel)
        .conntrack(ConntrackRequest { filter: None })
        .await
        .map_err(|status| refused(&status))?
        .into_inner();
    let mut all = Vec::new();
    while let Some(piece) = pieces.message().await.map_err(|status| refused(&status))? {
        let ConntrackResponse { connections } = piece;
        for connection in connections {
            all.push(understood(connection.try_into())?);
        }
    }
    Ok(all)
}
