//! Writes of slices, one after the other, each by the controller that leads at that moment.

use std::{collections::HashMap, sync::Arc};

use kube::{
    Client,
    api::{DeleteParams, PostParams, Preconditions},
    core::Request,
};
use tokio::time::timeout;

use crate::controllers::{
    election::Ballot,
    workloads::{
        raw_slice::RawSlice,
        service::Service,
        slice::{Content, Slice},
        write::Write,
        write_error::{ANSWER, WriteError, lead},
    },
};

/// Outcome of the writes of a Service.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Slices as the server has them now.
    pub(super) written: Vec<Arc<Slice>>,
    /// Slices that the server does not have any more.
    pub(super) gone: Vec<Arc<Slice>>,
    /// Number of times that each operation was done.
    pub(super) counts: Counts,
    /// Failure of the writes, the worst one.
    pub(super) failure: Option<WriteError>,
}

/// Number of times that each operation was done.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) created: u64,
    pub(super) updated: u64,
    pub(super) deleted: u64,
}

/// Writer of the slices of one Service.
struct Writer<'a> {
    client: &'a Client,
    ballot: &'a Ballot,
    service: &'a Service,
    slices: Request,
    /// Slices that were written just now, by name.
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
        lead(self.ballot).await?;
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
                self.confirm(&made, &content)?;
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
                    made => self.confirm(&made?, &content)?,
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

    /// Takes note of the slice that the server answers with; `content` was written.
    fn confirm(&mut self, answer: &str, content: &Content) -> Result<(), WriteError> {
        let raw: RawSlice =
            serde_json::from_str(answer).map_err(|error| WriteError::Unavailable {
                error: format!("the answer cannot be read: {error}"),
                retry_after: None,
            })?;
        let mut slice = Slice::from(raw);
        slice.share(content);
        let slice = Arc::new(slice);
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
