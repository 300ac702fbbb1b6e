//! Settings of the kernel that kube-proxy's configuration asks for.

use std::{fs, io, path::Path};

/// Settings of the kernel's connection tracking, which packets pass once they are translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetfilterConntrack {
    /// `nf_conntrack_tcp_timeout_established` in seconds; `None`: as it is.
    pub tcp_established: Option<u32>,
    /// `nf_conntrack_tcp_timeout_close_wait` in seconds.
    pub tcp_close_wait: Option<u32>,
    /// `nf_conntrack_udp_timeout` in seconds.
    pub udp: Option<u32>,
    /// `nf_conntrack_udp_timeout_stream` in seconds.
    pub udp_stream: Option<u32>,
    /// Whether to set `nf_conntrack_tcp_be_liberal`.
    pub tcp_be_liberal: bool,
}

impl NetfilterConntrack {
    /// Makes the kernel's settings so. Gives what could not be set, a sentence each. A kernel without
    /// connection tracking has nothing to set.
    pub fn apply(&self) -> Vec<String> {
        self.apply_in(Path::new("/proc/sys/net/netfilter"))
    }

    fn apply_in(&self, folder: &Path) -> Vec<String> {
        let Self {
            tcp_established,
            tcp_close_wait,
            udp,
            udp_stream,
            tcp_be_liberal,
        } = *self;
        let wanted = [
            ("nf_conntrack_tcp_timeout_established", tcp_established),
            ("nf_conntrack_tcp_timeout_close_wait", tcp_close_wait),
            ("nf_conntrack_udp_timeout", udp),
            ("nf_conntrack_udp_timeout_stream", udp_stream),
            ("nf_conntrack_tcp_be_liberal", tcp_be_liberal.then_some(1)),
        ];
        let failed = wanted.into_iter().filter_map(|(name, value)| {
            let value = value?.to_string();
            let error = set(&folder.join(name), &value).err()?;
            Some(format!(
                "net.netfilter.{name} cannot be set to {value}: {error}"
            ))
        });
        failed.collect()
    }
}

/// Writes a value that is not there already.
fn set(path: &Path, value: &str) -> io::Result<()> {
    match fs::read_to_string(path) {
        Ok(before) if before.trim() == value => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => fs::write(path, value),
    }
}

/// Says how likely the kernel is to end this process when memory runs out: from -1000, never, to 1000
/// (proc_pid_oom_score_adj(5)).
///
/// # Errors
///
/// To lower it needs CAP_SYS_RESOURCE.
pub fn set_oom_score(score: i32) -> io::Result<()> {
    set(Path::new("/proc/self/oom_score_adj"), &score.to_string())
}

#[cfg(test)]
mod tests {
    use std::{env, process};

    use super::*;

    #[test]
    fn only_what_is_asked_for_is_set() {
        let folder = env::temp_dir().join(format!("shunt-settings-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = |name: &str| folder.join(name);
        let (established, udp) = (
            file("nf_conntrack_tcp_timeout_established"),
            file("nf_conntrack_udp_timeout"),
        );
        fs::write(&established, "432000\n").unwrap();
        fs::write(&udp, "30\n").unwrap();
        fs::create_dir_all(file("nf_conntrack_udp_timeout_stream")).unwrap();
        let failed = NetfilterConntrack {
            tcp_established: Some(86_400),
            tcp_close_wait: Some(3600),
            udp: None,
            udp_stream: Some(5),
            tcp_be_liberal: false,
        }
        .apply_in(&folder);
        assert_eq!(fs::read_to_string(&established).unwrap(), "86400");
        assert_eq!(fs::read_to_string(&udp).unwrap(), "30\n");
        let [failed] = &failed[..] else {
            panic!("one cannot be written, not {failed:?}");
        };
        assert!(failed.starts_with("net.netfilter.nf_conntrack_udp_timeout_stream cannot"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
