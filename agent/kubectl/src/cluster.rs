//! Facts of a cluster: its nodes, the agents' pods, and the addresses of pods.

use std::{collections::BTreeMap, fs, net::IpAddr};

use anyhow::{Chain, Context as _, Result, anyhow, bail};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, Config,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use shunt_print::output::complain;

use crate::{arguments::ClusterArgs, place::PodPlace};

/// Labels of the agents' pods: `deploy/base/daemon-set.yaml`.
const LABELS: &str = "app.kubernetes.io/name=shunt";

/// Name of the agent's container there.
pub(crate) const CONTAINER: &str = "agent";

/// HTTP statuses of a missing right, and of an object that is not there.
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;

/// A node that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) node: String,
    /// Its kernel, if the cluster's nodes may be listed.
    pub(crate) kernel: Option<String>,
    /// The pod with its agent, or the reason that there is none.
    pub(crate) pod: Result<AgentPod, String>,
}

/// A pod with an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentPod {
    pub(crate) name: String,
    pub(crate) is_ready: bool,
}

/// Returns a client of the cluster that the arguments name.
///
/// # Errors
///
/// The kubeconfig cannot be read, or does not lead to a cluster.
pub(crate) async fn connect(args: &ClusterArgs) -> Result<Client> {
    let ClusterArgs {
        context,
        kubeconfig,
        ..
    } = args;
    let options = KubeConfigOptions {
        context: context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = match (kubeconfig, context) {
        (Some(path), _) => {
            let read = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(read, &options)
                .await
                .with_context(|| format!("the kubeconfig {} leads nowhere", path.display()))?
        }
        (None, Some(_)) => Config::from_kubeconfig(&options)
            .await
            .context("the kubeconfig leads nowhere")?,
        (None, None) => Config::infer()
            .await
            .context("no cluster is named: give --kubeconfig, or set KUBECONFIG")?,
    };
    read_token(&mut config)?;
    Client::try_from(config).context("cannot make a client of the API server")
}

/// Reads the token if it is in a file, where a newline may follow it, which kube would send.
fn read_token(config: &mut Config) -> Result<()> {
    let auth = &mut config.auth_info;
    if let (None, Some(path)) = (&auth.token, &auth.token_file) {
        let token = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        auth.token = Some(token.trim().to_owned().into());
    }
    Ok(())
}

/// Returns the API server's own words, or the cause that it has not answered.
pub(crate) fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        // The errors above the last cause have only that something could not be done.
        error => Chain::new(error)
            .last()
            .map_or_else(|| error.to_string(), ToString::to_string),
    }
}

/// Returns the nodes that are meant, sorted by name. Without the right to list nodes, they are those with an agent's pod.
///
/// # Errors
///
/// The API server does not answer or does not list pods, or there is no agent at all.
pub(crate) async fn members(client: &Client, args: &ClusterArgs) -> Result<Vec<Member>> {
    let namespace = &args.namespace;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods = pods
        .list(&ListParams::default().labels(LABELS))
        .await
        .map_err(|error| anyhow!("cannot list the pods of {namespace}: {}", reason(&error)))?;
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = match nodes.list(&ListParams::default()).await {
        Ok(nodes) => nodes.items,
        Err(kube::Error::Api(status)) if status.code == FORBIDDEN => {
            complain("note: no right to list nodes: nodes without an agent are left out");
            Vec::new()
        }
        Err(error) => bail!("cannot list the nodes: {}", reason(&error)),
    };
    let members = join(&pods.items, &nodes, args);
    if members.iter().all(|member| member.pod.is_err()) && args.node.is_empty() {
        bail!("no pod of the namespace {namespace} has the label {LABELS} (--namespace)");
    }
    Ok(members)
}

/// Returns each node that is meant with its agent.
fn join(pods: &[Pod], nodes: &[Node], args: &ClusterArgs) -> Vec<Member> {
    let mut members: BTreeMap<&str, Member> = BTreeMap::new();
    let named = args.node.iter().map(|node| (node.as_str(), None));
    let listed = nodes.iter().filter_map(|node| {
        let name = node.metadata.name.as_deref()?;
        let info = node.status.as_ref()?.node_info.as_ref();
        Some((name, info.map(|info| info.kernel_version.clone())))
    });
    let running = pods.iter().filter_map(|pod| Some((node_of(pod)?, None)));
    for (name, kernel) in named.chain(running).chain(listed) {
        if !args.means(name) {
            continue;
        }
        let member = members.entry(name).or_insert_with(|| Member {
            node: name.to_owned(),
            kernel: None,
            pod: Err("no agent has a pod on this node".to_owned()),
        });
        member.kernel = member.kernel.take().or(kernel);
    }
    let mut pods: Vec<&Pod> = pods.iter().filter(|pod| has_agent(pod)).collect();
    // The one that decides is the last: one that is not about to end, and of these the newest.
    pods.sort_by_key(|pod| {
        let metadata = &pod.metadata;
        (
            metadata.deletion_timestamp.is_none(),
            metadata.creation_timestamp.clone(),
        )
    });
    for pod in pods {
        if let Some(member) = node_of(pod).and_then(|node| members.get_mut(node)) {
            member.pod = agent_pod(pod);
        }
    }
    members.into_values().collect()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn has_agent(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    spec.is_some_and(|spec| spec.containers.iter().any(|it| it.name == CONTAINER))
}

/// Returns the pod, or the reason that nothing can be run in it.
fn agent_pod(pod: &Pod) -> Result<AgentPod, String> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    let phase = status.phase.unwrap_or_else(|| "Unknown".to_owned());
    if phase != "Running" {
        let reason = status
            .reason
            .map_or_else(String::new, |reason| format!(" ({reason})"));
        return Err(format!("the agent's pod {name} is {phase}{reason}"));
    }
    let conditions = status.conditions.unwrap_or_default();
    let is_ready = |kind: &str| {
        let mut conditions = conditions.iter();
        conditions.any(|it| it.type_ == kind && it.status == "True")
    };
    Ok(AgentPod {
        name,
        is_ready: is_ready("Ready"),
    })
}

/// Returns the addresses of a pod; `is_shared`: those of its node, which other pods have too.
///
/// # Errors
///
/// The API server does not answer, there is no such pod, or it has no address.
pub(crate) async fn addresses(client: &Client, pod: &PodPlace) -> Result<PodAddresses> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let found = match pods.get(&pod.name).await {
        Ok(found) => found,
        Err(kube::Error::Api(status)) if status.code == NOT_FOUND => bail!("there is no {pod}"),
        Err(error) => bail!("cannot look at {pod}: {}", reason(&error)),
    };
    let is_shared = found
        .spec
        .and_then(|spec| spec.host_network)
        .unwrap_or(false);
    let status = found.status.unwrap_or_default();
    let all = status.pod_ips.into_iter().flatten().map(|it| it.ip);
    let ips = all.chain(status.pod_ip);
    let mut ips: Vec<IpAddr> = ips.filter_map(|ip| ip.parse().ok()).collect();
    ips.sort();
    ips.dedup();
    if ips.is_empty() {
        bail!("{pod} has no address yet");
    }
    Ok(PodAddresses { ips, is_shared })
}

/// Addresses of a pod: one of each family at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodAddresses {
    pub(crate) ips: Vec<IpAddr>,
    /// True if they are the node's.
    pub(crate) is_shared: bool,
}
