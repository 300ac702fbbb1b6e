//! The sizes of the kernel's tables.

use clap::Args;
use shunt_datapath::TableSizes;

/// Sizes of the tables of each address family. They are allocated at start; those that are pinned already become larger
/// then, under traffic.
///
/// The one place that knows which flag sizes which table: the library names tables, and an error
/// about one of them gets its flag here.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Table sizes")]
pub(crate) struct SizeArgs {
    /// Maximum number of frontends of each address family
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().frontends,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_frontends: u32,

    /// Maximum number of slots of each address family: one for each backend of each set that frontends select from
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().slots,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_slots: u32,

    /// Maximum number of backends of each address family, counted once for each service port
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().backends,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_backends: u32,

    /// Maximum number of conntrack entries of each address family, two for each connection, if all connections are
    /// established
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().conntrack,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(TableSizes::MAX_CONNTRACK)))]
    max_conntrack: u32,

    /// Maximum number of clients of services with session affinity that are remembered in each address family, counted
    /// once for each service port
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().affinity,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_affinity: u32,

    /// Maximum number of source ranges of each address family, counted once for each frontend
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().source_ranges,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_source_ranges: u32,

    /// Maximum number of fragmented packets that are remembered in each address family, so that their later fragments
    /// follow the first
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().fragments,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_fragments: u32,

    /// Maximum number of service ports that are counted by themselves, of both families together; the others are
    /// translated all the same
    #[arg(long, value_name = "N", default_value_t = TableSizes::default().services,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(TableSizes::MAX_SERVICES)))]
    max_services: u32,
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
            max_fragments,
            max_services,
        } = self;
        TableSizes {
            frontends: max_frontends,
            slots: max_slots,
            backends: max_backends,
            conntrack: max_conntrack,
            affinity: max_affinity,
            source_ranges: max_source_ranges,
            fragments: max_fragments,
            services: max_services,
        }
    }
}
