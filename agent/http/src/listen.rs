//! TCP listeners for both families.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
};

use nix::errno::Errno;
use socket2::{Domain, Protocol, Socket, Type};

/// Number of connections that the kernel has ready for us.
const BACKLOG: i32 = 1024;

/// Listens at `address`. An unspecified one, of either family, stands for all addresses of both
/// families, as with kube-proxy, and for all of IPv4 on a host without IPv6.
///
/// # Errors
///
/// The kernel refuses, because the port is taken or the address is not here.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_unspecified() {
        return bind(address);
    }
    let any = |ip: IpAddr| SocketAddr::new(ip, address.port());
    match bind(any(Ipv6Addr::UNSPECIFIED.into())) {
        Err(error) if is_without_ipv6(&error) => bind(any(Ipv4Addr::UNSPECIFIED.into())),
        bound => bound,
    }
}

/// A kernel that was started with `ipv6.disable=1`, or that has none.
fn is_without_ipv6(error: &io::Error) -> bool {
    let none = [Errno::EAFNOSUPPORT, Errno::EADDRNOTAVAIL];
    let code = error.raw_os_error();
    none.iter().any(|none| Some(*none as i32) == code)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )?;
    // Connections of an earlier agent that are in TIME_WAIT are not in the way.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn an_unspecified_address_is_that_of_both_families() {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let listener = listen(address.parse().unwrap()).unwrap();
            let port = listener.local_addr().unwrap().port();
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            // Where there is no IPv6, no client uses it.
            if listener.local_addr().unwrap().is_ipv6() {
                TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
            }
        }
    }

    #[test]
    fn a_port_that_is_taken_is_refused() {
        let taken = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = taken.local_addr().unwrap().port();
        for ip in ["127.0.0.1", "0.0.0.0"] {
            let error = listen(SocketAddr::new(ip.parse().unwrap(), port)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{ip}");
        }
    }
}
