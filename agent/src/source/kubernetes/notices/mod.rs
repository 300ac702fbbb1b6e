//! What a cluster's users are told of their Services: Kubernetes Events. Telling it is in nobody's
//! way: what cannot be told at once is dropped, and counted.

pub(super) mod notice;
pub(super) mod outbox;
pub(crate) mod publisher;
pub(super) mod recorder;
