//! One UDP socket that several threads use at once.

use std::{
    collections::HashMap,
    io,
    net::{SocketAddr, UdpSocket},
    thread,
};

use crate::messages::LONGEST_REPLY;

/// Each thread asks another target so often. Whichever thread an answer comes to, it has to name the
/// target whose question the backend had, by its CRC. Returns how many answers named another one.
pub(crate) fn ask(socket: &UdpSocket, times: usize, targets: &[SocketAddr]) -> io::Result<usize> {
    let question = |target: &SocketAddr, number: usize| format!("{number} for {target}");
    let asked: HashMap<_, _> = targets
        .iter()
        .flat_map(|target| {
            (0..times).map(move |number| {
                let crc = crc32fast::hash(question(target, number).as_bytes());
                (format!("{crc:08x}"), *target)
            })
        })
        .collect();
    let ask = |target: &SocketAddr| {
        let mut wrong = 0;
        for number in 0..times {
            socket.send_to(question(target, number).as_bytes(), target)?;
            let mut buffer = [0; LONGEST_REPLY];
            let (length, from) = socket.recv_from(&mut buffer)?;
            let reply = String::from_utf8_lossy(&buffer[..length]);
            let crc = reply.split_whitespace().last().unwrap_or_default();
            if asked.get(crc) != Some(&from) {
                eprintln!("{from} names itself in {}", reply.trim_end());
                wrong += 1;
            }
        }
        Ok(wrong)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = targets
            .iter()
            .map(|target| scope.spawn(|| ask(target)))
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                let panicked = |_| Err(io::Error::other("a thread panicked"));
                thread.join().unwrap_or_else(panicked)
            })
            .sum()
    })
}
