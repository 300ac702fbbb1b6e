//! The watch of one kind of objects.

use std::{
    mem,
    pin::pin,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use kube::{
    api::{ListParams, WatchEvent, WatchParams},
    core::Request,
};
use tokio::{
    sync::mpsc::{self, error::SendError},
    time::{sleep, timeout},
};
use tracing::debug;

use crate::source::kubernetes::watch::{
    backoff::Backoff,
    client::Access,
    error::WatchError,
    kind::{Kind, Selectors},
    page::Page,
    step::Step,
};

/// How many objects a page of a list has.
const PAGE: u32 = 500;

/// How long a page may take.
const LIST: Duration = Duration::from_mins(1);

/// How long the beginning of a watch may take.
const ANSWER: Duration = Duration::from_secs(30);

/// How long a watch lasts before the server ends it, in seconds.
const WATCH: u32 = 290;

/// How long a watch may be silent. A server says every minute how far it is (bookmarks), so one
/// that says nothing may not be there any more, and a connection that nobody closed would never
/// tell.
const SILENCE: Duration = Duration::from_secs(150);

/// How long to wait at first before objects are asked for again that the server does not have: a
/// definition that is made takes a moment to count. It doubles with each time that they are not there.
const ABSENT: Duration = Duration::from_secs(1);

/// The longest of these pauses.
const ABSENT_AT_MOST: Duration = Duration::from_mins(5);

/// A watch that lasts this long has worked.
const WORKED: Duration = Duration::from_secs(5);

/// Watches objects of one kind for ever.
pub(crate) struct Watcher<K: Kind, M> {
    access: Access,
    selectors: Selectors,
    /// What is told goes through here, as the receiver names it.
    steps: mpsc::Sender<M>,
    message: fn(Step<K::Object>) -> M,
    backoff: Backoff,
    /// Where objects are asked for: there may be two versions of them.
    path: &'static str,
    /// How long to wait if there are none.
    absent: Duration,
    /// Whether the last request was refused for who we are.
    is_unauthorized: bool,
}

/// Nobody listens any more.
struct Unheard;

/// Why a watch ended, other than by its server or with its connection.
enum Stop {
    /// Nobody listens any more.
    Unheard,
    /// The server does not know any more where we were.
    Stale,
    /// It could not begin, or says something else.
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
    /// Watches what `selectors` say, and sends what is new as `message` wraps it.
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
            is_unauthorized: false,
        }
    }

    /// Lists and watches until nobody listens any more.
    pub(crate) async fn run(mut self) {
        while let Ok(()) = self.list_and_follow().await {}
    }

    async fn list_and_follow(&mut self) -> Result<(), Unheard> {
        match self.list().await {
            Ok((objects, version)) => {
                self.is_unauthorized = false;
                self.absent = ABSENT;
                self.tell(Step::Listed(objects)).await?;
                self.follow(version).await
            }
            Err(error) => self.failed(error).await,
        }
    }

    /// Says what went wrong, and waits. A token that is not taken any more is read anew, and tried at
    /// once: its file may hold the next one since some time.
    async fn failed(&mut self, error: WatchError) -> Result<(), Unheard> {
        let was_unauthorized = mem::replace(&mut self.is_unauthorized, error.is_unauthorized());
        if self.is_unauthorized {
            self.access.renew();
            if !was_unauthorized {
                debug!("{} are asked for with a token that is read anew", K::NAME);
                return Ok(());
            }
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
            self.wait(error.retry_after()).await
        }
    }

    /// Goes over to the other version of what the server does not have. Gives whether it is to be asked
    /// for at once: the older one is, after the newer one.
    fn has_another_version(&mut self) -> bool {
        let Some(older) = K::OLDER else {
            return false;
        };
        let was_newer = self.path == K::PATH;
        self.path = if was_newer { older } else { K::PATH };
        was_newer
    }

    async fn wait(&mut self, wish: Option<Duration>) -> Result<(), Unheard> {
        let pause = self.backoff.pause(wish);
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

    /// All objects, page by page, and the version from which a watch goes on. What has been read of
    /// a list that fails is dropped.
    async fn list(&self) -> Result<(Vec<K::Object>, String), WatchError> {
        let request = Request::new(self.path);
        let mut params = ListParams {
            label_selector: self.selectors.labels.clone(),
            field_selector: self.selectors.fields.clone(),
            limit: Some(PAGE),
            ..ListParams::default()
        };
        let mut objects = Vec::new();
        loop {
            let request = if K::METADATA_ONLY {
                request.list_metadata(&params)?
            } else {
                request.list(&params)?
            };
            let answer = self.access.client().request_text(request);
            let answer = timeout(LIST, answer).await;
            let text = answer.map_err(|_| WatchError::Slow(LIST))??;
            let Page { metadata, items } = serde_json::from_str::<Page<K::Raw>>(&text)?;
            objects.extend(items.unwrap_or_default().into_iter().map(K::Object::from));
            match metadata.r#continue {
                Some(token) if !token.is_empty() => params.continue_token = Some(token),
                _ => return Ok((objects, metadata.resource_version)),
            }
        }
    }

    /// Watches from `version` on until all has to be listed anew.
    async fn follow(&mut self, mut version: String) -> Result<(), Unheard> {
        loop {
            let begin = Instant::now();
            let ended = self.watch(&mut version).await;
            if begin.elapsed() >= WORKED {
                self.backoff.reset();
            }
            match ended {
                Ok(()) => self.wait(None).await?,
                Err(Stop::Unheard) => return Err(Unheard),
                Err(Stop::Stale) => {
                    debug!("the watch of {} is stale: all are listed anew", K::NAME);
                    return self.wait(None).await;
                }
                Err(Stop::Failed(error)) => {
                    // What cannot be read now could not be read the next time.
                    let is_unreadable = matches!(error, WatchError::Decode(_));
                    self.failed(error).await?;
                    if is_unreadable {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// One watch, from its beginning until its server, or its connection, ends it.
    async fn watch(&mut self, version: &mut String) -> Result<(), Stop> {
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
        let answer = timeout(
            ANSWER,
            self.access.client().request_events::<K::Raw>(request),
        )
        .await;
        let events = answer.map_err(|_| WatchError::Slow(ANSWER))??;
        self.is_unauthorized = false;
        self.absent = ABSENT;
        let mut events = pin!(events);
        self.tell(Step::Alive).await?;
        loop {
            let event = tokio::select! {
                event = timeout(SILENCE, events.next()) => event,
                () = self.steps.closed() => return Err(Stop::Unheard),
            };
            let event = match event {
                // Silent for too long, or ended.
                Err(_) | Ok(None) => return Ok(()),
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(kube::Error::SerdeError(error)))) => return Err(error.into()),
                Ok(Some(Err(error @ kube::Error::Api(_)))) => return Err(error.into()),
                Ok(Some(Err(error))) => {
                    debug!("the watch of {} is cut off: {error}", K::NAME);
                    return Ok(());
                }
            };
            let step = Self::step(event, version)?;
            self.tell(step).await?;
            self.backoff.reset();
        }
    }

    /// What an event says. Takes note of how far the watch is.
    fn step(
        event: WatchEvent<K::Raw>,
        version: &mut String,
    ) -> Result<Step<K::Object>, WatchError> {
        let mut advance = |raw: &K::Raw| {
            if let Some(new) = &K::metadata(raw).resource_version {
                new.as_ref().clone_into(version);
            }
        };
        Ok(match event {
            WatchEvent::Added(raw) | WatchEvent::Modified(raw) => {
                advance(&raw);
                Step::Applied(raw.into())
            }
            WatchEvent::Deleted(raw) => {
                advance(&raw);
                Step::Deleted(raw.into())
            }
            WatchEvent::Bookmark(bookmark) => {
                *version = bookmark.metadata.resource_version;
                Step::Alive
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
        })
    }
}
