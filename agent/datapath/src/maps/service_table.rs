//! The counts of each service port, as the publisher and those who look at it see it.

use std::{fmt, io};

use shunt_common::{Counter, ServiceEntry, ServiceNumber, ServiceTraffic};

/// Family of frontends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrontendsOf {
    /// Frontends of IPv4.
    V4,
    /// Frontends of IPv6.
    V6,
}

/// Counts of a service port on all processors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceCounts {
    /// Connections whose first packet chose a backend, and sockets that did.
    pub connections: u64,
    /// Numbers of what was rejected or dropped, for each reason that there was.
    pub refused: Vec<(Counter, u64)>,
    /// Packets and bytes, if they are counted.
    pub traffic: Option<TrafficCounts>,
}

/// Packets of a service port's connections, and their bytes from the IP header on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficCounts {
    /// Of clients.
    pub request_packets: u64,
    /// Of clients.
    pub request_bytes: u64,
    /// Of backends.
    pub reply_packets: u64,
    /// Of backends.
    pub reply_bytes: u64,
}

impl TrafficCounts {
    /// These, and what one more processor has counted.
    pub(crate) const fn and(self, traffic: &ServiceTraffic) -> Self {
        Self {
            request_packets: self.request_packets + traffic.request_packets,
            request_bytes: self.request_bytes + traffic.request_bytes,
            reply_packets: self.reply_packets + traffic.reply_packets,
            reply_bytes: self.reply_bytes + traffic.reply_bytes,
        }
    }
}

/// The reasons for which a service port's packets were refused, out of its entry.
pub(crate) fn refused(entry: &ServiceEntry) -> Vec<(Counter, u64)> {
    let counts = ServiceEntry::REFUSALS.into_iter().zip(entry.refused);
    counts.filter(|(_, count)| *count > 0).collect()
}

/// The tables of service ports: the kernel's or, in tests, plain memory. Indexes are below
/// [`Self::capacity`].
pub(crate) trait ServiceTable: fmt::Debug + Send {
    /// Returns the number of indexes; the first one has no owner.
    fn capacity(&self) -> u32;

    /// Returns the owner of the index, and what was refused.
    fn entry(&self, index: u32) -> ServiceEntry;

    /// Makes the index of this number that of a service port of which nothing is counted yet.
    ///
    /// # Errors
    ///
    /// If the kernel refuses; it has no owner then.
    fn begin(&mut self, number: ServiceNumber, fingerprint: u64) -> io::Result<()>;

    /// Goes on counting for the service port that an earlier agent gave this number.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    fn resume(&mut self, number: ServiceNumber) -> io::Result<()>;

    /// Leaves the index without an owner; connections that remember its number are not counted any more.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to see to the connections.
    fn end(&mut self, index: u32) -> io::Result<()>;

    /// Returns the counts at the index.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    fn counts(&self, index: u32) -> io::Result<ServiceCounts>;

    /// The service port of the frontend with this index.
    fn of_frontend(&self, family: FrontendsOf, frontend: u32) -> ServiceNumber;

    /// Makes it this one.
    fn set_of_frontend(&mut self, family: FrontendsOf, frontend: u32, number: ServiceNumber);
}
