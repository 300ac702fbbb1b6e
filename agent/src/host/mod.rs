//! This host: what it must offer, its addresses, and what it lets this process have.

pub(crate) mod addresses;
pub(crate) mod capabilities;
pub(crate) mod early_rules;
pub(crate) mod flowtables;
pub(crate) mod kernel_settings;
pub(crate) mod kernel_version;
pub(crate) mod kube_proxy;
mod nfnetlink;
pub(crate) mod open_files;
pub(crate) mod settings;
