//! Programs on interfaces: on which, how, and what becomes of them as interfaces come and go. And
//! programs at a cgroup, which see what processes do with sockets.

pub(crate) mod attachment;
pub(crate) mod attachments;
pub(crate) mod cgroup;
mod cgroup_mount;
mod chosen_uplinks;
mod client_side;
pub(crate) mod clsact;
mod default_routes;
pub(crate) mod expedite;
pub(crate) mod filter_watch;
pub(crate) mod hook;
pub(crate) mod interface_watch;
pub(crate) mod link_layer;
pub(crate) mod pod_interfaces;
pub(crate) mod release;
pub(crate) mod reverse_path_watch;
pub(crate) mod reverse_paths;
pub(crate) mod screen_watch;
pub(crate) mod screens;
pub(crate) mod selection;
pub(crate) mod socket_hook;
pub(crate) mod sockets;
pub(crate) mod stations;
mod tags;
pub(crate) mod uplink;
mod uplink_watch;
pub(crate) mod uplinks;
pub(crate) mod xdp;
