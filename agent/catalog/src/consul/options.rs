//! The source's settings, by flags and by the environment of Consul's own clients.

use std::{path::PathBuf, time::Duration};

use thiserror::Error;

use crate::{
    consul::http::{
        address::{ConsulAddress, NotAnAddress},
        tls::TlsFiles,
        token::{Secret, TokenSource},
    },
    instances::{
        configuration::{error::ConfigurationError, parse::parse},
        frontend::Frontend,
    },
};

/// Looks a variable up; `None`: it is not set.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Options of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsulOptions {
    pub(super) address: ConsulAddress,
    pub(super) token: TokenSource,
    pub(super) tls: TlsFiles,
    /// Our node, in place of Consul's answer.
    pub(super) node: Option<String>,
    /// Time that removals wait after the agent was out of reach.
    pub(super) settle: Duration,
    pub(super) frontends: Vec<Frontend>,
    /// The file of addresses that instances agreed on.
    pub(super) state: Option<PathBuf>,
}

/// Error in the options.
#[derive(Debug, Error)]
pub enum OptionsError {
    /// The address of the agent.
    #[error("{name}: {source}")]
    Address {
        /// Name of the variable.
        name: &'static str,
        /// The error in it.
        source: NotAnAddress,
    },
    /// The configuration of frontends.
    #[error("{file}: {source}")]
    Configuration {
        /// Path of the file.
        file: String,
        /// The error in it, with its place.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A switch that is none.
    #[error("{name}: `{value}` is neither true nor false")]
    Switch {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// Half of what a server may ask for.
    #[error(
        "{given} is set without {missing}: a certificate needs its key, and a key its certificate"
    )]
    Half {
        /// The one that is set.
        given: &'static str,
        /// The one that is missing.
        missing: &'static str,
    },
    /// A feature of Consul's clients that this agent does not have.
    #[error("{name} is set, which this agent does not do: {instead}")]
    Unsupported {
        /// The variable.
        name: &'static str,
        /// The remedy.
        instead: &'static str,
    },
}

impl ConsulOptions {
    /// Returns options with the agent at `address`, or else at that of the `environment`, and the frontends of
    /// the text of `file`.
    ///
    /// # Errors
    ///
    /// The error in one of them, and its remedy.
    pub fn new(
        address: Option<ConsulAddress>,
        environment: Environment<'_>,
        file: &str,
        text: &str,
    ) -> Result<Self, OptionsError> {
        let frontends =
            parse(text).map_err(|source: ConfigurationError| OptionsError::Configuration {
                file: file.to_owned(),
                source: source.into(),
            })?;
        refuse(environment)?;
        Ok(Self {
            address: place(address, environment)?,
            token: token(environment),
            tls: files(environment)?,
            node: None,
            settle: Duration::ZERO,
            frontends,
            state: None,
        })
    }

    /// Sets this node, which then replaces Consul's answer.
    #[must_use]
    pub fn on(self, node: Option<String>) -> Self {
        Self { node, ..self }
    }

    /// With a token from this file.
    #[must_use]
    pub fn with_token_file(self, file: Option<PathBuf>) -> Self {
        let token = file.map_or(self.token, TokenSource::File);
        Self { token, ..self }
    }

    /// With a file of addresses that instances agreed on.
    #[must_use]
    pub fn kept_in(self, file: PathBuf) -> Self {
        Self {
            state: Some(file),
            ..self
        }
    }

    /// Removals wait for so long after the agent was out of reach.
    #[must_use]
    pub fn settling(self, settle: Duration) -> Self {
        Self { settle, ..self }
    }
}

/// Returns a variable that is not empty.
fn variable(environment: Environment<'_>, name: &str) -> Option<String> {
    environment(name).filter(|value| !value.is_empty())
}

fn place(
    given: Option<ConsulAddress>,
    environment: Environment<'_>,
) -> Result<ConsulAddress, OptionsError> {
    const ADDRESS: &str = "CONSUL_HTTP_ADDR";
    if let Some(given) = given {
        return Ok(given);
    }
    let address = match variable(environment, ADDRESS) {
        None => ConsulAddress::default(),
        Some(text) => text.parse().map_err(|source| OptionsError::Address {
            name: ADDRESS,
            source,
        })?,
    };
    if switch(environment, "CONSUL_HTTP_SSL", false)? {
        return Ok(address.with_tls());
    }
    Ok(address)
}

fn token(environment: Environment<'_>) -> TokenSource {
    // As in Consul's clients: the token itself comes before the file.
    if let Some(token) = variable(environment, "CONSUL_HTTP_TOKEN") {
        return TokenSource::Given(Secret(token));
    }
    let file = variable(environment, "CONSUL_HTTP_TOKEN_FILE");
    file.map_or(TokenSource::None, |file| TokenSource::File(file.into()))
}

fn files(environment: Environment<'_>) -> Result<TlsFiles, OptionsError> {
    const CERTIFICATE: &str = "CONSUL_CLIENT_CERT";
    const KEY: &str = "CONSUL_CLIENT_KEY";
    let half = |given, missing| OptionsError::Half { given, missing };
    let identity = match (
        variable(environment, CERTIFICATE),
        variable(environment, KEY),
    ) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (Some(_), None) => return Err(half(CERTIFICATE, KEY)),
        (None, Some(_)) => return Err(half(KEY, CERTIFICATE)),
    };
    Ok(TlsFiles {
        authorities: variable(environment, "CONSUL_CACERT").map(Into::into),
        identity,
        server_name: variable(environment, "CONSUL_TLS_SERVER_NAME"),
    })
}

/// Rejects variables that change requests or their server and have no effect here: an error is better than silence.
fn refuse(environment: Environment<'_>) -> Result<(), OptionsError> {
    for (name, instead) in [
        (
            "CONSUL_CAPATH",
            "name one file of certificates with CONSUL_CACERT",
        ),
        ("CONSUL_HTTP_AUTH", "give a token with CONSUL_HTTP_TOKEN"),
        (
            "CONSUL_NAMESPACE",
            "services are those of the namespace of the token",
        ),
        (
            "CONSUL_PARTITION",
            "services are those of the partition of the agent",
        ),
    ] {
        if variable(environment, name).is_some() {
            return Err(OptionsError::Unsupported { name, instead });
        }
    }
    if !switch(environment, "CONSUL_HTTP_SSL_VERIFY", true)? {
        return Err(OptionsError::Unsupported {
            name: "CONSUL_HTTP_SSL_VERIFY",
            instead: "name the authority of the server's certificate with CONSUL_CACERT",
        });
    }
    Ok(())
}

fn switch(
    environment: Environment<'_>,
    name: &'static str,
    default: bool,
) -> Result<bool, OptionsError> {
    let Some(value) = variable(environment, name) else {
        return Ok(default);
    };
    // As Go reads them.
    match value.as_str() {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err(OptionsError::Switch { name, value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(variables: &[(&str, &str)]) -> Result<ConsulOptions, OptionsError> {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        ConsulOptions::new(None, &find, "frontends.toml", "")
    }

    #[test]
    fn the_environment_of_consuls_clients_is_heeded() {
        let found = options(&[
            ("CONSUL_HTTP_ADDR", "consul.example:8501"),
            ("CONSUL_HTTP_SSL", "true"),
            ("CONSUL_HTTP_TOKEN_FILE", "/run/token"),
            ("CONSUL_CACERT", "/run/ca.pem"),
            ("CONSUL_CLIENT_CERT", "/run/cert.pem"),
            ("CONSUL_CLIENT_KEY", "/run/key.pem"),
            ("CONSUL_TLS_SERVER_NAME", "server.dc1.consul"),
        ])
        .unwrap();
        assert_eq!(found.address.to_string(), "https://consul.example:8501");
        assert_eq!(found.token, TokenSource::File("/run/token".into()));
        assert_eq!(found.tls.authorities, Some("/run/ca.pem".into()));
        assert_eq!(
            found.tls.identity,
            Some(("/run/cert.pem".into(), "/run/key.pem".into()))
        );
        assert_eq!(found.tls.server_name.as_deref(), Some("server.dc1.consul"));
        let both = [("CONSUL_HTTP_TOKEN", "t"), ("CONSUL_HTTP_TOKEN_FILE", "/f")];
        let given = TokenSource::Given(Secret("t".to_owned()));
        assert_eq!(options(&both).unwrap().token, given);
        let unix = [
            ("CONSUL_HTTP_ADDR", "unix:///run/c"),
            ("CONSUL_HTTP_SSL", "1"),
        ];
        assert_eq!(options(&unix).unwrap().address.to_string(), "unix:///run/c");
        let none = options(&[("CONSUL_HTTP_ADDR", "")]).unwrap();
        assert_eq!(none.address, ConsulAddress::default());
    }

    #[test]
    fn what_is_wrong_or_not_done_is_said() {
        for (variables, said) in [
            (
                &[("CONSUL_HTTP_ADDR", "ftp://a")][..],
                "CONSUL_HTTP_ADDR: `ftp://a`",
            ),
            (
                &[("CONSUL_HTTP_SSL", "yes")],
                "`yes` is neither true nor false",
            ),
            (&[("CONSUL_HTTP_SSL_VERIFY", "false")], "CONSUL_CACERT"),
            (&[("CONSUL_CLIENT_CERT", "a")], "without CONSUL_CLIENT_KEY"),
            (&[("CONSUL_CLIENT_KEY", "a")], "without CONSUL_CLIENT_CERT"),
            (&[("CONSUL_CAPATH", "a")], "CONSUL_CACERT"),
            (&[("CONSUL_HTTP_AUTH", "a:b")], "CONSUL_HTTP_TOKEN"),
            (&[("CONSUL_NAMESPACE", "a")], "CONSUL_NAMESPACE"),
            (&[("CONSUL_PARTITION", "a")], "CONSUL_PARTITION"),
        ] {
            let error = options(variables).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let none = |_: &str| None;
        let error = ConsulOptions::new(None, &none, "f.toml", "\nfrontent = 1").unwrap_err();
        assert!(error.to_string().starts_with("f.toml: line 2: "), "{error}");
    }
}
