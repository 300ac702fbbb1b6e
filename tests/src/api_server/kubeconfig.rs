//! Configuration of a client of this server.

use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

/// A folder with a kubeconfig and a token, removed when dropped.
pub(super) struct Kubeconfig {
    folder: PathBuf,
    path: String,
}

impl Kubeconfig {
    /// Leads to the server at `at` with the certificate `authority`, and sends `token` there.
    pub(super) fn write(at: SocketAddr, authority: &str, token: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("shunt-api-server-{}-{number}", process::id()));
        fs::create_dir_all(&folder).context("no folder for a kubeconfig")?;
        let path = folder.join("kubeconfig").display().to_string();
        let kubeconfig = Self { folder, path };
        kubeconfig.set_token(token)?;
        // JSON is YAML.
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{ "name": "test", "cluster": {
                "server": format!("https://{at}"),
                "certificate-authority-data": STANDARD.encode(authority),
            } }],
            "users": [{ "name": "test", "user": { "tokenFile": kubeconfig.token() } }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        });
        fs::write(&kubeconfig.path, text.to_string()).context("cannot write a kubeconfig")?;
        // The other files of a pod, besides its token.
        fs::write(kubeconfig.folder.join("ca.crt"), authority)
            .and_then(|()| fs::write(kubeconfig.folder.join("namespace"), "kube-system"))
            .context("cannot write a service account")?;
        Ok(kubeconfig)
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The folder, which a pod has of its service account.
    pub(super) fn service_account(&self) -> &Path {
        &self.folder
    }

    /// Replaces the token as a kubelet does, in one step. A file that a person has written ends with a
    /// newline.
    pub(super) fn set_token(&self, token: &str) -> Result<()> {
        let new = self.folder.join("token.new");
        fs::write(&new, format!("{token}\n"))
            .and_then(|()| fs::rename(&new, self.token()))
            .context("cannot write a token")
    }

    fn token(&self) -> PathBuf {
        self.folder.join("token")
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("left behind: {}: {error}", self.folder.display());
        }
    }
}
