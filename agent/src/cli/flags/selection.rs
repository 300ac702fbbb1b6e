//! The selection of backends.

use clap::{Args, ValueEnum};
use shunt_model::{Selection, maglev::EntriesPerBackend};

/// Selection of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Way {
    /// At random
    #[default]
    Weighted,
    /// By the packet, from a Maglev table that is the same on all nodes
    Maglev,
}

/// Selection of frontends' backends.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Selection of backends")]
pub(crate) struct SelectionArgs {
    /// Selection of a new connection's backend, each by its weight, where clients come from outside (NodePort,
    /// ExternalIP, load balancer) and the service does not set it
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    external_selection: Way,

    /// Least number of entries of a Maglev table for each backend, 100 to 1000: the more, the fewer flows move when a
    /// backend goes, and the more slots it takes (--max-slots). The same on all nodes
    #[arg(long, value_name = "N", default_value = "100", value_parser = entries)]
    maglev_entries_per_backend: EntriesPerBackend,
}

impl SelectionArgs {
    /// Returns the selection of external frontends.
    pub(crate) const fn external(self) -> Selection {
        match self.external_selection {
            Way::Weighted => Selection::Weighted,
            Way::Maglev => Selection::Maglev,
        }
    }

    /// The size of Maglev tables.
    pub(crate) const fn maglev_entries(self) -> EntriesPerBackend {
        self.maglev_entries_per_backend
    }
}

fn entries(text: &str) -> Result<EntriesPerBackend, String> {
    let number = text.parse().ok().and_then(EntriesPerBackend::new);
    number.ok_or_else(|| {
        format!(
            "expected a number from {} to {}",
            EntriesPerBackend::FEWEST,
            EntriesPerBackend::MOST
        )
    })
}
