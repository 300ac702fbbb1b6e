//! What the stack of a namespace has counted.

use std::fs;

use shunt_tests::Namespace;

/// How many SYNs it has sent again: the mark of a packet that was lost.
pub(crate) fn repeated_syns(namespace: &Namespace) -> u64 {
    let text = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/netstat").unwrap());
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut columns = names.split(' ').zip(values.split(' '));
    let (_, value) = columns.find(|(name, _)| *name == "TCPSynRetrans").unwrap();
    value.parse().unwrap()
}
