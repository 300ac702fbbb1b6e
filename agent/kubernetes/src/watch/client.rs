//! Access to the API server.

use std::{future::pending, path::PathBuf, sync::Arc, time::Duration};

use hyper::http::uri::{Authority, Uri};
use hyper_timeout::TimeoutConnector;
use hyper_util::{client::legacy, rt::TokioExecutor};
use kube::{
    Client, Config,
    client::{ClientBuilder, ConfigExt as _},
    config::{KubeConfigOptions, Kubeconfig},
};
use shunt_runtime::Reports;
use thiserror::Error;
use tower::{BoxError, ServiceBuilder, layer::layer_fn};
use tracing::warn;

use crate::watch::{
    connector::Connector,
    measured::Measured,
    retry_after::RetryAfter,
    token::{Stamp, TokenFile, WithToken},
};

/// Longest time to make a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Place of the API server, and the identity to use there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiServer {
    /// A kubeconfig; without one, what every pod has of its cluster.
    pub kubeconfig: Option<PathBuf>,
    /// The server's URL, in place of the configured one.
    pub url: Option<String>,
}

/// Why it is not known how to reach the API server.
#[derive(Debug, Error)]
pub enum ApiServerError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {path}: {reason}")]
    Kubeconfig {
        /// Its path.
        path: PathBuf,
        /// Why.
        reason: Box<kube::config::KubeconfigError>,
    },
    /// This is no pod, or one without a service account.
    #[error(
        "cannot find out where the Kubernetes API server is: {0}; in a pod it needs a service \
         account and KUBERNETES_SERVICE_HOST, elsewhere --kubeconfig"
    )]
    InCluster(#[from] kube::config::InClusterError),
    /// The flag's value is no URL.
    #[error("`{url}` is not a URL of an API server: {reason}")]
    Url {
        /// The value.
        url: String,
        /// Why.
        reason: String,
    },
    /// The way leads by a proxy.
    #[error(
        "the kubeconfig {path} (proxy-url), or HTTPS_PROXY, says that the API server is reached \
         through the proxy {proxy}, and this agent goes through none: take it out of there, with a \
         server in the kubeconfig or at --kube-apiserver that is reached directly"
    )]
    Proxy {
        /// The kubeconfig.
        path: PathBuf,
        /// The proxy, without a name and password for it.
        proxy: String,
    },
    /// There is no token at the configured place.
    #[error("cannot read the token file {path}: {reason}")]
    Token {
        /// Its path.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// The certificates or tokens cannot be used.
    #[error("cannot talk to the Kubernetes API server: {0}")]
    Client(#[from] kube::Error),
}

impl ApiServer {
    /// Returns the configuration to reach it. No request is sent yet.
    pub(crate) async fn config(&self) -> Result<Config, ApiServerError> {
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let failed = |reason| ApiServerError::Kubeconfig {
                    path: path.clone(),
                    reason: Box::new(reason),
                };
                let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
                let options = KubeConfigOptions::default();
                let config = Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .map_err(failed)?;
                if let Some(proxy) = &config.proxy_url {
                    return Err(ApiServerError::Proxy {
                        path: path.clone(),
                        proxy: without_password(proxy),
                    });
                }
                config
            }
            None => Config::incluster()?,
        };
        if let Some(url) = &self.url {
            config.cluster_url = url.parse().map_err(|reason| ApiServerError::Url {
                url: url.clone(),
                reason: format!("{reason}"),
            })?;
            let uri = &config.cluster_url;
            if uri.host().is_none() || !matches!(uri.scheme_str(), Some("https" | "http")) {
                return Err(ApiServerError::Url {
                    url: url.clone(),
                    reason: "it has to begin with https://".to_owned(),
                });
            }
        }
        config.connect_timeout = Some(CONNECT);
        // The watches try again by themselves, and report it.
        config.default_retry = false;
        Ok(config)
    }
}

/// Returns the place of the proxy, without credentials.
fn without_password(proxy: &Uri) -> String {
    let scheme = proxy.scheme_str().unwrap_or("http");
    let host = proxy.host().unwrap_or_default();
    match proxy.port_u16() {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

/// The file of the token that `config` names, which is taken out of it: kube would send white space
/// along, and read the file once a minute. A token in the configuration itself comes first, as kube has it.
fn token_file(config: &mut Config) -> Result<Option<Arc<TokenFile>>, ApiServerError> {
    let auth = &mut config.auth_info;
    let is_first = auth.auth_provider.is_none() && auth.username.is_none() && auth.token.is_none();
    let Some(path) = auth.token_file.take_if(|_| is_first) else {
        return Ok(None);
    };
    let path = PathBuf::from(path);
    match TokenFile::open(path.clone()) {
        Ok(file) => Ok(Some(Arc::new(file))),
        Err(reason) => Err(ApiServerError::Token { path, reason }),
    }
}

/// As [`client`], with its requests measured, and its connections read in large pieces: the layers
/// and time limits of kube's own client, upon our connector.
fn measured_client(
    config: Config,
    token: Option<&Arc<TokenFile>>,
    reports: &Arc<Reports>,
) -> Result<Client, ApiServerError> {
    let connector = config.rustls_https_connector_with_connector(Connector::new())?;
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_write_timeout(config.write_timeout);
    let requests = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(connector));
    let host: Arc<str> = config
        .cluster_url
        .authority()
        .map_or("", Authority::as_str)
        .into();
    let measured = layer_fn(|inner| {
        let inner = RetryAfter::new(WithToken::new(inner, token.cloned()));
        Measured::new(inner, Arc::clone(&host), Arc::clone(reports))
    });
    let client = ClientBuilder::new(requests, config.default_namespace);
    Ok(client.with_layer(&measured).build())
}

/// A client that talks to the server of `config`. It reads a token's file anew when it changes.
pub(crate) fn client(mut config: Config) -> Result<Client, ApiServerError> {
    let token = token_file(&mut config)?;
    let with_token = layer_fn(|inner| WithToken::new(inner, token.clone()));
    let client = ClientBuilder::try_from(config)?;
    Ok(client.with_layer(&with_token).build())
}

/// The way to the server. Copies go the same way until one of them is renewed.
#[derive(Clone)]
pub(crate) struct Access {
    config: Config,
    token: Option<Arc<TokenFile>>,
    reports: Arc<Reports>,
    client: Client,
}

impl Access {
    /// By a client of `config`, whose requests are measured.
    pub(crate) fn new(mut config: Config, reports: Arc<Reports>) -> Result<Self, ApiServerError> {
        let token = token_file(&mut config)?;
        let client = measured_client(config.clone(), token.as_ref(), &reports)?;
        Ok(Self {
            config,
            token,
            reports,
            client,
        })
    }

    /// The client.
    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the stamp of the file with the token; none if there is no such file.
    pub(super) fn token_stamp(&self) -> Option<Stamp> {
        self.token.as_ref()?.stamp()
    }

    /// Waits until the file with the token has another stamp than `known`; for ever if there is none.
    pub(super) async fn token_changed(&self, known: Option<Stamp>) {
        match &self.token {
            Some(token) => token.changed(known).await,
            None => pending().await,
        }
    }

    /// Reads certificates anew, and the token of a plugin, now: the server does not take those that are
    /// known. What cannot be read stays as it was.
    pub(super) fn renew(&mut self) {
        match measured_client(self.config.clone(), self.token.as_ref(), &self.reports) {
            Ok(client) => self.client = client,
            Err(error) => warn!("what proves who we are cannot be read anew: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::*;

    #[tokio::test]
    async fn a_proxy_is_refused_in_words_that_help() {
        let path = env::temp_dir().join(format!("shunt-kubeconfig-{}", process::id()));
        let text = "\
apiVersion: v1
kind: Config
current-context: here
contexts: [{ name: here, context: { cluster: here, user: me } }]
users: [{ name: me, user: { token: secret } }]
clusters:
- name: here
  cluster: { server: 'https://192.0.2.1:6443', proxy-url: 'http://me:secret@proxy.example:3128' }
";
        fs::write(&path, text).unwrap();
        let server = ApiServer {
            kubeconfig: Some(path.clone()),
            url: None,
        };
        let error = server.config().await.unwrap_err().to_string();
        let (direct, _) = text.split_once(", proxy-url").unwrap();
        fs::write(&path, format!("{direct} }}\n")).unwrap();
        server.config().await.unwrap();
        fs::remove_file(&path).unwrap();
        let path = path.display().to_string();
        for words in [
            &*path,
            "http://proxy.example:3128",
            "proxy-url",
            "--kube-apiserver",
        ] {
            assert!(error.contains(words), "{words} is missing in: {error}");
        }
        assert!(!error.contains("secret"), "{error}");
    }
}
