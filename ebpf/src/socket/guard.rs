//! The guard for processes: the errors that packets would get, processes get at once.

use shunt_common::Counter;

use crate::{
    ctx::sock_addr::{Errno, SockAddr, fail},
    maps::{
        counters::count,
        guarded::{self, Filtered, guards, is_cluster_range},
    },
    socket::{
        frontend::Outcome,
        process::{Addresses, Owner},
    },
};

/// Returns the outcome of a system call that asks for no frontend, at this address. Pods' packets are
/// guarded themselves.
#[inline(always)]
pub(crate) fn judge<F: Addresses, const SIX: bool>(
    address: &F::Address,
    call: &SockAddr<SIX>,
) -> Outcome {
    if !guards() || !F::is_translated() {
        return Outcome::Untouched;
    }
    let filtered = Filtered::of::<F>(address);
    if !filtered.is_guarded() && !is_cluster_range::<F>(address) {
        return Outcome::Untouched;
    }
    let owner = guarded::owner_of::<F>(address);
    if Owner::of(call) != Some(Owner::Host) {
        return Outcome::Untouched;
    }
    match owner {
        guarded::Owner::ClusterIp => {
            count(Counter::SocketReject);
            Outcome::Fails(fail(Errno::ConnectionRefused))
        }
        guarded::Owner::Nobody => {
            count(Counter::SocketDrop);
            Outcome::Denied
        }
        guarded::Owner::External | guarded::Owner::Other => Outcome::Untouched,
    }
}
