//! Programs at system calls of the processes of a cgroup, by the family of the socket.

use aya_ebpf::{macros::cgroup_sock_addr, programs::SockAddrContext};

use crate::{
    ctx::sock_addr::SockAddr,
    socket::{bind, connect, reply, send},
};

/// Hook: `connect(2)`, and what stands for it (`sendto(2)` with `MSG_FASTOPEN`).
#[cgroup_sock_addr(connect4)]
#[inline(always)]
pub(crate) fn sock_connect4(context: SockAddrContext) -> i32 {
    connect::handle(&SockAddr::<false>(context))
}

/// As [`sock_connect4`].
#[cgroup_sock_addr(connect6)]
#[inline(always)]
pub(crate) fn sock_connect6(context: SockAddrContext) -> i32 {
    connect::handle(&SockAddr::<true>(context))
}

/// Hook: `sendto(2)`, `sendmsg(2)` of UDP sockets that give an address.
#[cgroup_sock_addr(sendmsg4)]
#[inline(always)]
pub(crate) fn sock_sendmsg4(context: SockAddrContext) -> i32 {
    send::handle(&SockAddr::<false>(context))
}

/// As [`sock_sendmsg4`].
#[cgroup_sock_addr(sendmsg6)]
#[inline(always)]
pub(crate) fn sock_sendmsg6(context: SockAddrContext) -> i32 {
    send::handle(&SockAddr::<true>(context))
}

/// Hook: `recvfrom(2)`, `recvmsg(2)` of UDP sockets that want the sender's address.
#[cgroup_sock_addr(recvmsg4)]
#[inline(always)]
pub(crate) fn sock_recvmsg4(context: SockAddrContext) -> i32 {
    reply::received(&SockAddr::<false>(context))
}

/// As [`sock_recvmsg4`].
#[cgroup_sock_addr(recvmsg6)]
#[inline(always)]
pub(crate) fn sock_recvmsg6(context: SockAddrContext) -> i32 {
    reply::received(&SockAddr::<true>(context))
}

/// Hook: `getpeername(2)`.
#[cgroup_sock_addr(getpeername4)]
#[inline(always)]
pub(crate) fn sock_getpeername4(context: SockAddrContext) -> i32 {
    reply::peer(&SockAddr::<false>(context))
}

/// As [`sock_getpeername4`].
#[cgroup_sock_addr(getpeername6)]
#[inline(always)]
pub(crate) fn sock_getpeername6(context: SockAddrContext) -> i32 {
    reply::peer(&SockAddr::<true>(context))
}

/// Hook: `bind(2)`.
#[cgroup_sock_addr(bind4)]
#[inline(always)]
pub(crate) fn sock_bind4(context: SockAddrContext) -> i32 {
    bind::handle(&SockAddr::<false>(context))
}

/// As [`sock_bind4`].
#[cgroup_sock_addr(bind6)]
#[inline(always)]
pub(crate) fn sock_bind6(context: SockAddrContext) -> i32 {
    bind::handle(&SockAddr::<true>(context))
}
