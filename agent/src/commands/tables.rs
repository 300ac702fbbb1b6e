//! Flags about the kernel's tables.

use clap::Args;
use shunt_datapath::{TableSizes, Timeouts};

/// How large the tables of each address family are. They are allocated at start.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct SizeArgs {
    /// How many frontends there can be
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().frontends)]
    max_frontends: u32,

    /// How many slots there can be: one for each backend of each set that frontends select from
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().slots)]
    max_slots: u32,

    /// How many backends there can be, counted once for each service port
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().backends)]
    max_backends: u32,

    /// How many conntrack entries there can be, two for each connection
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().conntrack)]
    max_conntrack: u32,

    /// How many clients of services with session affinity are remembered, for each frontend
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().affinity)]
    max_affinity: u32,

    /// How many source ranges there can be, counted once for each frontend
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().source_ranges)]
    max_source_ranges: u32,

    /// How many fragmented packets are remembered of which later fragments may come
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().fragments)]
    fragments: u32,
}

/// How long connections are remembered, in seconds.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ConntrackArgs {
    /// Silence after which a TCP connection without a reply is forgotten
    #[arg(long, value_name = "SECONDS", default_value_t = Timeouts::default().tcp_opening)]
    tcp_opening_timeout: u32,

    /// Silence after which an open TCP connection is forgotten
    #[arg(long, value_name = "SECONDS", default_value_t = Timeouts::default().tcp_established)]
    tcp_established_timeout: u32,

    /// Silence after which a TCP connection that one side has ended is forgotten
    #[arg(long, value_name = "SECONDS", default_value_t = Timeouts::default().tcp_closing)]
    tcp_closing_timeout: u32,

    /// Silence after which a TCP connection that both sides have ended, or one has reset, is
    /// forgotten
    #[arg(long, value_name = "SECONDS", default_value_t = Timeouts::default().tcp_closed)]
    tcp_closed_timeout: u32,

    /// Silence after which a TCP connection that both sides have ended is forgotten if its backend
    /// saw another source than the client's: for so long the backend may hold that source's port
    #[arg(long, value_name = "SECONDS", default_value_t = Timeouts::default().snat_closed)]
    snat_closed_timeout: u32,

    /// Silence after which a UDP flow without a reply is forgotten
    #[arg(long, value_name = "SECONDS", default_value_t = Timeouts::default().udp_one_way)]
    udp_one_way_timeout: u32,

    /// Silence after which a UDP flow with replies is forgotten
    #[arg(long, value_name = "SECONDS", default_value_t = Timeouts::default().udp_replied)]
    udp_replied_timeout: u32,

    /// Silence after which an SCTP association without a reply is forgotten
    #[arg(long, value_name = "SECONDS", default_value_t = Timeouts::default().sctp_opening)]
    sctp_opening_timeout: u32,

    /// Silence after which an SCTP association is forgotten; its peers send heartbeats
    #[arg(long, value_name = "SECONDS", default_value_t = Timeouts::default().sctp_established)]
    sctp_established_timeout: u32,

    /// Silence after which an SCTP association whose shutdown one side has acknowledged is forgotten
    #[arg(long, value_name = "SECONDS", default_value_t = Timeouts::default().sctp_closing)]
    sctp_closing_timeout: u32,

    /// Silence after which an SCTP association that is shut down or aborted is forgotten
    #[arg(long, value_name = "SECONDS", default_value_t = Timeouts::default().sctp_closed)]
    sctp_closed_timeout: u32,

    /// How often connections that are over are removed; each second while the table is more than
    /// three quarters full
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    conntrack_interval: u32,
}

impl SizeArgs {
    /// The sizes.
    pub(crate) const fn table_sizes(self) -> TableSizes {
        let Self {
            max_frontends,
            max_slots,
            max_backends,
            max_conntrack,
            max_affinity,
            max_source_ranges,
            fragments,
        } = self;
        TableSizes {
            frontends: max_frontends,
            slots: max_slots,
            backends: max_backends,
            conntrack: max_conntrack,
            affinity: max_affinity,
            source_ranges: max_source_ranges,
            fragments,
        }
    }
}

impl ConntrackArgs {
    /// How often to sweep, in seconds.
    pub(crate) const fn interval(&self) -> u32 {
        self.conntrack_interval
    }

    /// The timeouts.
    pub(crate) const fn timeouts(&self) -> Timeouts {
        let Self {
            tcp_opening_timeout,
            tcp_established_timeout,
            tcp_closing_timeout,
            tcp_closed_timeout,
            snat_closed_timeout,
            udp_one_way_timeout,
            udp_replied_timeout,
            sctp_opening_timeout,
            sctp_established_timeout,
            sctp_closing_timeout,
            sctp_closed_timeout,
            conntrack_interval: _,
        } = *self;
        Timeouts {
            tcp_opening: tcp_opening_timeout,
            tcp_established: tcp_established_timeout,
            tcp_closing: tcp_closing_timeout,
            tcp_closed: tcp_closed_timeout,
            snat_closed: snat_closed_timeout,
            udp_one_way: udp_one_way_timeout,
            udp_replied: udp_replied_timeout,
            sctp_opening: sctp_opening_timeout,
            sctp_established: sctp_established_timeout,
            sctp_closing: sctp_closing_timeout,
            sctp_closed: sctp_closed_timeout,
        }
    }
}
