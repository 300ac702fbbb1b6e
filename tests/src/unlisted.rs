//! Sockets that this kernel does not list with their storage. The probe uses none of Shunt's code, so a
//! test that needs the list is skipped for the kernel's sake alone.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
};

use anyhow::{Context as _, Result, bail};
use aya::Btf;
use aya_obj::btf::BtfKind;
use nix::{
    libc,
    sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket},
};

use crate::{bpf::Program, client::Transport};

/// `BPF_PROG_TYPE_TRACING` and `BPF_TRACE_ITER` of `linux/bpf.h`.
const PROG_TYPE_TRACING: u32 = 26;
const TRACE_ITER: u32 = 28;

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`, and `INET_DIAG_REQ_SK_BPF_STORAGES` of
/// `linux/inet_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const STORAGES: u16 = 2;

/// Message types and flags of `linux/netlink.h`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;

/// Returns the reason why no agent can list the sockets of a transport with their storage, if there is one.
pub fn unlisted(transport: Transport) -> Option<String> {
    let listed = match transport {
        Transport::Tcp => diagnose(libc::IPPROTO_TCP),
        Transport::Udp => iterate().and_then(|_| diagnose(libc::IPPROTO_UDP)),
    };
    listed.err().map(|error| format!("{error:#}"))
}

/// Loads a program for the kernel's iterator over UDP sockets.
fn iterate() -> Result<OwnedFd> {
    let btf = Btf::from_sys_fs().context("the kernel's BTF")?;
    let target = btf
        .id_by_type_name_kind("bpf_iter_udp", BtfKind::Func)
        .context("the kernel's BTF")?;
    let program = Program {
        kind: PROG_TYPE_TRACING,
        name: "udp",
        result: 0,
        attach_type: TRACE_ITER,
        target,
    };
    program.load().context("a program of iter/udp")
}

/// Requests from sock_diag the IPv4 sockets of a protocol that are in no state at all, with their storage.
fn diagnose(protocol: i32) -> Result<()> {
    let state = [libc::AF_INET as u8, protocol as u8, 0, 0, 0, 0, 0, 0];
    let attribute = [4, STORAGES].map(u16::to_ne_bytes).concat();
    let request = [&state[..], &[0; 48], &attribute].concat();
    let length = (16 + request.len()) as u32;
    let kind = [SOCK_DIAG_BY_FAMILY, REQUEST_DUMP].map(u16::to_ne_bytes);
    let message = [
        &length.to_ne_bytes(),
        kind.as_flattened(),
        &[0; 8],
        &request,
    ]
    .concat();
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )
    .context("sock_diag")?;
    send(socket.as_raw_fd(), &message, MsgFlags::empty()).context("sock_diag")?;
    let mut answer = [0; 4096];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).context("sock_diag")?;
    match u16::from_ne_bytes([answer[4], answer[5]]) {
        DONE => Ok(()),
        ERROR => {
            let errno = [answer[16], answer[17], answer[18], answer[19]];
            let errno = i32::from_ne_bytes(errno).wrapping_neg();
            Err(io::Error::from_raw_os_error(errno)).context("sock_diag")
        }
        other => bail!("sock_diag: an answer of type {other}, {length} bytes long"),
    }
}
