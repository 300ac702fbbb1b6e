//! Settings of the kernel that kube-proxy's configuration asks for.

use std::{fmt, fs, io, path::Path};

/// Settings of the kernel's connection tracking, which packets pass once they are translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NetfilterConntrack {
    /// `nf_conntrack_tcp_timeout_established` in seconds; `None`: as it is.
    pub(crate) tcp_established: Option<u32>,
    /// `nf_conntrack_tcp_timeout_close_wait` in seconds.
    pub(crate) tcp_close_wait: Option<u32>,
    /// `nf_conntrack_udp_timeout` in seconds.
    pub(crate) udp: Option<u32>,
    /// `nf_conntrack_udp_timeout_stream` in seconds.
    pub(crate) udp_stream: Option<u32>,
    /// True if to set `nf_conntrack_tcp_be_liberal`.
    pub(crate) tcp_be_liberal: bool,
    /// Minimum of `nf_conntrack_max`.
    pub(crate) max: Option<u32>,
}

/// Paths of the settings.
#[derive(Debug, Clone, Copy)]
struct Places<'a> {
    /// Of `net.netfilter`.
    netfilter: &'a Path,
    /// Of the module's parameters.
    module: &'a Path,
}

/// Number of connections for a bucket of the hash table, as kube-proxy has it.
const PER_BUCKET: u32 = 4;

impl NetfilterConntrack {
    /// Makes the kernel's settings so. Returns what could not be set, a sentence each. A kernel without
    /// connection tracking has nothing to set.
    pub(crate) fn apply(&self) -> Vec<String> {
        self.apply_in(Places {
            netfilter: Path::new("/proc/sys/net/netfilter"),
            module: Path::new("/sys/module/nf_conntrack/parameters"),
        })
    }

    fn apply_in(&self, Places { netfilter, module }: Places<'_>) -> Vec<String> {
        let Self {
            tcp_established,
            tcp_close_wait,
            udp,
            udp_stream,
            tcp_be_liberal,
            max,
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
            let error = set(&netfilter.join(name), &value).err()?;
            Some(format!(
                "net.netfilter.{name} cannot be set to {value}: {error}"
            ))
        });
        let mut failed: Vec<_> = failed.collect();
        if let Some(max) = max {
            let sizes = [
                (netfilter.join("nf_conntrack_max"), max),
                (module.join("hashsize"), max / PER_BUCKET),
            ];
            // The hash table is that of all namespaces: it stays if the first may not be set.
            let refused = sizes.iter().find_map(|(path, least)| {
                let error = raise(path, *least).err()?;
                Some(format!(
                    "{} is not raised to {least}: {error}",
                    path.display()
                ))
            });
            failed.extend(refused);
        }
        failed
    }
}

/// Why a number is not raised.
#[derive(Debug)]
enum RaiseError {
    /// The kernel has no connection tracking, or not yet.
    Missing,
    Io(io::Error),
    /// The text that is there.
    NoNumber(String),
}

impl fmt::Display for RaiseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str(
                "it is not there; load the module nf_conntrack before, if the kernel is to track connections",
            ),
            Self::Io(error) => error.fmt(f),
            Self::NoNumber(text) => write!(f, "`{text}` is no number"),
        }
    }
}

/// Writes a number where a lower one is.
fn raise(path: &Path, least: u32) -> Result<(), RaiseError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RaiseError::Missing),
        Err(error) => return Err(RaiseError::Io(error)),
    };
    let text = text.trim();
    let Ok(before) = text.parse::<u64>() else {
        return Err(RaiseError::NoNumber(text.to_owned()));
    };
    if before >= u64::from(least) {
        return Ok(());
    }
    fs::write(path, least.to_string()).map_err(RaiseError::Io)
}

/// Writes a value that is not there already.
fn set(path: &Path, value: &str) -> io::Result<()> {
    match fs::read_to_string(path) {
        Ok(before) if before.trim() == value => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => fs::write(path, value),
    }
}

/// Sets how likely the kernel is to end this process when memory runs out: from -1000, never, to 1000
/// (proc_pid_oom_score_adj(5)).
///
/// # Errors
///
/// To lower it needs CAP_SYS_RESOURCE.
pub(crate) fn set_oom_score(score: i32) -> io::Result<()> {
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
            max: None,
        }
        .apply_in(Places {
            netfilter: &folder,
            module: &folder,
        });
        assert_eq!(fs::read_to_string(&established).unwrap(), "86400");
        assert_eq!(fs::read_to_string(&udp).unwrap(), "30\n");
        let [failed] = &failed[..] else {
            panic!("one cannot be written, not {failed:?}");
        };
        assert!(failed.starts_with("net.netfilter.nf_conntrack_udp_timeout_stream cannot"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_size_is_raised_and_never_lowered() {
        let folder = env::temp_dir().join(format!("shunt-sizes-{}", process::id()));
        let (netfilter, module) = (folder.join("netfilter"), folder.join("module"));
        fs::create_dir_all(&netfilter).unwrap();
        fs::create_dir_all(&module).unwrap();
        let apply = |max| {
            let settings = NetfilterConntrack {
                max: Some(max),
                ..NetfilterConntrack::default()
            };
            settings.apply_in(Places {
                netfilter: &netfilter,
                module: &module,
            })
        };
        let missing = apply(131_072);
        assert_eq!(missing.len(), 1, "{missing:?}");
        assert!(missing[0].contains("load the module"), "{missing:?}");
        let (size, buckets) = (netfilter.join("nf_conntrack_max"), module.join("hashsize"));
        fs::write(&size, "65536\n").unwrap();
        fs::write(&buckets, "65536\n").unwrap();
        let found = || [&size, &buckets].map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(apply(131_072), [""; 0]);
        assert_eq!(found(), ["131072", "65536\n"], "it is larger already");
        assert_eq!(apply(2_097_152), [""; 0]);
        assert_eq!(found(), ["2097152", "524288"]);
        assert_eq!(apply(65_536), [""; 0]);
        assert_eq!(found(), ["2097152", "524288"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
