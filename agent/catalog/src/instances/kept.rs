//! Addresses that instances have agreed on, in a file: the next agent has them where instances disagree or are
//! gone meanwhile.

use std::{
    collections::BTreeMap,
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use shunt_files::replace;
use tokio::{sync::watch, task::spawn_blocking, time::sleep};
use tracing::warn;

/// The form of the file.
const VERSION: u32 = 1;

/// Time before a write that failed is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// The address that instances of a frontend agreed on last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The tag of the address.
    pub(crate) tag: String,
    /// The address.
    pub(crate) ip: IpAddr,
    /// Its port; never 0.
    pub(crate) port: u16,
    /// True if it comes from instances of the most wanted tier.
    pub(crate) is_of_first: bool,
}

/// Addresses by service.
pub(crate) type KeptAddresses = BTreeMap<String, Kept>;

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    addresses: KeptAddresses,
}

/// Reads the addresses that an agent before has kept. What cannot be read is shown in the log and is nothing:
/// it comes again from instances that agree.
pub(crate) fn read(path: &Path) -> KeptAddresses {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return KeptAddresses::new(),
        Err(error) => {
            warn!("{}: {error}", path.display());
            return KeptAddresses::new();
        }
    };
    let content = serde_json::from_slice::<Content>(&text).map_err(|error| error.to_string());
    let content = content.and_then(|content| match content.version {
        VERSION => Ok(content.addresses),
        version => Err(format!("version {version} is not known here")),
    });
    content.unwrap_or_else(|error| {
        warn!(
            "{}: the addresses in it are not used: {error}",
            path.display()
        );
        KeptAddresses::new()
    })
}

/// Keeps what is sent, until all senders are gone.
pub(crate) fn keep(path: PathBuf) -> watch::Sender<KeptAddresses> {
    let (sender, mut addresses) = watch::channel(KeptAddresses::new());
    tokio::spawn(async move {
        let mut has_failed = false;
        while addresses.changed().await.is_ok() {
            let content = addresses.borrow_and_update().clone();
            let file = path.clone();
            let written = spawn_blocking(move || write(&file, content)).await;
            let written = written
                .map_err(io::Error::other)
                .and_then(|written| written);
            if let Err(error) = &written {
                if !has_failed {
                    warn!("addresses by vip_from_tag are not kept for the next agent: {error}");
                }
                sleep(RETRY).await;
                addresses.mark_changed();
            }
            has_failed = written.is_err();
        }
    });
    sender
}

fn write(path: &Path, addresses: KeptAddresses) -> io::Result<()> {
    let content = serde_json::to_vec(&Content {
        version: VERSION,
        addresses,
    })?;
    replace(path, &content).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    fn addresses() -> KeptAddresses {
        let kept = Kept {
            tag: "virtual".to_owned(),
            ip: "240.0.0.1".parse().unwrap(),
            port: 80,
            is_of_first: true,
        };
        [("consul/web".to_owned(), kept)].into()
    }

    #[tokio::test]
    async fn what_is_sent_is_read_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/consul.json");
        assert_eq!(read(&path), KeptAddresses::new());
        let sender = keep(path.clone());
        sender.send_replace(addresses());
        let kept = timeout(Duration::from_mins(1), async {
            while read(&path) != addresses() {
                sleep(Duration::from_millis(5)).await;
            }
        });
        kept.await.unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("consul.json");
        for text in ["", "{", r#"{"version":2,"addresses":{}}"#] {
            fs::write(&path, text).unwrap();
            assert_eq!(read(&path), KeptAddresses::new(), "{text}");
        }
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert_eq!(read(&folder.path().join("folder")), KeptAddresses::new());
    }
}
