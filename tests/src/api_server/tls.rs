//! The server's certificate.

use std::{net::IpAddr, sync::Arc};

use anyhow::Result;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{CertificateParams, KeyPair};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

/// A certificate that vouches for itself, and its key.
pub(super) struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    /// For a server at `address`.
    pub(super) fn new(address: IpAddr) -> Result<Self> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec![address.to_string()])?;
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
        })
    }

    /// The certificate, as the text that a kubeconfig has in base64.
    pub(super) fn authority(&self) -> String {
        let text = STANDARD.encode(&self.certificate);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    }

    /// Returns an acceptor that makes TLS of accepted connections, with these protocols, the best one first.
    pub(super) fn acceptor(&self, protocols: &[&[u8]]) -> Result<TlsAcceptor> {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.clone()));
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)?;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
