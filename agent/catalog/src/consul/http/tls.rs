//! TLS as Consul's clients do it: certificates from files, which may change.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use thiserror::Error;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{
        CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName,
        pem::{self, PemObject as _},
    },
};
use tracing::warn;

/// Inputs of TLS, by the files that have them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::consul) struct TlsFiles {
    /// Authorities that may have signed the server's certificate; `None`: those that this host trusts.
    pub(in crate::consul) authorities: Option<PathBuf>,
    /// Our certificate and its key, if the server asks for one.
    pub(in crate::consul) identity: Option<(PathBuf, PathBuf)>,
    /// The name in the server's certificate; `None`: that of its address.
    pub(in crate::consul) server_name: Option<String>,
}

/// Why there is no TLS.
#[derive(Debug, Error)]
pub(in crate::consul) enum TlsError {
    /// A file that cannot be read, or has not what it should have.
    #[error("{}: {source}", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// A file of certificates without one.
    #[error("{}: it has no certificate", .0.display())]
    Empty(PathBuf),
    /// The contents of the files do not go together.
    #[error(transparent)]
    Refused(#[from] tokio_rustls::rustls::Error),
    /// This host trusts no authority.
    #[error("this host has no certificates of authorities: name a file with CONSUL_CACERT")]
    NoRoots,
    /// Not a name.
    #[error("`{0}` is no server's name")]
    Name(String, #[source] InvalidDnsNameError),
}

/// The configuration of new connections. Files that have changed are read again; if they cannot be, what
/// was read stays.
#[derive(Debug)]
pub(super) struct Tls {
    files: TlsFiles,
    name: ServerName<'static>,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ClientConfig>,
    changed: Vec<Option<SystemTime>>,
}

impl Tls {
    /// Of connections to `host`, which may be an IPv6 address in brackets.
    pub(super) fn new(files: TlsFiles, host: &str) -> Result<Self, TlsError> {
        let name = files.server_name.as_deref();
        let name = name.unwrap_or(host.trim_start_matches('[').trim_end_matches(']'));
        let name = ServerName::try_from(name.to_owned())
            .map_err(|error| TlsError::Name(name.to_owned(), error))?;
        let changed = files.changed();
        let config = Arc::new(files.config()?);
        Ok(Self {
            files,
            name,
            current: Mutex::new(Current { config, changed }),
        })
    }

    /// The server's name.
    pub(super) fn name(&self) -> ServerName<'static> {
        self.name.clone()
    }

    /// Returns the configuration for the next connection.
    pub(super) fn config(&self) -> Arc<ClientConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = self.files.changed();
        if changed != current.changed {
            match self.files.config() {
                Ok(config) => current.config = Arc::new(config),
                Err(error) => warn!("certificates cannot be read again: {error}"),
            }
            current.changed = changed;
        }
        Arc::clone(&current.config)
    }
}

impl TlsFiles {
    /// Returns the time of the last change of each file.
    fn changed(&self) -> Vec<Option<SystemTime>> {
        let identity = self.identity.iter().flat_map(|(cert, key)| [cert, key]);
        let files = self.authorities.iter().chain(identity);
        files
            .map(|path| fs::metadata(path).and_then(|found| found.modified()).ok())
            .collect()
    }

    fn config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = builder.with_root_certificates(self.roots()?);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let file = |source| TlsError::File {
                    path: key.clone(),
                    source,
                };
                let private = PrivateKeyDer::from_pem_file(key).map_err(file)?;
                builder.with_client_auth_cert(certificates(certificate)?, private)?
            }
        };
        // Hundreds of blocked queries share a connection; Consul offers it on its port of TLS.
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.authorities {
            for certificate in certificates(path)? {
                roots.add(certificate)?;
            }
            return Ok(roots);
        }
        let found = rustls_native_certs::load_native_certs();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            return Err(TlsError::NoRoots);
        }
        Ok(roots)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let file = |source| TlsError::File {
        path: path.to_owned(),
        source,
    };
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(file)?.collect();
    let found = found.map_err(file)?;
    if found.is_empty() {
        return Err(TlsError::Empty(path.to_owned()));
    }
    Ok(found)
}
