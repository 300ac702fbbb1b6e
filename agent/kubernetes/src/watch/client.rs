//! Access to the API server.

use std::{
    future::pending,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper::http::uri::{Authority, Uri};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
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

/// Interval of HTTP/2's pings, and the time for their answer. A server that is gone without a word, or a balancer before
/// it, is noticed after both; what connects anew reports it [`CONNECT`] later. client-go takes 30 s and 15 s.
const PING: Duration = Duration::from_secs(10);
const PONG: Duration = Duration::from_secs(15);

/// Bytes that the server may send of one answer before they are read, and the number of answers for which the connection
/// has room: a watch that waits holds up no other one.
const STREAM_WINDOW: u32 = 1024 * 1024;
const STREAMS: u32 = 16;

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
    /// The name that the server's certificate is to have is none.
    #[error("tls-server-name `{0}` is neither a DNS name nor an IP address")]
    ServerName(String),
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

/// Returns a connector to the server of `config`, which offers HTTP/2 (kube's own does not).
fn connector(config: &Config) -> Result<HttpsConnector<Connector>, ApiServerError> {
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let server = name.clone().try_into();
        let server = server.map_err(|_| ApiServerError::ServerName(name.clone()))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(server));
    }
    Ok(builder
        .enable_all_versions()
        .wrap_connector(Connector::new()))
}

/// As [`client`], with its requests measured and all in one connection by HTTP/2: the layers and time limits of kube's own
/// client, upon our connector.
fn measured_client(
    config: Config,
    token: Option<&Arc<TokenFile>>,
    reports: &Arc<Reports>,
) -> Result<Client, ApiServerError> {
    let mut connector = TimeoutConnector::new(connector(&config)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_write_timeout(config.write_timeout);
    let client = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        // Streams that last do not count as use. A dead connection is noticed by other means.
        .pool_idle_timeout(None)
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PONG)
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(STREAMS * STREAM_WINDOW)
        .build(connector);
    let requests = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    let host = config.cluster_url.authority().map_or("", Authority::as_str);
    let inner = RetryAfter::new(WithToken::new(requests, token.cloned()));
    let measured = Measured::new(inner, host.into(), Arc::clone(reports));
    Ok(ClientBuilder::new(measured, config.default_namespace).build())
}

/// A client that talks to the server of `config`, by HTTP/1.1: with pings, a connection is never silent, so a request
/// without an answer would outlast `config.read_timeout`. It reads a token's file anew when it changes.
pub(crate) fn client(mut config: Config) -> Result<Client, ApiServerError> {
    let token = token_file(&mut config)?;
    let with_token = layer_fn(|inner| WithToken::new(inner, token.clone()));
    let client = ClientBuilder::try_from(config)?;
    Ok(client.with_layer(&with_token).build())
}

/// The way to the server, which all copies share.
#[derive(Clone)]
pub(crate) struct Access(Arc<Shared>);

struct Shared {
    config: Config,
    token: Option<Arc<TokenFile>>,
    reports: Arc<Reports>,
    current: Mutex<Current>,
}

struct Current {
    client: Client,
    /// Number of times that the client was made anew.
    renewals: u64,
}

/// The proof of identity that a request is sent with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Proof {
    renewals: u64,
    token: Option<Stamp>,
}

impl Access {
    /// By a client of `config`, whose requests are measured.
    pub(crate) fn new(mut config: Config, reports: Arc<Reports>) -> Result<Self, ApiServerError> {
        let token = token_file(&mut config)?;
        let client = measured_client(config.clone(), token.as_ref(), &reports)?;
        Ok(Self(Arc::new(Shared {
            config,
            token,
            reports,
            current: Mutex::new(Current {
                client,
                renewals: 0,
            }),
        })))
    }

    /// The way to a server in this process.
    #[cfg(test)]
    pub(crate) fn of_client(client: Client) -> Self {
        Self(Arc::new(Shared {
            config: Config::new(Uri::from_static("http://localhost")),
            token: None,
            reports: Arc::default(),
            current: Mutex::new(Current {
                client,
                renewals: 0,
            }),
        }))
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> Client {
        self.current().client.clone()
    }

    /// Returns the proof of the next request.
    pub(super) fn proof(&self) -> Proof {
        Proof {
            renewals: self.current().renewals,
            token: self.0.token.as_ref().and_then(|token| token.stamp()),
        }
    }

    /// Waits until the file with the token has changed since `proof`; for ever if there is none.
    pub(super) async fn token_changed(&self, proof: Proof) {
        match &self.0.token {
            Some(token) => token.changed(proof.token).await,
            None => pending().await,
        }
    }

    /// Reads certificates anew, and the token of a plugin, now: the server does not take those of `proof`. What cannot
    /// be read stays as it was. Another watch may have renewed them meanwhile.
    pub(super) fn renew(&self, proof: Proof) {
        let mut current = self.current();
        if current.renewals != proof.renewals {
            return;
        }
        let Shared {
            config,
            token,
            reports,
            current: _,
        } = &*self.0;
        match measured_client(config.clone(), token.as_ref(), reports) {
            Ok(client) => {
                *current = Current {
                    client,
                    renewals: proof.renewals + 1,
                }
            }
            Err(error) => warn!("what proves who we are cannot be read anew: {error}"),
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        let Shared { current, .. } = &*self.0;
        current.lock().unwrap_or_else(PoisonError::into_inner)
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
