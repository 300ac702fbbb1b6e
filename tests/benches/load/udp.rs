//! Requests over UDP.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    time::Instant,
};

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{MaybeUninitSlice, MsgHdr, MsgHdrMut, SockAddr, SockRef};

use super::{MESSAGE, PATIENCE, SourcePorts, Times};

/// Room for one control message: which of our addresses a datagram was sent to.
const CONTROL: usize = 32;

/// A socket on all addresses of this namespace, which learns the one that a datagram came to.
pub(super) fn serve_on(port: u16) -> io::Result<UdpSocket> {
    let socket = bind(port)?;
    setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
    Ok(socket)
}

/// A socket that does not wait forever.
fn bind(port: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Answers `count` requests, each from the address that it came to.
pub(super) fn echo(socket: &UdpSocket, count: usize) -> io::Result<()> {
    let socket = SockRef::from(socket);
    for _ in 0..count {
        let mut client = SockAddr::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
        let mut message = [MaybeUninit::new(0); MESSAGE];
        let mut control = [MaybeUninit::new(0); CONTROL];
        let mut buffers = [MaybeUninitSlice::new(&mut message)];
        let mut received = MsgHdrMut::new()
            .with_addr(&mut client)
            .with_buffers(&mut buffers)
            .with_control(&mut control);
        let length = socket.recvmsg(&mut received, 0)?;
        let told = received.control_len();
        // SAFETY: all bytes of both arrays had values before the kernel wrote over some of them.
        let (message, control) = unsafe {
            (
                message[..length].assume_init_ref(),
                control[..told].assume_init_ref(),
            )
        };
        // The control message of a received datagram that names our address names it for one that is sent, too.
        let answer = MsgHdr::new().with_addr(&client).with_control(control);
        socket.sendmsg(&answer.with_buffers(&[IoSlice::new(message)]), 0)?;
    }
    Ok(())
}

/// Requests from one port.
pub(super) fn requests(target: SocketAddrV4, mut times: Times) -> io::Result<Times> {
    let socket = bind(0)?;
    socket.connect(target)?;
    let mut message = [0; MESSAGE];
    let mut start = Instant::now();
    for _ in 0..times.wanted() {
        socket.send(&message)?;
        socket.recv(&mut message)?;
        start = times.put(start);
    }
    Ok(times)
}

/// Requests from one port, over a socket that is not connected.
pub(super) fn unconnected(target: SocketAddrV4, mut times: Times) -> io::Result<Times> {
    let socket = bind(0)?;
    let mut message = [0; MESSAGE];
    let mut start = Instant::now();
    for _ in 0..times.wanted() {
        socket.send_to(&message, target)?;
        let (_, from) = socket.recv_from(&mut message)?;
        start = times.put(start);
        if from != target.into() {
            return Err(io::Error::other(format!("{from} answers for {target}")));
        }
    }
    Ok(times)
}

/// Requests from a port each, all of which are bound before the first is sent.
pub(super) fn new_flows(
    target: SocketAddrV4,
    ports: &mut SourcePorts,
    mut times: Times,
) -> io::Result<Times> {
    let sockets: Vec<_> = (0..times.wanted())
        .map(|_| bind(ports.take()))
        .collect::<io::Result<_>>()?;
    let mut message = [0; MESSAGE];
    let mut start = Instant::now();
    for socket in &sockets {
        socket.send_to(&message, target)?;
        socket.recv(&mut message)?;
        start = times.put(start);
    }
    Ok(times)
}
