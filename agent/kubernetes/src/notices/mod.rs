//! Notices for a cluster's users about their Services: Kubernetes Events. Their sending delays no
//! other task: a notice that cannot be sent at once is dropped, and counted.

pub(super) mod notice;
pub(super) mod outbox;
pub(crate) mod publisher;
pub(super) mod recorder;
