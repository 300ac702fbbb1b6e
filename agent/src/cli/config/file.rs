//! The file of `--config`.

use std::{fs, io, path};

use serde::Deserialize;
use serde_ignored::Path;
use serde_path_to_error::Track;
use serde_saphyr::{Options, options::DuplicateKeyPolicy};
use thiserror::Error;

use crate::cli::config::v1alpha1::{API_VERSION, KIND, KubeProxyConfiguration};

/// A file that is no configuration.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    /// It cannot be read.
    #[error("cannot read it: {0}")]
    Read(#[from] io::Error),
    /// It is neither YAML nor JSON, or its form cannot be read.
    #[error("{0}")]
    Syntax(String),
    /// It is something else.
    #[error(
        "its apiVersion is `{api_version}` and its kind `{kind}`, but `{API_VERSION}` and `{KIND}` \
         are what is understood"
    )]
    Form {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// A field is twice there, or not what it has to be.
    #[error("{path}: {error}")]
    Field {
        /// Path of the field.
        path: String,
        /// Fault of the field, and its line.
        error: String,
    },
}

/// The form that every object of Kubernetes has.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

/// The configuration of a file.
#[derive(Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) configuration: KubeProxyConfiguration,
    /// The paths of fields that this version does not know: a later kube-proxy may.
    pub(crate) unknown: Vec<String>,
}

/// Reads a configuration, YAML or JSON.
///
/// # Errors
///
/// See [`FileError`].
pub(crate) fn read(path: &path::Path) -> Result<Known, FileError> {
    decode(&fs::read_to_string(path)?)
}

fn options() -> Options {
    serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        with_snippet: false,
    }
}

fn decode(text: &str) -> Result<Known, FileError> {
    let form: Form = serde_saphyr::from_str_with_options(text, options())
        .map_err(|error| FileError::Syntax(error.to_string()))?;
    let Form { api_version, kind } = form;
    if api_version != API_VERSION || kind != KIND {
        return Err(FileError::Form { api_version, kind });
    }
    let (mut track, mut unknown) = (Track::new(), Vec::new());
    let decoded = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |yaml| {
        let tracked = serde_path_to_error::Deserializer::new(yaml, &mut track);
        // A field that may be left out is a step of its own in the path.
        let mut ignored = |path: Path<'_>| unknown.push(path.to_string().replace(".?", ""));
        serde_ignored::deserialize(tracked, &mut ignored)
    });
    match decoded {
        Ok(configuration) => Ok(Known {
            configuration,
            unknown,
        }),
        Err(error) => Err(FileError::Field {
            path: track.path().to_string(),
            error: error.to_string(),
        }),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    /// The file that `kubeadm init` of 1.34 writes.
    pub(crate) const KUBEADM: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: \"\"
  burst: 0
  contentType: \"\"
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: 10.244.0.0/16
configSyncPeriod: 0s
conntrack:
  maxPerCore: null
  min: null
  tcpBeLiberal: false
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: \"\"
  interfaceNamePrefix: \"\"
detectLocalMode: \"\"
enableProfiling: false
healthzBindAddress: \"\"
hostnameOverride: \"\"
iptables:
  localhostNodePorts: null
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: \"\"
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: \"0\"
    text:
      infoBufferSize: \"0\"
  verbosity: 0
metricsBindAddress: \"\"
mode: \"\"
nftables:
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: null
portRange: \"\"
showHiddenMetricsForVersion: \"\"
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: \"\"
  rootHnsEndpointName: \"\"
  sourceVip: \"\"
";
}

#[cfg(test)]
mod tests {
    use super::{testing::KUBEADM, *};

    fn error(text: &str) -> String {
        let head = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n");
        decode(&(head + text)).unwrap_err().to_string()
    }

    #[test]
    fn what_kubeadm_writes_is_understood() {
        let Known {
            configuration,
            unknown,
        } = decode(KUBEADM).unwrap();
        assert_eq!(unknown, [""; 0]);
        assert_eq!(configuration.cluster_cidr.as_deref(), Some("10.244.0.0/16"));
        let client = configuration.client_connection.unwrap();
        let kubeconfig = client.kubeconfig.as_deref();
        assert_eq!(kubeconfig, Some("/var/lib/kube-proxy/kubeconfig.conf"));
        assert_eq!(configuration.oom_score_adj, None);
    }

    #[test]
    fn json_is_understood_as_well() {
        let json = format!(
            r#"{{"apiVersion": "{API_VERSION}", "kind": "{KIND}", "conntrack": {{"min": 7}}}}"#
        );
        let configuration = decode(&json).unwrap().configuration;
        assert_eq!(configuration.conntrack.unwrap().min, Some(7));
    }

    #[test]
    fn errors_name_the_field_and_the_line() {
        for (text, words) in [
            ("mode: a\nmode: b\n", ["mode", "duplicate", "line 4"]),
            (
                "iptables:\n  masqueradeAll: 7\n",
                ["iptables.masqueradeAll", "bool", "line 4"],
            ),
            (
                "configSyncPeriod: 15\n",
                ["configSyncPeriod", "no duration", "15"],
            ),
            (
                "nodePortAddresses: 10.0.0.0/8\n",
                ["nodePortAddresses", "sequence", "line 3"],
            ),
        ] {
            let error = error(text);
            for word in words {
                assert!(error.contains(word), "{word} is missing in: {error}");
            }
        }
    }

    #[test]
    fn fields_of_a_later_version_are_named_and_the_others_count() {
        let text = KUBEADM.replace("conntrack:\n", "conntrack:\n  maxPerCores: 3\n");
        let text = text + "futureField:\n  a: [1]\n";
        let known = decode(&text).unwrap();
        assert_eq!(known.unknown, ["conntrack.maxPerCores", "futureField"]);
        assert_eq!(known.configuration, decode(KUBEADM).unwrap().configuration);
    }

    #[test]
    fn another_form_is_refused_by_its_name() {
        for (text, words) in [
            ("kind: KubeProxyConfiguration\n", "its apiVersion is ``"),
            (
                "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
                "its apiVersion is `kubelet.config.k8s.io/v1beta1` and its kind `KubeletConfiguration`",
            ),
        ] {
            let error = decode(text).unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
        assert!(decode(": :").is_err());
        assert!(decode("").is_err());
    }
}
