//! The interfaces of the kernel and the C library that no crate wraps: the agent's only unsafe code;
//! and a crash or a slow verifier where a test wants one.

pub(crate) mod batch;
pub(crate) mod cgroup_link;
pub(crate) mod crash;
pub(crate) mod grace;
pub(crate) mod handwritten;
pub(crate) mod heap;
pub(crate) mod jiffies;
pub(crate) mod kernel_object;
pub(crate) mod link_type;
pub(crate) mod log_watch;
pub(crate) mod monotonic;
pub(crate) mod netns_cookie;
pub(crate) mod new_map;
pub(crate) mod preferred_source;
pub(crate) mod process_socket;
pub(crate) mod program_query;
pub(crate) mod raw;
pub(crate) mod route_lookup;
pub(crate) mod shared_array;
pub(crate) mod shared_words;
pub(crate) mod slow_verifier;
pub(crate) mod socket_iterator;
pub(crate) mod tag_stripping;
