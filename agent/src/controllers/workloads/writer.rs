//! Writes of slices, one after the other, each by whoever leads at that moment.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kube::{
    Client,
    api::{DeleteParams, PostParams, Preconditions},
    core::Request,
};
use thiserror::Error;
use tokio::time::timeout;

use crate::controllers::{
    election::Ballot,
    workloads::{
        service::Service,
        slice::{RawSlice, Slice},
        write::Write,
    },
};

/// How long one answer may take.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// The cause that a server gives if nothing can be made in a namespace any more.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// What became of the writes of a Service.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Slices as the server has them now.
    pub(super) written: Vec<Arc<Slice>>,
    /// Slices that the server does not have any more.
    pub(super) gone: Vec<Arc<Slice>>,
    /// How often each operation was done.
    pub(super) counts: Counts,
    /// What went wrong, the worst of it.
    pub(super) failure: Option<WriteError>,
}

/// How often each operation was done.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) created: u64,
    pub(super) updated: u64,
    pub(super) deleted: u64,
}

/// Why a write was not done. The later ones are the worse ones.
#[derive(Debug, Error)]
pub(super) enum WriteError {
    /// Nothing can be made in a namespace that is on its way out, or gone.
    #[error("the namespace is being removed")]
    NamespaceTerminating,
    /// Somebody else has written the slice, or removed it.
    #[error("the slice has changed meanwhile")]
    Conflict,
    /// The server does not allow it: for want of a right, or of quota.
    #[error("the server forbids it: {0}")]
    Forbidden(String),
    /// The server does not take it.
    #[error("the server does not take it: {0}")]
    Invalid(String),
    /// The server is busy or away.
    #[error("the server is busy or away: {error}")]
    Unavailable {
        /// What it says.
        error: String,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// Somebody else leads.
    #[error("another controller leads")]
    NotLeading,
}

impl WriteError {
    /// The name of the metrics.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::NamespaceTerminating => "namespace_terminating",
            Self::Conflict => "conflict",
            Self::Forbidden(_) => "forbidden",
            Self::Invalid(_) => "invalid",
            Self::Unavailable { .. } => "unavailable",
            Self::NotLeading => "not_leading",
        }
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::NamespaceTerminating => 0,
            Self::Conflict => 1,
            Self::Forbidden(_) => 2,
            Self::Invalid(_) => 3,
            Self::Unavailable { .. } => 4,
            Self::NotLeading => 5,
        }
    }

    /// Whether nothing else can be written now, either.
    const fn is_of_all(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::NotLeading)
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = &error else {
            return Self::Unavailable {
                error: error.to_string(),
                retry_after: None,
            };
        };
        let details = status.details.as_ref();
        let mut causes = details.into_iter().flat_map(|details| &details.causes);
        let is_ending = causes.any(|cause| cause.reason == NAMESPACE_TERMINATING);
        match status.code {
            403 if is_ending => Self::NamespaceTerminating,
            403 => Self::Forbidden(status.message.clone()),
            404 | 409 => Self::Conflict,
            400 | 413 | 415 | 422 => Self::Invalid(status.message.clone()),
            code => {
                let seconds = details.map_or(0, |details| details.retry_after_seconds);
                let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
                Self::Unavailable {
                    error: format!("{code} {}", status.message),
                    retry_after,
                }
            }
        }
    }
}

/// Who writes slices of one Service.
struct Writer<'a> {
    client: &'a Client,
    ballot: &'a Ballot,
    service: &'a Service,
    slices: Request,
    /// What was written just now, by name.
    latest: HashMap<Box<str>, Arc<Slice>>,
    outcome: Outcome,
}

/// Does what is to be done to the slices of a Service. The first write of a list that fails is the last one of
/// that list.
pub(super) async fn write(
    client: &Client,
    ballot: &Ballot,
    service: &Service,
    lists: Vec<Vec<Write>>,
) -> Outcome {
    let namespace = &service.id.namespace;
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    let mut writer = Writer {
        client,
        ballot,
        service,
        slices: Request::new(path),
        latest: HashMap::new(),
        outcome: Outcome::default(),
    };
    for list in lists {
        for write in list {
            if let Err(error) = writer.write(write).await {
                let is_of_all = error.is_of_all();
                let worst = &mut writer.outcome.failure;
                if worst
                    .as_ref()
                    .is_none_or(|worst| worst.rank() < error.rank())
                {
                    *worst = Some(error);
                }
                if is_of_all {
                    return writer.outcome;
                }
                break;
            }
        }
    }
    writer.outcome
}

impl Writer<'_> {
    async fn write(&mut self, write: Write) -> Result<(), WriteError> {
        match timeout(ANSWER, self.ballot.is_won()).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Err(WriteError::NotLeading),
            Ok(Err(error)) => {
                return Err(WriteError::Unavailable {
                    error: format!("the Lease: {error}"),
                    retry_after: None,
                });
            }
            Err(_) => return Err(slow()),
        }
        match write {
            Write::Create(content) => {
                let body = content.new_slice(self.service).to_string();
                let request = self.slices.create(&PostParams::default(), body.into());
                let made = match self.ask(request).await {
                    // There is no such namespace any more.
                    Err(kube::Error::Api(status)) if status.code == 404 => {
                        return Err(WriteError::NamespaceTerminating);
                    }
                    made => made?,
                };
                self.confirm(&made)?;
                self.outcome.counts.created += 1;
            }
            Write::Update(old, content) => {
                let old = self.latest.get(&old.name).cloned().unwrap_or(old);
                let body = old.replaced(&content, self.service).to_string();
                let params = PostParams::default();
                let request = self.slices.replace(&old.name, &params, body.into());
                match self.ask(request).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {
                        self.outcome.gone.push(old);
                        return Err(WriteError::Conflict);
                    }
                    made => self.confirm(&made?)?,
                }
                self.outcome.counts.updated += 1;
            }
            Write::Delete(old) => {
                let old = self.latest.get(&old.name).cloned().unwrap_or(old);
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        resource_version: Some(old.version.to_string()),
                        uid: Some(old.uid.to_string()),
                    }),
                    ..DeleteParams::default()
                };
                match self.ask(self.slices.delete(&old.name, &params)).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    deleted => drop(deleted?),
                }
                self.outcome.gone.push(old);
                self.outcome.counts.deleted += 1;
            }
        }
        Ok(())
    }

    /// Takes note of the slice that the server answers with.
    fn confirm(&mut self, answer: &str) -> Result<(), WriteError> {
        let raw: RawSlice =
            serde_json::from_str(answer).map_err(|error| WriteError::Unavailable {
                error: format!("the answer cannot be read: {error}"),
                retry_after: None,
            })?;
        let slice = Arc::new(Slice::from(raw));
        self.latest.insert(slice.name.clone(), Arc::clone(&slice));
        self.outcome.written.push(slice);
        Ok(())
    }

    async fn ask(
        &self,
        request: Result<hyper::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<String, kube::Error> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        let answer = timeout(ANSWER, self.client.request_text(request)).await;
        answer.unwrap_or_else(|_| Err(kube::Error::Service("no answer in time".into())))
    }
}

/// There was no answer in time.
pub(super) fn slow() -> WriteError {
    WriteError::Unavailable {
        error: format!("no answer within {ANSWER:?}"),
        retry_after: None,
    }
}
