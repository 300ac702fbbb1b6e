//! The agents of a cluster, asked at once.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use kube::Client;
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};
use tonic::transport::Channel;

use crate::{
    arguments::ClusterArgs,
    cluster::{Member, connect, members},
    tunnel::{Fault, Tunnel},
};

/// Limit of the agents that are asked at the same time.
const AT_ONCE: usize = 32;

/// The agents of the nodes that are meant.
#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) client: Client,
    pub(crate) members: Vec<Member>,
    namespace: String,
    socket: Option<String>,
    timeout: Duration,
}

/// The answer of a node, or the reason that there is none.
#[derive(Debug)]
pub(crate) struct Heard<T> {
    pub(crate) member: Member,
    pub(crate) answer: Result<T, String>,
}

impl Fleet {
    /// Finds the agents.
    ///
    /// # Errors
    ///
    /// The API server does not answer, or there is no agent.
    pub(crate) async fn find(args: &ClusterArgs) -> Result<Self> {
        let client = connect(args).await?;
        Ok(Self {
            members: members(&client, args).await?,
            client,
            namespace: args.namespace.clone(),
            socket: args.socket.clone(),
            timeout: args.timeout(),
        })
    }

    /// Returns a connection to the agent of a node.
    ///
    /// # Errors
    ///
    /// The reason, for people.
    pub(crate) async fn open(&self, member: &Member) -> Result<Tunnel, String> {
        let pod = &member.pod.as_ref().map_err(Clone::clone)?.name;
        let opening = Tunnel::open(&self.client, &self.namespace, pod, self.socket.as_deref());
        timeout(self.timeout, opening)
            .await
            .unwrap_or_else(|_| Err(self.too_late()))
    }

    /// Asks all of them at once. Returns the answers by the names of the nodes; a node without an answer stops no other.
    pub(crate) async fn ask<T, Q, A>(&self, question: Q) -> Vec<Heard<T>>
    where
        T: Send + 'static,
        Q: Fn(Channel) -> A + Clone + Send + 'static,
        A: Future<Output = Result<T, Fault>> + Send,
    {
        let room = Arc::new(Semaphore::new(AT_ONCE));
        let mut asked = JoinSet::new();
        for member in &self.members {
            let (fleet, member) = (self.clone(), member.clone());
            let (room, question) = (Arc::clone(&room), question.clone());
            asked.spawn(async move {
                // It is never closed.
                let _place = room.acquire().await;
                let answer = timeout(fleet.timeout, fleet.answer(&member, question)).await;
                let answer = answer.unwrap_or_else(|_| Err(fleet.too_late()));
                Heard { member, answer }
            });
        }
        let mut heard = asked.join_all().await;
        heard.sort_by(|one, other| one.member.node.cmp(&other.member.node));
        heard
    }

    async fn answer<T, A>(
        &self,
        member: &Member,
        question: impl Fn(Channel) -> A,
    ) -> Result<T, String>
    where
        A: Future<Output = Result<T, Fault>>,
    {
        let mut tunnel = self.open(member).await?;
        match question(tunnel.channel.clone()).await {
            Ok(answer) => Ok(answer),
            Err(fault) => Err(tunnel.explain(fault).await),
        }
    }

    fn too_late(&self) -> String {
        format!("no answer within {} s (--timeout)", self.timeout.as_secs())
    }
}
