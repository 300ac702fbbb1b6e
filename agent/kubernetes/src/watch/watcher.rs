//! The watch of one kind of objects.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use futures_util::{AsyncBufReadExt as _, StreamExt as _};
use kube::{
    api::{ListParams, WatchParams},
    core::Request,
};
use tokio::{
    sync::mpsc::{self, error::SendError},
    time::{sleep, timeout},
};
use tracing::debug;

use crate::watch::{
    backoff::Backoff,
    client::{Access, Proof},
    error::WatchError,
    event::Event,
    item::{self, full_name},
    kind::{Kind, Selectors},
    page::Page,
    step::{List, Step},
    unreadable::Unreadables,
};

/// Number of times that a watch is refused before all are listed anew, for reasons that may be of its version.
const REFUSED: u32 = 3;

/// Number of objects of a page of a list.
const PAGE: u32 = 500;

/// Longest time for a page.
const LIST: Duration = Duration::from_mins(1);

/// Longest time for the beginning of a watch.
const ANSWER: Duration = Duration::from_secs(30);

/// Duration of a watch until the server ends it, in seconds.
const WATCH: u32 = 290;

/// Longest silence of a watch. A server reports every minute how far it is (bookmarks), so a silent one may not be
/// there any more, and a connection that was never closed would not show it.
const SILENCE: Duration = Duration::from_secs(150);

/// First wait before objects are requested again that the server does not have: a definition that is made takes a
/// moment to count. It doubles with each time that they are not there.
const ABSENT: Duration = Duration::from_secs(1);

/// The longest of these pauses.
const ABSENT_AT_MOST: Duration = Duration::from_mins(5);

/// Number of times in a row that a token that is not taken is read anew and tried at once: the one that was read may
/// have been replaced meanwhile.
const RENEWALS: u32 = 2;

/// A watch that lasts this long has worked.
const WORKED: Duration = Duration::from_secs(5);

/// Watches objects of one kind for ever.
pub(crate) struct Watcher<K: Kind, M> {
    access: Access,
    selectors: Selectors,
    /// Channel of the news, in the receiver's type.
    steps: mpsc::Sender<M>,
    message: fn(Step<K::Object>) -> M,
    backoff: Backoff,
    /// Path of the requests: there may be two versions of the objects.
    path: &'static str,
    /// Wait if there are none.
    absent: Duration,
    /// Number of requests in a row that were refused for our identity.
    refusals: u32,
    /// That of the last request.
    proof: Proof,
    unreadable: Unreadables,
}

/// The receiver is gone.
struct Unheard;

/// Why a watch ended, other than by its server or with its connection.
enum Stop {
    /// The receiver is gone.
    Unheard,
    /// The server does not know any more where we were.
    Stale,
    /// It was silent from its beginning.
    Silent,
    /// It could not begin, or has sent something else.
    Failed(WatchError),
}

impl<M> From<SendError<M>> for Unheard {
    fn from(_: SendError<M>) -> Self {
        Self
    }
}

impl From<Unheard> for Stop {
    fn from(Unheard: Unheard) -> Self {
        Self::Unheard
    }
}

impl<E: Into<WatchError>> From<E> for Stop {
    fn from(error: E) -> Self {
        match error.into() {
            error if error.is_gone() => Self::Stale,
            error => Self::Failed(error),
        }
    }
}

impl<K: Kind, M> Watcher<K, M> {
    /// Watches the objects of `selectors`, and sends news as `message` wraps it.
    pub(crate) fn new(
        access: Access,
        selectors: Selectors,
        steps: mpsc::Sender<M>,
        message: fn(Step<K::Object>) -> M,
    ) -> Self {
        Self {
            access,
            selectors,
            steps,
            message,
            backoff: Backoff::new(),
            path: K::PATH,
            absent: ABSENT,
            refusals: 0,
            proof: Proof::default(),
            unreadable: Unreadables::new(K::NAME),
        }
    }

    /// Lists and watches until the receiver is gone.
    pub(crate) async fn run(mut self) {
        while let Ok(()) = self.list_and_follow().await {}
    }

    async fn list_and_follow(&mut self) -> Result<(), Unheard> {
        match self.list().await {
            Ok((objects, version)) => {
                self.refusals = 0;
                self.absent = ABSENT;
                let list = List::new(objects, self.unreadable.names());
                self.tell(Step::Listed(list)).await?;
                self.tell_unreadable().await?;
                self.follow(version).await
            }
            Err(error) => self.failed(error).await,
        }
    }

    /// Reports the error, and waits. A token that is not taken any more is read anew, and tried at once: its file may
    /// hold the next one since some time.
    async fn failed(&mut self, error: WatchError) -> Result<(), Unheard> {
        let is_unauthorized = error.is_unauthorized();
        if is_unauthorized {
            self.refusals += 1;
            self.access.renew(self.proof);
            if self.refusals <= RENEWALS {
                debug!("{} are asked for with a token that is read anew", K::NAME);
                return Ok(());
            }
        } else {
            self.refusals = 0;
        }
        let text = error.to_string();
        if K::OPTIONAL && error.is_absent() {
            if self.has_another_version() {
                return Ok(());
            }
            self.tell(Step::Absent(text)).await?;
            let pause = self.absent;
            self.absent = (pause * 2).min(ABSENT_AT_MOST);
            self.pause(pause).await
        } else {
            self.tell(Step::Lost(text)).await?;
            let pause = self.backoff.pause_after_error(error.retry_after());
            if !is_unauthorized {
                return self.pause(pause).await;
            }
            tokio::select! {
                ended = self.pause(pause) => ended,
                () = self.access.token_changed(self.proof) => Ok(()),
            }
        }
    }

    /// Goes over to the other version of what the server does not have. Returns whether it is to be asked
    /// for at once: the older one is, after the newer one.
    fn has_another_version(&mut self) -> bool {
        let Some(older) = K::OLDER else {
            return false;
        };
        let was_newer = self.path == K::PATH;
        self.path = if was_newer { older } else { K::PATH };
        was_newer
    }

    /// Waits before a watch begins again that had not failed.
    async fn wait(&mut self) -> Result<(), Unheard> {
        let pause = self.backoff.pause();
        self.pause(pause).await
    }

    async fn pause(&self, pause: Duration) -> Result<(), Unheard> {
        tokio::select! {
            () = sleep(pause) => Ok(()),
            () = self.steps.closed() => Err(Unheard),
        }
    }

    async fn tell(&self, step: Step<K::Object>) -> Result<(), Unheard> {
        Ok(self.steps.send((self.message)(step)).await?)
    }

    /// Reports the objects that cannot be read, if that has changed.
    async fn tell_unreadable(&mut self) -> Result<(), Unheard> {
        match self.unreadable.news() {
            Some(objects) => self.tell(Step::Unreadable(objects)).await,
            None => Ok(()),
        }
    }

    /// All objects that can be read, page by page, and the version from which a watch goes on. Takes note of
    /// the others. What has been read of a list that fails is dropped.
    async fn list(&mut self) -> Result<(Vec<K::Object>, String), WatchError> {
        self.proof = self.access.proof();
        let request = Request::new(self.path);
        let mut params = ListParams {
            label_selector: self.selectors.labels.clone(),
            field_selector: self.selectors.fields.clone(),
            limit: Some(PAGE),
            ..ListParams::default()
        };
        let mut objects = Vec::new();
        let mut unreadable = Vec::new();
        loop {
            let request = if K::METADATA_ONLY {
                request.list_metadata(&params)?
            } else {
                request.list(&params)?
            };
            let client = self.access.client();
            let answer = client.request_text(request);
            let answer = timeout(LIST, answer).await;
            let text = answer.map_err(|_| WatchError::Slow(LIST))??;
            let Page { metadata, items } = serde_json::from_str(&text)?;
            for text in items.unwrap_or_default() {
                match item::read::<K>(text) {
                    Ok(raw) => objects.push(raw.into()),
                    Err(error) => unreadable.push(error),
                }
            }
            match metadata.r#continue {
                Some(token) if !token.is_empty() => params.continue_token = Some(token),
                _ => {
                    self.unreadable.list(unreadable);
                    return Ok((objects, metadata.resource_version));
                }
            }
        }
    }

    /// Watches from `version` on until all has to be listed anew.
    async fn follow(&mut self, mut version: String) -> Result<(), Unheard> {
        let (mut refused, mut silent) = (0, 0);
        loop {
            let begin = Instant::now();
            let ended = self.watch(&mut version).await;
            if begin.elapsed() >= WORKED {
                self.backoff.reset();
            }
            match ended {
                Ok(()) => {
                    (refused, silent) = (0, 0);
                    self.wait().await?;
                }
                // Nothing may have changed, at a server without bookmarks; or the server does not know the version.
                Err(Stop::Silent) if silent == 0 => {
                    silent = 1;
                    self.wait().await?;
                }
                Err(Stop::Unheard) => return Err(Unheard),
                Err(Stop::Stale | Stop::Silent) => {
                    debug!("the watch of {} is stale: all are listed anew", K::NAME);
                    return self.wait().await;
                }
                Err(Stop::Failed(error)) => {
                    // What cannot be read now could not be read the next time.
                    let is_unreadable = matches!(error, WatchError::Decode(_));
                    refused += u32::from(error.may_be_of_version());
                    self.failed(error).await?;
                    if is_unreadable || refused >= REFUSED {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// One watch, from its beginning until its server, or its connection, ends it.
    async fn watch(&mut self, version: &mut String) -> Result<(), Stop> {
        self.proof = self.access.proof();
        let params = WatchParams {
            label_selector: self.selectors.labels.clone(),
            field_selector: self.selectors.fields.clone(),
            timeout: Some(WATCH),
            ..WatchParams::default()
        };
        let request = Request::new(self.path);
        let request = if K::METADATA_ONLY {
            request.watch_metadata(&params, version)?
        } else {
            request.watch(&params, version)?
        };
        let client = self.access.client();
        let answer = client.request_stream(request);
        let answer = timeout(ANSWER, answer).await;
        let lines = answer.map_err(|_| WatchError::Slow(ANSWER))??.lines();
        self.refusals = 0;
        self.absent = ABSENT;
        let mut lines = pin!(lines);
        self.tell(Step::Alive).await?;
        let mut was_heard = false;
        loop {
            let line = tokio::select! {
                line = timeout(SILENCE, lines.next()) => line,
                () = self.steps.closed() => return Err(Stop::Unheard),
            };
            let line = match line {
                Err(_) if !was_heard => return Err(Stop::Silent),
                // Silent for too long, or ended.
                Err(_) | Ok(None) => return Ok(()),
                Ok(Some(Ok(line))) => line,
                Ok(Some(Err(error))) => {
                    debug!("the watch of {} is cut off: {error}", K::NAME);
                    return Ok(());
                }
            };
            was_heard = true;
            let Some(event) = Event::read(&line)? else {
                return Ok(());
            };
            let step = self.step(event, version);
            self.tell(step).await?;
            self.tell_unreadable().await?;
            self.backoff.reset();
        }
    }

    /// Returns the step of an event. Takes note of how far the watch is, and of what cannot be read.
    fn step(&mut self, event: Event<'_>, version: &mut String) -> Step<K::Object> {
        let is_gone = matches!(event, Event::Deleted(_));
        let read = match event {
            Event::Applied(text) => item::read::<K>(text),
            Event::Deleted(text) => item::read_deleted::<K>(text),
            Event::Bookmark(new) => {
                *version = new;
                return Step::Alive;
            }
        };
        match read {
            Ok(raw) => {
                let metadata = K::metadata(&raw);
                if let Some(new) = &metadata.resource_version {
                    new.as_ref().clone_into(version);
                }
                if !self.unreadable.is_empty() {
                    let name = metadata.name.as_deref().unwrap_or_default();
                    let name = full_name(metadata.namespace.as_deref(), name);
                    self.unreadable.remove(&name);
                }
                if is_gone {
                    Step::Deleted(raw.into())
                } else {
                    Step::Applied(raw.into())
                }
            }
            Err(mut unreadable) => {
                if let Some(new) = unreadable.version.take() {
                    *version = new;
                }
                self.unreadable.add(unreadable);
                Step::Alive
            }
        }
    }
}
