//! The server of the page.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
    sync::Arc,
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use shunt_http::{NotAPlace, ServeAddress, ServeListener};
use shunt_runtime::{Inspector, ServiceChanges};
use shunt_serve::{UiServer, UiSettings, UiToken};

/// The page that shows the agent.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Page")]
pub(crate) struct UiArgs {
    /// Address of the page that shows the agent to a browser, and changes nothing: a port of this host, as in 9254,
    /// IP:port or unix:PATH [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    ui: Option<UiAddress>,

    /// Host name in requests for the page, besides localhost and its addresses; may be given several times. Under any
    /// other name the page is refused
    #[arg(long, value_name = "NAME", requires = "ui")]
    ui_host: Vec<String>,

    /// File with the token that requests for the page must have; needed where other hosts get to it
    #[arg(long, value_name = "FILE", requires = "ui")]
    ui_token_file: Option<PathBuf>,
}

/// Address of the page: as of other APIs, or a port of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UiAddress(ServeAddress);

impl FromStr for UiAddress {
    type Err = NotAPlace;

    fn from_str(text: &str) -> Result<Self, NotAPlace> {
        if let Ok(port) = text.parse::<u16>() {
            let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
            return address.to_string().parse().map(Self);
        }
        text.parse().map(Self)
    }
}

impl UiArgs {
    /// Listens, if an address is given.
    ///
    /// # Errors
    ///
    /// The address cannot be had, the file has no token, or others get to the address and there is no
    /// file.
    pub(crate) async fn listen(self) -> Result<UiPlace> {
        let Self {
            ui,
            ui_host,
            ui_token_file,
        } = self;
        let Some(UiAddress(address)) = ui else {
            return Ok(UiPlace(None));
        };
        ensure!(
            ui_token_file.is_some() || address.is_of_this_host(),
            "--ui: other hosts get to {address}, and would be shown all services and connections; \
             --ui-token-file names the file with what they have to know"
        );
        let token = ui_token_file.map(|file| {
            UiToken::read(&file).with_context(|| format!("--ui-token-file {}", file.display()))
        });
        let token = token.transpose()?;
        let place = address.to_string();
        let listener = address.listen().await.context("--ui")?;
        let settings = UiSettings {
            hosts: ui_host,
            token,
            changes: Arc::default(),
        };
        Ok(UiPlace(Some((listener, place, settings))))
    }
}

/// Place where the page is going to be served, if anywhere.
#[derive(Debug)]
pub(crate) struct UiPlace(Option<(ServeListener, String, UiSettings)>);

impl UiPlace {
    /// Returns the place for the agent's memory of each service's changes, if the page is going to be served.
    pub(crate) fn changes(&self) -> Option<Arc<ServiceChanges>> {
        let Self(place) = self;
        let (_, _, settings) = place.as_ref()?;
        Some(Arc::clone(&settings.changes))
    }

    /// Begins to show what the inspector finds.
    ///
    /// # Errors
    ///
    /// There is no room for its thread.
    pub(crate) fn serve(self, inspector: &Inspector) -> Result<Option<UiServer>> {
        let Self(place) = self;
        place
            .map(|(listener, place, settings)| {
                UiServer::start(listener, place, inspector.clone(), settings)
            })
            .transpose()
            .context("cannot serve the page")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_host() {
        for (text, expected) in [
            ("9254", "127.0.0.1:9254"),
            ("192.0.2.1:9254", "192.0.2.1:9254"),
            ("unix:/run/ui", "unix:/run/ui"),
        ] {
            let UiAddress(address) = text.parse().unwrap();
            assert_eq!(address.to_string(), expected);
        }
        for text in ["0", "65536", "localhost:1", ""] {
            assert_eq!(text.parse::<UiAddress>(), Err(NotAPlace), "{text}");
        }
    }
}
